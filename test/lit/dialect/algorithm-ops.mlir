// L1 ops print as they are written; names of buffers and size parameters are kept.
// RUN: ccl-opt --verify-roundtrip %s | ccl-opt | FileCheck %s

// CHECK-DAG: #[[ID:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[GRID:.*]] = affine_map<(d0, d1, d2) -> (d2, d0, d1)>

// CHECK: ccl.topology @grid
ccl.topology @grid ranks(node = 2, gpu = 4) {
}

// CHECK-LABEL: ccl.algorithm @ring(%n: index) implements #ccl.contract<all_reduce, sum> {
// CHECK-NEXT:    %x = ccl.buffer inout ranks(%n) chunks(%n)
// CHECK-NEXT:    affine.for %[[S:.*]] = 1 to %n {
// CHECK-NEXT:      affine.parallel (%[[R:.*]]) = (0) to (symbol(%n)) {
// CHECK-NEXT:        ccl.reduce %x[%[[R]], (%[[R]] - %[[S]] + 1) mod symbol(%n)] into %x[(%[[R]] + 1) mod symbol(%n), (%[[R]] - %[[S]] + 1) mod symbol(%n)]{{$}}
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-NEXT:  }
ccl.algorithm @ring(%n: index) implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.reduce %x[%r, (%r - %s + 1) mod symbol(%n)]
            into %x[(%r + 1) mod symbol(%n), (%r - %s + 1) mod symbol(%n)]
    }
  }
}

// CHECK-LABEL: ccl.algorithm @gather implements #ccl.contract<all_gather> {
// CHECK-NEXT:    %in = ccl.buffer in ranks(4) chunks(1)
// CHECK-NEXT:    %out = ccl.buffer out ranks(4) chunks(4)
// CHECK-NEXT:    %t = ccl.buffer scratch ranks(4) chunks(2)
// CHECK-NEXT:    ccl.copy %in[0, 0] into %t[1, 1] via direct tag 3
// CHECK-NEXT:    ccl.copy %t[1, 0] into %out[1, 2] x 2 via staged
// CHECK-NEXT:    ccl.schedule %in, %out dense<{{.*}}> : tensor<2x9xi64>
ccl.algorithm @gather implements #ccl.contract<all_gather> {
  %in = ccl.buffer in ranks(4) chunks(1)
  %out = ccl.buffer out ranks(4) chunks(4)
  %t = ccl.buffer scratch ranks(4) chunks(2)
  ccl.copy %in[0, 0] into %t[1, 1] via direct tag 3
  ccl.copy %t[1, 0] into %out[1, 2] x 2 via staged
  ccl.schedule %in, %out dense<[[0, 0,  0, 0, 0,  1, 1, 0,  1],
                                [1, 0,  2, 0, 0,  3, 1, 2,  1]]> : tensor<2x9xi64>
}

// CHECK-LABEL: ccl.algorithm @inner implements #ccl.contract<all_reduce, sum> {
// CHECK-NEXT:    %x = ccl.buffer inout ranks(4) chunks(4)
// CHECK-NEXT:    ccl.pipeline {
// CHECK-NEXT:      ccl.apply @ring(4) on %x by #[[ID]]
// CHECK-NEXT:    }, {
// CHECK-NEXT:      ccl.apply @ring(4) on %x by #[[ID]]
// CHECK-NEXT:    }
ccl.algorithm @inner implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  ccl.pipeline {
    ccl.apply @ring(4) on %x by affine_map<(r, c) -> (r, c)>
  }, {
    ccl.apply @ring(4) on %x by affine_map<(r, c) -> (r, c)>
  }
}

// CHECK-LABEL: ccl.algorithm @nodes(%m: index) implements #ccl.contract<custom, sum> on @grid {
// CHECK-NEXT:    %x = ccl.buffer inout ranks(2, 4) chunks(%m)
// CHECK-NEXT:    ccl.apply @ring(%m) on %x by #[[GRID]] groups(2)
// CHECK-NEXT:    ccl.apply @ring(2) along "node" on %x
ccl.algorithm @nodes(%m: index) implements #ccl.contract<custom, sum> on @grid {
  %x = ccl.buffer inout ranks(2, 4) chunks(%m)
  ccl.apply @ring(%m) on %x by affine_map<(r, c, node) -> (node, r, c)> groups(2)
  ccl.apply @ring(2) along "node" on %x
}

// The forms of a contract.
// CHECK: @root implements #ccl.contract<broadcast, root = 2> {
ccl.algorithm @root implements #ccl.contract<broadcast, root = 2> {
}
// CHECK: @root0 implements #ccl.contract<scatter> {
ccl.algorithm @root0 implements #ccl.contract<scatter, root = 0> {
}
// CHECK: @to implements #ccl.contract<permute, to = [1, 2, 0]> {
ccl.algorithm @to implements #ccl.contract<permute, to = [1, 2, 0]> {
}
// CHECK: @free implements #ccl.contract<custom> {
ccl.algorithm @free implements #ccl.contract<custom> {
}
// CHECK: @rows implements #ccl.contract<custom, sum, in = 1, out = 1, rows = [0, 0, 0, 0, 0, 0, 1, 0]> {
ccl.algorithm @rows implements #ccl.contract<custom, sum, in = 1, out = 1,
                                             rows = [0, 0, 0, 0,  0, 0, 1, 0]> {
}

// Agents; what is put may have several at the destination.
// CHECK-LABEL: @agents
// CHECK: ccl.copy %x[0, 0] into %x[1, 1] agents(3 to 0)
// CHECK: ccl.copy %x[0, 0] into %x[1, 2] x 2 via put agents(0 to 2, 1) tag 4
// CHECK: ccl.copy %x[1, 0] into %x[0, 1] via put{{$}}
// CHECK: ccl.reduce %x[1, 1] into %x[0, 0] via staged agents(1 to 1)
// CHECK: ccl.schedule %x dense<{{.*}}> : tensor<2x9xi64> via put agents dense<{{\[\[}}0, 1, 2], [3, 0, -1]]> : tensor<2x3xi64> tag 1
ccl.algorithm @agents implements #ccl.contract<custom, sum> {
  %x = ccl.buffer inout ranks(2) chunks(4)
  ccl.copy %x[0, 0] into %x[1, 1] agents(3 to 0)
  ccl.copy %x[0, 0] into %x[1, 2] x 2 via put agents(0 to 2, 1) tag 4
  ccl.copy %x[1, 0] into %x[0, 1] via put
  ccl.reduce %x[1, 1] into %x[0, 0] via staged agents(1 to 1)
  ccl.schedule %x dense<[[0, 0, 0, 0, 0, 1, 0, 1, 1], [1, 0, 1, 0, 0, 0, 0, 1, 1]]> : tensor<2x9xi64> via put agents dense<[[0, 1, 2], [3, 0, -1]]> : tensor<2x3xi64> tag 1
}
