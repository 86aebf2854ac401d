// The second loop of the ring ends too early: every rank misses one sum.
// RUN: not ccl check %s 2>&1 | FileCheck %s
// RUN: not ccl check %s --json 2>&1 | FileCheck %s --check-prefix=JSON
// RUN: not ccl run %s 2>&1 | FileCheck %s --implicit-check-not="Out of bounds"
// JSON: "verdict":"wrong",{{.*}}"kind":"wrong","rank":1,{{.*}}"buffer":"x","chunk":3,"have":"{0.3, 1.3, 3.3}","want":"{0.3, 1.3, 2.3, 3.3}"

ccl.algorithm @missing_last_step implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  affine.for %s = 1 to 4 {
    affine.parallel (%r) = (0) to (4) {
      // CHECK: missing-last-step.mlir:[[@LINE+3]]:7: error: all_reduce sum is not met: rank 1, x[3] holds {0.3, 1.3, 3.3}, wants {0.3, 1.3, 2.3, 3.3}; the contribution of rank 2 (chunk 3) is missing
      // CHECK: missing-last-step.mlir:[[@LINE+2]]:7: note: rank 1, x[3] was last written by the reduce of rank 0, x[3] into rank 1, x[3]
      // CHECK: missing-last-step.mlir:[[@LINE+1]]:7: note: which used the result of the reduce of rank 3, x[3] into rank 0, x[3]
      ccl.reduce %x[%r, (%r - %s + 1) mod 4] into %x[(%r + 1) mod 4, (%r - %s + 1) mod 4]
    }
  }
  affine.for %s = 1 to 3 {
    affine.parallel (%r) = (0) to (4) {
      ccl.copy %x[%r, (%r - %s + 2) mod 4] into %x[(%r + 1) mod 4, (%r - %s + 2) mod 4]
    }
  }
}
