// The ring, for any number of ranks. Rank r only ever talks to rank r + 1.
//
// First loop: the sum of every chunk grows while it travels. In step s rank r adds its
// chunk r - s + 1 into the next rank's, which passes that one on in step s + 1. After
// n - 1 steps rank r holds the whole sum of chunk r + 1.
//
// Second loop: the sums travel on, and overwrite what is there.
//
// 2 (n - 1) steps; every rank sends 2 (n - 1) / n of its data, which is the least possible.
ccl.algorithm @ring(%n: index) implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.reduce %x[%r, (%r - %s + 1) mod symbol(%n)]
            into %x[(%r + 1) mod symbol(%n), (%r - %s + 1) mod symbol(%n)]
    }
  }
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.copy %x[%r, (%r - %s + 2) mod symbol(%n)]
          into %x[(%r + 1) mod symbol(%n), (%r - %s + 2) mod symbol(%n)]
    }
  }
}
