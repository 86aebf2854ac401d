ccl.topology @t ranks(node = 2, gpu = 2) {
  ccl.switch "s" multicast
  ccl.link 0 to "s" bandwidth 25.0 latency 0.7 shares ["nic0"]
  ccl.link "s" to 1 bandwidth 25.0
}
ccl.algorithm @ring(%n: index) implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.reduce %x[%r, (%r - %s + 1) mod symbol(%n)]
            into %x[(%r + 1) mod symbol(%n), (%r - %s + 1) mod symbol(%n)]
    }
  }
}
ccl.algorithm @both implements #ccl.contract<custom, sum> on @t {
  %x = ccl.buffer inout ranks(2, 2) chunks(2, 2)
  ccl.apply @ring(2) along "gpu" on %x
  ccl.pipeline {
    ccl.apply @ring(2) on %x by affine_map<(r, c, node, k) -> (node, r, k, c)> groups(2, 2)
  }, {
    ccl.apply @ring(2) along "node" on %x
  }
}
