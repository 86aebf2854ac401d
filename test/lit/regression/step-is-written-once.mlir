// A step whose sends and receives cannot alternate is projected in another way: nothing of the first
// try, as the offer of a direct move, may stay.
// RUN: ccl-opt %s --ccl-lower-to-program=slots=1 | ccl-opt --pass-pipeline='builtin.module(ccl-check-program{remark=true})' -o /dev/null 2>&1 | FileCheck %s
// CHECK: remark: programs ok
ccl.algorithm @once implements #ccl.contract<custom, in = 3, out = 3,
    rows = [1, 0, 0, 0, 1, 1, 0, 1, 1, 2, 0, 2, 0, 0, 1, 0]> {
  %in = ccl.buffer in ranks(2) chunks(3)
  %out = ccl.buffer out ranks(2) chunks(3)
  affine.parallel (%i) = (0) to (1) {
    ccl.copy %in[0, 0] into %out[1, 0] via staged
    ccl.copy %in[0, 1] into %out[1, 1] via staged
    ccl.copy %in[0, 2] into %out[1, 2] via direct
    ccl.copy %in[1, 0] into %out[0, 0] via staged
  }
}
