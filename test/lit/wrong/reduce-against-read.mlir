// In one parallel step every rank adds into its neighbour what that one is just reading.
// RUN: not ccl check %s 2>&1 | FileCheck %s
// RUN: not ccl check %s --json 2>&1 | FileCheck %s --check-prefix=JSON
// RUN: not ccl run %s 2>&1 | FileCheck %s --implicit-check-not="Out of bounds"
// JSON: "verdict":"race",{{.*}}"kind":"conflict","rank":1,{{.*}}"buffer":"x","chunk":0,"have":"reduced into and read in one step","want":"only reads, only reduces, or one write"

ccl.algorithm @reduce_against_read implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  affine.parallel (%r) = (0) to (2) {
    // CHECK: reduce-against-read.mlir:[[@LINE+2]]:5: error: rank 1, x[0] is read here and reduced into by the reduce of rank 0, x[0] into rank 1, x[0] of the same parallel step
    // CHECK: reduce-against-read.mlir:[[@LINE+1]]:5: note: reduced into there
    ccl.reduce %x[%r, 0] into %x[(%r + 1) mod 2, 0]
  }
}
