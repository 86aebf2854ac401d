// A copy where a reduce is meant: the root's own input is gone.
// RUN: not ccl check %s 2>&1 | FileCheck %s
// RUN: not ccl check %s --json 2>&1 | FileCheck %s --check-prefix=JSON
// RUN: not ccl run %s 2>&1 | FileCheck %s --implicit-check-not="Out of bounds"
// JSON: "verdict":"wrong",{{.*}}"kind":"wrong","rank":1,{{.*}}"buffer":"out","chunk":0,"have":"{0.0}","want":"{0.0, 1.0}"

ccl.algorithm @input_lost implements #ccl.contract<reduce, max, root = 1> {
  %in = ccl.buffer in ranks(2) chunks(1)
  %out = ccl.buffer out ranks(2) chunks(1)
  ccl.copy %in[1, 0] into %out[1, 0]
  // CHECK: input-lost.mlir:[[@LINE+1]]:3: error: reduce max is not met: rank 1, out[0] holds {0.0}, wants {0.0, 1.0}; the contribution of rank 1 (chunk 0) is missing
  ccl.copy %in[0, 0] into %out[1, 0]
}
