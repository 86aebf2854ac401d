ccl.algorithm @table implements #ccl.contract<broadcast, root = 1> {
  %x = ccl.buffer inout ranks(3) chunks(2)
  ccl.schedule %x dense<[[0, 0, 1, 0, 0, 0, 0, 0, 2], [1, 0, 0, 0, 1, 2, 0, 1, 1], [1, 0, 1, 0, 0, 2, 0, 0, 1]]> : tensor<3x9xi64>
}
ccl.topology @q ranks(r = 3) {
}
ccl.broadcast @b root 1 on @q
