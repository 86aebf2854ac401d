// Rows with agents: chunk 0 goes down a chain, chunk 1 to both at once; all ranks of a step differ.
ccl.algorithm @rows implements #ccl.contract<broadcast, root = 1> {
  %in = ccl.buffer in ranks(3) chunks(2)
  %out = ccl.buffer out ranks(3) chunks(2)
  ccl.schedule %in, %out dense<[[0, 0, 1, 0, 0, 1, 1, 0, 2]]> : tensor<1x9xi64>
      agents dense<4> : tensor<1x2xi64>
  ccl.schedule %in, %out dense<[[0, 0, 1, 0, 0, 2, 1, 0, 1],
                                [0, 0, 1, 0, 1, 2, 1, 1, 1],
                                [1, 0, 2, 1, 0, 0, 1, 0, 1],
                                [1, 0, 1, 0, 1, 0, 1, 1, 1]]> : tensor<4x9xi64>
      via put agents dense<[[0, 1, 0], [1, 1, -1], [0, 2, -1], [1, 2, 3]]> : tensor<4x3xi64>
}
