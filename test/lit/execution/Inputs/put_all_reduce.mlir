// Agent 0 reduces around a ring through slots, agent 1 puts the sums to everybody.
ccl.algorithm @reduce_and_put(%n: index) implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.reduce %x[%r, (%r - %s) mod symbol(%n)]
            into %x[(%r + 1) mod symbol(%n), (%r - %s) mod symbol(%n)] via staged agents(0 to 0)
    }
  }
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.copy %x[%r, %r] into %x[(%r + %s) mod symbol(%n), %r] via put agents(1 to 2)
    }
  }
}
