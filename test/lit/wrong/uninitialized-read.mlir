// Rank 1 passes on what it has not got yet: the steps stand in the wrong order.
// RUN: not ccl check %s 2>&1 | FileCheck %s
// RUN: not ccl check %s --json 2>&1 | FileCheck %s --check-prefix=JSON
// RUN: not ccl run %s 2>&1 | FileCheck %s --implicit-check-not="Out of bounds"
// JSON: "verdict":"uninitialized",{{.*}}"kind":"uninitialized","rank":1,{{.*}}"buffer":"x","chunk":0,"have":"{{.*}}","want":"what was written before"

ccl.algorithm @uninitialized_read implements #ccl.contract<broadcast, root = 0> {
  %x = ccl.buffer inout ranks(3) chunks(1)
  // CHECK: uninitialized-read.mlir:[[@LINE+1]]:3: error: rank 1, x[0] is read, but holds nothing: it was never written; in broadcast only rank 0 has input
  ccl.copy %x[1, 0] into %x[2, 0]
  ccl.copy %x[0, 0] into %x[1, 0]
}
