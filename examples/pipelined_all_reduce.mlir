// A ring all-reduce in two stages: while one micro-batch of the data is gathered, the
// next one is already being scattered. How many micro-batches there are is decided at
// launch, from the size; this program does not change.
ccl.algorithm @scatter(%n: index) implements #ccl.contract<reduce_scatter, sum> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.reduce %x[%r, (%r - %s) mod symbol(%n)]
            into %x[(%r + 1) mod symbol(%n), (%r - %s) mod symbol(%n)]
    }
  }
}

ccl.algorithm @gather(%n: index) implements #ccl.contract<all_gather> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.copy %x[%r, (%r - %s + 1) mod symbol(%n)]
          into %x[(%r + 1) mod symbol(%n), (%r - %s + 1) mod symbol(%n)]
    }
  }
}

// Rank r and chunk c of a part are rank r and chunk c of the whole.
ccl.algorithm @pipelined(%n: index) implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
  ccl.pipeline {
    ccl.apply @scatter(%n) on %x by affine_map<(r, c) -> (r, c)>
  }, {
    ccl.apply @gather(%n) on %x by affine_map<(r, c) -> (r, c)>
  }
}
