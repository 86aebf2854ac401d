// What comes by one agent is sent on by others.
ccl.algorithm @relay implements #ccl.contract<broadcast> {
  %in = ccl.buffer in ranks(4) chunks(2)
  %out = ccl.buffer out ranks(4) chunks(2)
  ccl.copy %in[0, 0] into %out[0, 0] x 2 agents(2 to 2)
  ccl.copy %in[0, 0] into %out[1, 0] x 2 via put agents(0 to 1, 0)
  affine.parallel (%r) = (2) to (4) {
    ccl.copy %out[1, 0] into %out[%r, 0] via put agents(0 to 0)
    ccl.copy %out[1, 1] into %out[%r, 1] via staged agents(1 to 1)
  }
}
