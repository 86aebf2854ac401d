// Two chunks are moved from the last one on.
// RUN: not ccl check %s 2>&1 | FileCheck %s
// RUN: not ccl check %s --json 2>&1 | FileCheck %s --check-prefix=JSON
// RUN: not ccl run %s 2>&1 | FileCheck %s --implicit-check-not="Out of bounds"
// JSON: "verdict":"malformed",{{.*}}"kind":"out_of_range","rank":1,{{.*}}"buffer":"x","chunk":1,"have":"chunk 2","want":"[0, 2)"

ccl.algorithm @count_out_of_range implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(2) chunks(2)
  affine.for %c = 0 to 2 {
    // CHECK: count-out-of-range.mlir:[[@LINE+1]]:5: error: rank 1, x: chunk 2 is outside [0, 2) (2 chunks from chunk 1 on)
    ccl.reduce %x[0, %c] into %x[1, %c] x 2
  }
}
