// The first loop of the ring goes one step too far: a sum comes back to where it began.
// RUN: not ccl check %s 2>&1 | FileCheck %s
// RUN: not ccl check %s --json 2>&1 | FileCheck %s --check-prefix=JSON
// RUN: not ccl run %s 2>&1 | FileCheck %s --implicit-check-not="Out of bounds"
// JSON: "verdict":"wrong",{{.*}}"kind":"double_count","rank":1,{{.*}}"buffer":"x","chunk":1,"have":"{0.1, 1.1 x2, 2.1}","want":"{0.1, 1.1, 2.1}"

ccl.algorithm @double_count implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(3) chunks(3)
  affine.for %s = 1 to 4 {
    affine.parallel (%r) = (0) to (3) {
      // CHECK: double-count.mlir:[[@LINE+1]]:7: error: rank 1, x[1] would hold {0.1, 1.1 x2, 2.1}, wants {0.1, 1.1, 2.1}; the contribution of rank 1 (chunk 1) is counted twice
      ccl.reduce %x[%r, (%r - %s + 1) mod 3] into %x[(%r + 1) mod 3, (%r - %s + 1) mod 3]
    }
  }
}
