// Transposed: what rank r gets from rank q lands where it should have come from. Places that
// nobody writes are reported at the buffer.
// RUN: not ccl check %s 2>&1 | FileCheck %s
// RUN: not ccl check %s --json 2>&1 | FileCheck %s --check-prefix=JSON
// RUN: not ccl run %s 2>&1 | FileCheck %s --implicit-check-not="Out of bounds"
// JSON: "verdict":"wrong",{{.*}}"kind":"wrong","rank":0,{{.*}}"buffer":"out","chunk":1,"have":"{{.*}}","want":"{1.0}"

ccl.algorithm @never_written implements #ccl.contract<all_to_all> {
  %in = ccl.buffer in ranks(3) chunks(3)
  // CHECK: never-written.mlir:[[@LINE+1]]:10: error: all_to_all is not met: rank 0, out[1] holds nothing, wants {1.0}; the contribution of rank 1 (chunk 0) is missing
  %out = ccl.buffer out ranks(3) chunks(3)
  affine.for %s = 0 to 3 {
    affine.parallel (%r) = (0) to (3) {
      // CHECK: never-written.mlir:[[@LINE+1]]:7: error: all_to_all is not met: rank 2, out[2] holds {0.2}, wants {2.2}; the contribution of rank 2 (chunk 2) is missing, the contribution of rank 0 (chunk 2) should not be there
      ccl.copy %in[%r, (%r + %s) mod 3] into %out[(%r + %s) mod 3, (%r + %s) mod 3]
    }
  }
}
