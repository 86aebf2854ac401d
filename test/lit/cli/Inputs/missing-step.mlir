// The second loop ends one step too early: every rank misses one sum.
ccl.algorithm @ring(%n: index) implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.reduce %x[%r, (%r - %s + 1) mod symbol(%n)]
            into %x[(%r + 1) mod symbol(%n), (%r - %s + 1) mod symbol(%n)]
    }
  }
  affine.for %s = 1 to affine_map<()[n] -> (n - 1)>()[%n] {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.copy %x[%r, (%r - %s + 2) mod symbol(%n)]
          into %x[(%r + 1) mod symbol(%n), (%r - %s + 2) mod symbol(%n)]
    }
  }
}
