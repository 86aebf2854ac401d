// Both ranks gather into the same place at the same time.
// RUN: not ccl check %s 2>&1 | FileCheck %s
// RUN: not ccl check %s --json 2>&1 | FileCheck %s --check-prefix=JSON
// RUN: not ccl run %s 2>&1 | FileCheck %s --implicit-check-not="Out of bounds"
// JSON: "verdict":"race",{{.*}}"kind":"conflict","rank":1,{{.*}}"buffer":"out","chunk":0,"have":"written and written in one step","want":"only reads, only reduces, or one write"

ccl.algorithm @two_writes implements #ccl.contract<gather, root = 1> {
  %in = ccl.buffer in ranks(2) chunks(1)
  %out = ccl.buffer out ranks(2) chunks(2)
  affine.parallel (%r) = (0) to (2) {
    // CHECK: two-writes.mlir:[[@LINE+2]]:5: error: rank 1, out[0] is written here and written by the copy of rank 0, in[0] into rank 1, out[0] of the same parallel step
    // CHECK: two-writes.mlir:[[@LINE+1]]:5: note: written there
    ccl.copy %in[%r, 0] into %out[1, 0]
  }
}
