// Eight ranks, from rank 0: the ranks that have the data double in every step.
//
// The distance 1, 2, 4 is not affine in a loop variable, so the steps stand one by one.
// `ccl run --collective broadcast -n N` generates the same for any number of ranks.
ccl.algorithm @binomial implements #ccl.contract<broadcast, root = 0> {
  %x = ccl.buffer inout ranks(8) chunks(1)
  ccl.copy %x[0, 0] into %x[1, 0]
  affine.parallel (%r) = (0) to (2) {
    ccl.copy %x[%r, 0] into %x[%r + 2, 0]
  }
  affine.parallel (%r) = (0) to (4) {
    ccl.copy %x[%r, 0] into %x[%r + 4, 0]
  }
}
