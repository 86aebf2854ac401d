// `mod 4` is forgotten: the last rank sends to a rank that does not exist.
// RUN: not ccl check %s 2>&1 | FileCheck %s
// RUN: not ccl check %s --json 2>&1 | FileCheck %s --check-prefix=JSON
// RUN: not ccl run %s 2>&1 | FileCheck %s --implicit-check-not="Out of bounds"
// JSON: "verdict":"malformed",{{.*}}"kind":"out_of_range","rank":4,{{.*}}"buffer":"x","chunk":{{.*}},"have":"rank 4","want":"[0, 4)"

ccl.algorithm @rank_out_of_range implements #ccl.contract<all_gather> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  affine.for %s = 1 to 4 {
    affine.parallel (%r) = (0) to (4) {
      // CHECK: rank-out-of-range.mlir:[[@LINE+1]]:7: error: x: rank 4 is outside [0, 4)
      ccl.copy %x[%r, (%r - %s + 1) mod 4] into %x[%r + 1, (%r - %s + 1) mod 4]
    }
  }
}
