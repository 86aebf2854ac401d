// RUN: ccl-opt %s --ccl-decompose --split-input-file -verify-diagnostics
// RUN: not ccl-opt %s --ccl-decompose=bytes=0 --split-input-file 2>&1 | FileCheck %s
// CHECK: --bytes option: '0': a size is 1 to 1125899906842624 bytes

// Along no axis are all groups joined: the way from 0 to 2 leads through rank 1.
ccl.topology @t ranks(node = 2, gpu = 2) {
  ccl.link 0 to 1 bandwidth 1.0
  ccl.link 1 to 2 bandwidth 1.0
  ccl.link 2 to 3 bandwidth 1.0
  ccl.link 3 to 0 bandwidth 1.0
}
// expected-remark @below {{stays whole: no order of axes works: along node ranks 0 and 2 are not joined}}
ccl.all_gather @no_way on @t

// -----

ccl.topology @t ranks(node = 2, gpu = 2) {
  ccl.link 0 to 1 bandwidth 1.0
}
// expected-error @below {{cannot be decomposed: rank 1}}
ccl.all_gather @unreachable on @t

// -----

ccl.topology @t ranks(node = 2, gpu = 2) {
  ccl.switch "all"
  ccl.link 0 to "all" bandwidth 1.0
  ccl.link 1 to "all" bandwidth 1.0
  ccl.link 2 to "all" bandwidth 1.0
  ccl.link 3 to "all" bandwidth 1.0
  ccl.link "all" to 0 bandwidth 1.0
  ccl.link "all" to 1 bandwidth 1.0
  ccl.link "all" to 2 bandwidth 1.0
  ccl.link "all" to 3 bandwidth 1.0
}
// expected-error @below {{has root 4; ranks are 0 to 3}}
ccl.broadcast @root root 4 on @t

// -----

ccl.topology @t ranks(a = 2, b = 2, c = 2, d = 2, e = 2, f = 2) {
}
// expected-remark @below {{stays whole: it has 6 axes; at most 5 are decomposed}}
ccl.all_gather @many on @t
