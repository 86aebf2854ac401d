// Half of each shard is put, the other half is read by another agent.
ccl.algorithm @halves(%n: index) implements #ccl.contract<all_to_all> {
  %in = ccl.buffer in ranks(%n) chunks(%n, 2)
  %out = ccl.buffer out ranks(%n) chunks(%n, 2)
  affine.for %s = 0 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.copy %in[%r, (%r + %s) mod symbol(%n), 0]
          into %out[(%r + %s) mod symbol(%n), %r, 0] via put agents(0 to 0)
      ccl.copy %in[%r, (%r + %s) mod symbol(%n), 1]
          into %out[(%r + %s) mod symbol(%n), %r, 1] via direct agents(1 to 2)
    }
  }
}
