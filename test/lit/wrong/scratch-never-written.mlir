// Scratch holds nothing at entry: the second step reads another chunk than the first wrote.
// RUN: not ccl check %s 2>&1 | FileCheck %s
// RUN: not ccl check %s --json 2>&1 | FileCheck %s --check-prefix=JSON
// RUN: not ccl run %s 2>&1 | FileCheck %s --implicit-check-not="Out of bounds"
// JSON: "verdict":"uninitialized",{{.*}}"kind":"uninitialized","rank":0,{{.*}}"buffer":"t","chunk":1,"have":"{{.*}}","want":"what was written before"

ccl.algorithm @scratch_never_written implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(2) chunks(2)
  %t = ccl.buffer scratch ranks(2) chunks(2)
  affine.parallel (%r) = (0) to (2) {
    ccl.copy %x[%r, 0] into %t[(%r + 1) mod 2, 0]
  }
  affine.parallel (%r) = (0) to (2) {
    // CHECK: scratch-never-written.mlir:[[@LINE+1]]:5: error: rank 0, t[1] is read, but holds nothing: it was never written
    ccl.reduce %t[%r, 1] into %x[%r, 1]
  }
}
