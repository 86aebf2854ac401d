// RUN: ccl-opt %s --ccl-synthesize --split-input-file -verify-diagnostics
// RUN: not ccl-opt %s --ccl-synthesize=model=fast --split-input-file 2>&1 | FileCheck %s --check-prefix=MODEL
// MODEL: ccl-synthesize: there is no cost model 'fast'; there are ccl, taccl
// RUN: not ccl-opt %s --ccl-synthesize=k=-1 --split-input-file 2>&1 | FileCheck %s --check-prefix=LIMIT
// LIMIT: ccl-synthesize: k is -1
// RUN: not ccl-opt %s --ccl-synthesize=time-limit=-1 --split-input-file 2>&1 | FileCheck %s --check-prefix=TIME
// TIME: ccl-synthesize: time-limit is seconds from 0 on

// The ranks of a node have no link among them.
ccl.topology @t ranks(node = 2, gpu = 2) {
  ccl.link 0 to 2 bandwidth 1.0
  ccl.link 2 to 1 bandwidth 1.0
  ccl.link 1 to 3 bandwidth 1.0
  ccl.link 3 to 0 bandwidth 1.0
}
// expected-error @below {{gets no algorithm along gpu, among ranks 0, 1}}
ccl.all_gather @no_link on @t axes(gpu)

// -----

ccl.topology @t ranks(gpu = 2) {
}
// expected-error @below {{gets no algorithm: rank 0 cannot reach rank 1: no path of links}}
ccl.all_gather @unreachable on @t

// -----

ccl.topology @t ranks(gpu = 2) {
  ccl.link 0 to 1 bandwidth 1.0
  ccl.link 1 to 0 bandwidth 1.0
}
// expected-error @below {{gets no algorithm: root 7: ranks are 0 to 1}}
ccl.broadcast @root root 7 on @t
