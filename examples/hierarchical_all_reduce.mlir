// Two nodes of four GPUs. Links inside a node are fast, links between nodes are slow:
//
//   1. reduce-scatter inside each node: GPU g gets the node's sum of a quarter, g;
//   2. all-reduce of that quarter with the same GPU of the other node;
//   3. all-gather inside each node.
//
// So only a quarter of the data of a GPU crosses between the nodes. Each part is an
// algorithm of its own on one axis of ranks, and knows nothing of the other axis.
ccl.topology @two_nodes ranks(node = 2, gpu = 4) {
}

// Rank r ends with the whole sum of chunk r.
ccl.algorithm @scatter(%n: index) implements #ccl.contract<reduce_scatter, sum> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.reduce %x[%r, (%r - %s) mod symbol(%n)]
            into %x[(%r + 1) mod symbol(%n), (%r - %s) mod symbol(%n)]
    }
  }
}

// Rank r starts with chunk r; all ranks end with all chunks.
ccl.algorithm @gather(%n: index) implements #ccl.contract<all_gather> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.copy %x[%r, (%r - %s + 1) mod symbol(%n)]
          into %x[(%r + 1) mod symbol(%n), (%r - %s + 1) mod symbol(%n)]
    }
  }
}

// The ring.
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

// One chunk axis for each rank axis: `along` then knows what is scattered over what.
ccl.algorithm @hierarchical implements #ccl.contract<all_reduce, sum> on @two_nodes {
  %x = ccl.buffer inout ranks(2, 4) chunks(2, 4)
  ccl.apply @scatter(4) along "gpu" on %x
  ccl.apply @ring(2) along "node" on %x
  ccl.apply @gather(4) along "gpu" on %x
}
