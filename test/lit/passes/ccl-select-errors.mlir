// RUN: ccl-opt %s --ccl-select --split-input-file -verify-diagnostics
// RUN: not ccl-opt %s --ccl-select=bytes=-5 --split-input-file 2>&1 | FileCheck %s
// CHECK: --bytes option: '-5' is not a size: expected a number such as 4096, 8K, 64M
// RUN: not ccl-opt %s --ccl-select=bytes=1K,7X --split-input-file 2>&1 | FileCheck %s --check-prefix=UNIT
// UNIT: --bytes option: '7X' is not a size: the suffixes are K, M, G and T

ccl.topology @t ranks(gpu = 2) {
  ccl.link 0 to 1 bandwidth 1.0
  ccl.link 1 to 0 bandwidth 1.0
}
// expected-error @below {{has no algorithm to select: none meets its contract on 2 ranks}}
ccl.all_gather @none on @t

// -----

ccl.topology @t ranks(gpu = 2) {
  ccl.link 0 to 1 bandwidth 1.0
  ccl.link 1 to 0 bandwidth 1.0
}
// What is wrong is never the fastest.
// expected-error @below {{has no algorithm to select: }}
ccl.all_gather @wrong on @t
ccl.algorithm @nothing implements #ccl.contract<all_gather> {
  %x = ccl.buffer inout ranks(2) chunks(2)
  ccl.copy %x[0, 0] into %x[1, 0]
}

// -----

ccl.topology @t ranks(gpu = 2) {
  ccl.link 0 to 1 bandwidth 1.0
}
// expected-error @below {{has a topology that nothing is simulated on: rank 1 cannot reach rank 0}}
ccl.all_gather @unreachable on @t
