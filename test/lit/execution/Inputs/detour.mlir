// The sum of shard 1 grows in the result of rank 0.
ccl.algorithm @detour implements #ccl.contract<reduce_scatter, sum> {
  %in = ccl.buffer in ranks(2) chunks(4)
  %out = ccl.buffer out ranks(2) chunks(2)
  ccl.copy %in[0, 2] into %out[0, 0] x 2
  ccl.reduce %in[1, 2] into %out[0, 0] x 2
  ccl.copy %out[0, 0] into %out[1, 0] x 2
  ccl.copy %in[0, 0] into %out[0, 0] x 2
  ccl.reduce %in[1, 0] into %out[0, 0] x 2
}
