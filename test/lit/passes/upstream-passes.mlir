// Upstream passes keep algorithms and programs as they are: moves have memory effects,
// buffers are neither merged nor dropped.
// RUN: ccl-opt %s > %t
// RUN: ccl-opt %s --canonicalize --cse --loop-invariant-code-motion --control-flow-sink --sccp --symbol-dce --inline --topological-sort --mem2reg --sroa --affine-loop-fusion | diff - %t

ccl.algorithm @a implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer in ranks(4) chunks(1)
  %y = ccl.buffer out ranks(4) chunks(1)
  %t = ccl.buffer scratch ranks(4) chunks(1)
  %u = ccl.buffer scratch ranks(4) chunks(1)
  affine.parallel (%arg0) = (0) to (4) {
    ccl.copy %x[%arg0, 0] into %y[%arg0, 0]
  }
  affine.for %arg0 = 1 to 4 {
    affine.parallel (%arg1) = (0) to (4) {
      ccl.reduce %x[(%arg0 + %arg1) mod 4, 0] into %y[%arg1, 0]
    }
  }
}
ccl.program @a.p(%me) of @a ranks(0 to 4) {
  %x = ccl.buffer in chunks(1)
  %y = ccl.buffer out chunks(1)
  %t = ccl.buffer scratch chunks(1)
  %u = ccl.buffer scratch chunks(1)
  ccl.block 0 {
    ccl.transfer from %x[0] to %t[0]
    ccl.transfer from %x[0] to %u[0]
    ccl.transfer from %x[0] to %y[0]
    affine.for %arg0 = 1 to 4 {
      %to = ccl.channel to (%arg0 + %me) mod 4 tag 1
      ccl.signal %to
      %from = ccl.channel from (%me - %arg0) mod 4 tag 1
      ccl.wait %from
    }
  }
}
