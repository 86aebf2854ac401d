// Rank r adds up chunk r of all inputs (first shot); then everybody fetches every sum
// from the rank that made it (second shot).
//
// Two steps, and no more data than a ring: the middle between one-shot and ring. It
// holds in place, too: chunk r of rank r is written by rank r alone, and nobody else
// reads it before it is the sum.
ccl.algorithm @two_shot(%n: index) implements #ccl.contract<all_reduce, sum> {
  %in = ccl.buffer in ranks(%n) chunks(%n)
  %out = ccl.buffer out ranks(%n) chunks(%n)

  // First shot: reduce-scatter.
  affine.parallel (%r) = (0) to (symbol(%n)) {
    ccl.copy %in[%r, %r] into %out[%r, %r]
  }
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.reduce %in[(%r + %s) mod symbol(%n), %r] into %out[%r, %r]
    }
  }

  // Second shot: all-gather.
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.copy %out[(%r + %s) mod symbol(%n), (%r + %s) mod symbol(%n)]
          into %out[%r, (%r + %s) mod symbol(%n)]
    }
  }
}
