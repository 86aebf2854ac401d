// Two rings in opposite directions, each with agents that receive and others that send.
ccl.algorithm @two_rings(%n: index) implements #ccl.contract<reduce_scatter, sum> {
  %x = ccl.buffer inout ranks(%n) chunks(%n, 2)
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.reduce %x[%r, (%r - %s) mod symbol(%n), 0]
            into %x[(%r + 1) mod symbol(%n), (%r - %s) mod symbol(%n), 0] via staged agents(0 to 1)
      ccl.reduce %x[%r, (%r + %s) mod symbol(%n), 1]
            into %x[(%r - 1) mod symbol(%n), (%r + %s) mod symbol(%n), 1] via staged agents(2 to 2)
    }
  }
}
