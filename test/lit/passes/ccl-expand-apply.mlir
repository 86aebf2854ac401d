// RUN: ccl-opt %s --ccl-expand-apply --split-input-file | FileCheck %s
// What is expanded meets its contract:
// RUN: ccl-opt %s --ccl-expand-apply --ccl-check-algorithm --split-input-file -o /dev/null

// A map and groups: the rank loop gets the group as a further dimension, and the
// callee's scratch becomes the caller's.
ccl.algorithm @exchange(%n: index) implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(%n) chunks(1)
  %t = ccl.buffer scratch ranks(%n) chunks(%n)
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.copy %x[%r, 0] into %t[(%r + %s) mod symbol(%n), %r]
    }
  }
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.reduce %t[%r, (%r + %s) mod symbol(%n)] into %x[%r, 0]
    }
  }
}
// CHECK-NOT: ccl.algorithm @exchange
// CHECK-LABEL: ccl.algorithm @grouped
// CHECK: %x = ccl.buffer inout ranks(2, 4) chunks(2)
// CHECK: %[[T0:.*]] = ccl.buffer scratch ranks(2, 4) chunks({{.*}}4)
// CHECK: %[[T1:.*]] = ccl.buffer scratch ranks(2, 4) chunks({{.*}}2)
// CHECK: affine.for %[[S:.*]] = 1 to 4 {
// CHECK:   affine.parallel (%[[N:.*]], %[[C:.*]], %[[R:.*]]) = (0, 0, 0) to (2, 2, 4) {
// CHECK:     ccl.copy %x[%[[N]], %[[R]], %[[C]]] into
ccl.algorithm @grouped implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(2, 4) chunks(2)
  // Inside each node, chunk by chunk; then across nodes.
  ccl.apply @exchange(4) on %x by affine_map<(r, c, n, k) -> (n, r, k)> groups(2, 2)
  ccl.apply @exchange(2) on %x by affine_map<(r, c, g, k) -> (r, g, k)> groups(4, 2)
}

// -----

// `along`: reduce-scatter ranges over all coordinates that are not scattered, the
// all-reduce over the rank's own of those that are.
ccl.topology @grid ranks(node = 2, gpu = 3) {
}
ccl.algorithm @rs(%n: index) implements #ccl.contract<reduce_scatter, sum> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.reduce %x[(%r + %s) mod symbol(%n), %r] into %x[%r, %r]
    }
  }
}
ccl.algorithm @ag(%n: index) implements #ccl.contract<all_gather> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.copy %x[(%r + %s) mod symbol(%n), (%r + %s) mod symbol(%n)] into %x[%r, (%r + %s) mod symbol(%n)]
    }
  }
}
// CHECK-LABEL: ccl.algorithm @nested
// CHECK: affine.for %[[S:.*]] = 1 to 3 {
// CHECK: affine.parallel (%[[N:.*]], %[[K:.*]], %[[R:.*]]) = (0, 0, 0) to (2, 2, 3) {
// CHECK:   ccl.reduce %x[%[[N]], (%[[R]] + %[[S]]) mod 3, %[[K]], %[[R]]] into %x[%[[N]], %[[R]], %[[K]], %[[R]]]
// CHECK: affine.for %[[S2:.*]] = 1 to 2 {
// CHECK: affine.parallel (%[[G:.*]], %[[R2:.*]]) = (0, 0) to (3, 2) {
// CHECK:   ccl.reduce %x[(%[[R2]] + %[[S2]]) mod 2, %[[G]], %[[R2]], %[[G]]] into %x[%[[R2]], %[[G]], %[[R2]], %[[G]]]
ccl.algorithm @nested implements #ccl.contract<all_reduce, sum> on @grid {
  %x = ccl.buffer inout ranks(2, 3) chunks(2, 3)
  ccl.apply @rs(3) along "gpu" on %x
  ccl.apply @rs(2) along "node" on %x
  ccl.apply @ag(2) along "node" on %x
  ccl.apply @ag(3) along "gpu" on %x
}

// -----

// Stages of a pipeline are laid end to end and counted.
// CHECK-LABEL: ccl.algorithm @staged
// CHECK-SAME: attributes {ccl.stage_agents = array<i64: 0, 1, 2>, ccl.stages = 2 : i64}
// CHECK-NOT: ccl.pipeline
// CHECK: ccl.copy
// CHECK-NEXT: ccl.copy
ccl.algorithm @staged implements #ccl.contract<broadcast> {
  %x = ccl.buffer inout ranks(3) chunks(1)
  ccl.pipeline {
    ccl.copy %x[0, 0] into %x[1, 0]
  }, {
    ccl.copy %x[1, 0] into %x[2, 0]
  }
}

// -----

// Counts stay whole where chunks stay adjacent, and split where they do not.
ccl.algorithm @pair implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(2)
  ccl.copy %x[0, 0] into %x[1, 0] x 2
}
// CHECK-LABEL: ccl.algorithm @adjacent
// CHECK: ccl.copy %x[{{.*}}, 0] into %x[{{.*}}, 0] x 2
ccl.algorithm @adjacent implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(2)
  ccl.apply @pair on %x by affine_map<(r, c) -> (r, c)>
}
// CHECK-LABEL: ccl.algorithm @strided
// CHECK: ccl.copy %x[0, 0] into %x[1, 0]{{$}}
// CHECK: ccl.copy %x[0, 3] into %x[1, 3]{{$}}
ccl.algorithm @strided implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(6)
  ccl.apply @pair on %x by affine_map<(r, c) -> (r, c * 3)>
}

// -----

// The rows of a schedule are repeated for each group, within their step.
ccl.algorithm @table implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  ccl.schedule %x dense<[[0, 0, 0, 0, 0, 1, 0, 0, 1], [1, 0, 1, 0, 0, 0, 0, 0, 1]]> : tensor<2x9xi64>
}
// CHECK-LABEL: ccl.algorithm @tables
// CHECK: ccl.schedule %x dense<{{\[\[}}0, 0, 0, 0, 0, 1, 0, 0, 1], [0, 0, 2, 0, 0, 3, 0, 0, 1], [1, 0, 1, 0, 0, 0, 0, 0, 1], [1, 0, 3, 0, 0, 2, 0, 0, 1]]>
ccl.algorithm @tables implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2, 2) chunks(1)
  ccl.apply @table on %x by affine_map<(r, c, g) -> (g, r, c)> groups(2)
}

// -----

// Stages are collectives, which say along which axes. What was scattered is the rank's own; pieces
// that the callee does not have are groups of their own. Input and output of a stage are one buffer:
// the copy of a rank's own shard is gone. Each stage of a pipeline has agents of its own.
ccl.topology @t ranks(node = 2, gpu = 4) {
}
ccl.algorithm @ring(%n: index) implements #ccl.contract<reduce_scatter, sum> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.reduce %x[%r, (%r - %s) mod symbol(%n)] into %x[(%r + 1) mod symbol(%n), (%r - %s) mod symbol(%n)]
    }
  }
}
ccl.algorithm @swap implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(2) chunks(2)
  affine.parallel (%r) = (0) to (2) {
    ccl.reduce %x[%r, (%r + 1) mod 2] into %x[(%r + 1) mod 2, (%r + 1) mod 2]
  }
  affine.parallel (%r) = (0) to (2) {
    ccl.copy %x[%r, %r] into %x[(%r + 1) mod 2, %r] agents(1 to 2)
  }
}
ccl.algorithm @gather implements #ccl.contract<all_gather> {
  %in = ccl.buffer in ranks(4) chunks(1)
  %out = ccl.buffer out ranks(4) chunks(4)
  affine.parallel (%r) = (0) to (4) {
    ccl.copy %in[%r, 0] into %out[%r, %r]
  }
  affine.parallel (%r, %s) = (0, 1) to (4, 4) {
    ccl.copy %in[%r, 0] into %out[(%r + %s) mod 4, %r]
  }
}
ccl.reduce_scatter @inside sum on @t axes(gpu) algorithm = @ring
ccl.all_reduce @across sum on @t axes(node) algorithm = @swap
ccl.all_gather @back on @t axes(gpu) algorithm = @gather
ccl.all_reduce @all sum on @t algorithm = @in_stages
// CHECK-NOT: @inside
// CHECK-NOT: @ring
// CHECK-LABEL: ccl.algorithm @in_stages
// CHECK-SAME: ccl.stage_agents = array<i64: 0, 1, 4, 5>
// CHECK: affine.for %[[S:.*]] = 1 to 4 {
// CHECK:   affine.parallel (%[[N:.*]], %[[P:.*]], %[[R:.*]]) = (0, 0, 0) to (2, 2, 4) {
// CHECK:     ccl.reduce %x[%[[N]], %[[R]], 0, (%[[R]] - %[[S]]) mod 4, %[[P]]] into %x[%[[N]], (%[[R]] + 1) mod 4, 0, (%[[R]] - %[[S]]) mod 4, %[[P]]]{{$}}
// CHECK: affine.parallel (%[[G:.*]], %[[R2:.*]]) = (0, 0) to (4, 2) {
// CHECK:   ccl.reduce %x[%[[R2]], %[[G]], 0, %[[G]], (%[[R2]] + 1) mod 2] into %x[(%[[R2]] + 1) mod 2, %[[G]], 0, %[[G]], (%[[R2]] + 1) mod 2] agents(1 to 1)
// CHECK:   agents(2 to 3)
// CHECK: affine.parallel
// CHECK:   ccl.copy %x{{.*}} agents(4 to 4)
// CHECK-NOT: ccl.copy
ccl.algorithm @in_stages implements #ccl.contract<all_reduce, sum> on @t {
  %x = ccl.buffer inout ranks(2, 4) chunks(1, 4, 2)
  ccl.pipeline {
    ccl.apply @inside on %x
  }, {
    ccl.apply @across on %x
  }, {
    ccl.apply @back on %x
  }
}

// -----

// From the root's coordinates outwards, and groups by name: group 0 and group 1 have algorithms of
// their own, and together are one stage.
ccl.topology @t ranks(node = 2, gpu = 3) {
}
ccl.algorithm @chain implements #ccl.contract<broadcast, root = 1> {
  %x = ccl.buffer inout ranks(3) chunks(1)
  ccl.copy %x[1, 0] into %x[0, 0]
  ccl.copy %x[0, 0] into %x[2, 0]
}
ccl.algorithm @fan implements #ccl.contract<broadcast, root = 1> {
  %x = ccl.buffer inout ranks(3) chunks(2)
  ccl.copy %x[1, 0] into %x[0, 0] x 2
  ccl.schedule %x dense<[[0, 0, 1, 0, 0, 2, 0, 0, 2]]> : tensor<1x9xi64>
}
ccl.algorithm @over implements #ccl.contract<broadcast, root = 1> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  ccl.copy %x[1, 0] into %x[0, 0]
}
ccl.broadcast @nodes root 1 on @t axes(node) algorithm = @over
ccl.broadcast @first root 1 on @t axes(gpu) groups [0] algorithm = @chain
ccl.broadcast @second root 1 on @t axes(gpu) groups [1] algorithm = @fan
// CHECK-LABEL: ccl.algorithm @outwards
// CHECK: affine.parallel (%[[P:.*]]) = (0) to (2) {
// CHECK-NEXT: ccl.copy %x[1, 1, 0, 0, %[[P]]] into %x[0, 1, 0, 0, %[[P]]]
// CHECK: ccl.copy %x[0, 1, 0, 0, %[[P2:.*]]] into %x[0, 0, 0, 0, %[[P2]]]
// CHECK: ccl.copy %x[0, 0, 0, 0, %[[P3:.*]]] into %x[0, 2, 0, 0, %[[P3]]]
// CHECK: ccl.copy %x[1, 1, 0, 0, 0] into %x[1, 0, 0, 0, 0] x 2
// CHECK: ccl.schedule %x dense<{{\[\[}}0, 0, 4, 0, 0, 5, 0, 0, 2]]>
ccl.algorithm @outwards implements #ccl.contract<broadcast, root = 4> on @t {
  %x = ccl.buffer inout ranks(2, 3) chunks(1, 1, 2)
  ccl.apply @nodes on %x
  ccl.apply @first on %x
  ccl.apply @second on %x
}

// -----

// What an inner algorithm asks for, the outermost gets.
ccl.algorithm @innermost implements #ccl.contract<all_reduce, sum> attributes {ccl.multicast, ccl.slots = 5 : i64} {
  %x = ccl.buffer inout ranks(2) chunks(1)
  ccl.reduce %x[1, 0] into %x[0, 0]
  ccl.copy %x[0, 0] into %x[1, 0]
}
ccl.algorithm @between implements #ccl.contract<all_reduce, sum> attributes {ccl.slots = 3 : i64} {
  %x = ccl.buffer inout ranks(2) chunks(2)
  ccl.apply @innermost on %x by affine_map<(r, c, g) -> (r, g)> groups(2)
}
// CHECK-LABEL: ccl.algorithm @outermost
// CHECK-SAME: ccl.multicast, ccl.slots = 5 : i64
ccl.algorithm @outermost implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(2) chunks(4)
  ccl.apply @between on %x by affine_map<(r, c, g) -> (r, g * 2 + c)> groups(2)
}

// -----

// Rows that cross the last chunk axis of the callee are taken apart, those inside of it are not.
ccl.algorithm @table implements #ccl.contract<custom> {
  %x = ccl.buffer in ranks(2) chunks(2, 2)
  %y = ccl.buffer out ranks(2) chunks(2, 2)
  ccl.schedule %x, %y dense<[[0, 0, 0, 0, 0, 1, 1, 0, 2], [0, 0, 1, 0, 1, 0, 1, 1, 2]]> : tensor<2x9xi64>
}
// CHECK-LABEL: ccl.algorithm @columns
// The callee's chunk (a, b) is the caller's 3 a + b.
// CHECK: ccl.schedule %{{.*}}, %{{.*}} dense<{{\[\[}}0, 0, 0, 0, 0, 1, 1, 0, 2], [0, 0, 1, 0, 1, 0, 1, 1, 1], [0, 0, 1, 0, 3, 0, 1, 3, 1]]> : tensor<3x9xi64>
ccl.algorithm @columns implements #ccl.contract<custom> {
  %x = ccl.buffer in ranks(2) chunks(6)
  %y = ccl.buffer out ranks(2) chunks(6)
  ccl.apply @table on %x by affine_map<(r, a, b) -> (r, a * 3 + b)>, %y by affine_map<(r, a, b) -> (r, a * 3 + b)>
}

// -----

// A copy of a place into itself is nothing; a reduce is not.
ccl.algorithm @fold implements #ccl.contract<custom, sum> {
  %x = ccl.buffer inout ranks(1) chunks(2)
  ccl.copy %x[0, 0] into %x[0, 1]
  ccl.reduce %x[0, 0] into %x[0, 1]
}
// CHECK-LABEL: ccl.algorithm @folded
// CHECK: %[[X:.*]] = ccl.buffer inout
// CHECK-NEXT: ccl.reduce %[[X]][0, 0] into %[[X]][0, 0]
// CHECK-NEXT: }
ccl.algorithm @folded implements #ccl.contract<custom, sum> {
  %x = ccl.buffer inout ranks(1) chunks(1)
  ccl.apply @fold on %x by affine_map<(r, c) -> (r, 0)>
}
