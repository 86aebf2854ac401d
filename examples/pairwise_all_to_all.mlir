// Shard q of rank r becomes shard r of rank q.
//
// In step s every rank sends to the one s places on, and receives from the one s places
// back: in each step every rank sends one shard and receives one.
ccl.algorithm @pairwise(%n: index) implements #ccl.contract<all_to_all> {
  %in = ccl.buffer in ranks(%n) chunks(%n)
  %out = ccl.buffer out ranks(%n) chunks(%n)
  affine.parallel (%r) = (0) to (symbol(%n)) {
    ccl.copy %in[%r, %r] into %out[%r, %r]
  }
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.copy %in[%r, (%r + %s) mod symbol(%n)]
          into %out[(%r + %s) mod symbol(%n), %r]
    }
  }
}
