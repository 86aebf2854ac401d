// Two rings in opposite directions, each an agent; a third agent waits for the second ring, too.
ccl.algorithm @two_rings(%n: index) implements #ccl.contract<all_gather> {
  %in = ccl.buffer in ranks(%n) chunks(2)
  %out = ccl.buffer out ranks(%n) chunks(%n, 2)
  affine.parallel (%r) = (0) to (symbol(%n)) {
    ccl.copy %in[%r, 0] into %out[%r, %r, 0] x 2 agents(3 to 3)
    ccl.copy %in[%r, 0] into %out[(%r + 1) mod symbol(%n), %r, 0] via put agents(0 to 0)
    ccl.copy %in[%r, 1] into %out[(%r - 1) mod symbol(%n), %r, 1] via put agents(1 to 1, 2)
  }
  affine.for %s = 1 to affine_map<(d0) -> (d0 - 1)>(%n) {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.copy %out[%r, (%r - %s) mod symbol(%n), 0]
          into %out[(%r + 1) mod symbol(%n), (%r - %s) mod symbol(%n), 0] via put agents(0 to 0)
      ccl.copy %out[%r, (%r + %s) mod symbol(%n), 1]
          into %out[(%r - 1) mod symbol(%n), (%r + %s) mod symbol(%n), 1] via put agents(1 to 1, 2)
    }
  }
}
