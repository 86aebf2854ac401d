// RUN: cat %S/Inputs/boxes-2x4.mlir %s | ccl-opt --ccl-pipeline-micro-batches='bytes=16777216 max=16 remark=true' -o %t 2> %t.remarks
// RUN: FileCheck %s < %t
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// RUN: ccl-opt %t --ccl-expand-apply --ccl-check-algorithm -o /dev/null
//
// REMARK: remark: pipeline of 2 stages, {{[0-9]+}} micro-batches, {{.*}} us; one after the other
// REMARK: 1 micro-batches: {{.*}} us by formula, {{.*}} us simulated
// REMARK: 13 micro-batches
// Two stages on the same links have nothing to gain.
// REMARK: remark: no pipeline: of 2 stages, {{.*}} us; one after the other
ccl.algorithm @gather(%n: index) implements #ccl.contract<all_gather> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.copy %x[%r, (%r - %s + 1) mod symbol(%n)] into %x[(%r + 1) mod symbol(%n), (%r - %s + 1) mod symbol(%n)]
    }
  }
}
ccl.all_gather @across on @t axes(node) algorithm = @gather
ccl.all_gather @inside on @t axes(gpu) algorithm = @gather
// CHECK-LABEL: ccl.algorithm @stages
// CHECK-SAME: attributes {ccl.micro_batches = {{[23469]|1[0-3]}} : i64
// CHECK: ccl.pipeline {
// CHECK-NEXT: ccl.apply @across on %x
// CHECK-NEXT: }, {
// CHECK-NEXT: ccl.apply @inside on %x
// CHECK-NEXT: }
ccl.algorithm @stages implements #ccl.contract<all_gather> on @t {
  %x = ccl.buffer inout ranks(2, 4) chunks(2, 4)
  ccl.apply @across on %x
  ccl.apply @inside on %x
}

ccl.topology @line ranks(x = 2, y = 2) {
  ccl.switch "hub"
  ccl.link 0 to "hub" bandwidth 10.0 latency 1.0
  ccl.link 1 to "hub" bandwidth 10.0 latency 1.0
  ccl.link 2 to "hub" bandwidth 10.0 latency 1.0
  ccl.link 3 to "hub" bandwidth 10.0 latency 1.0
  ccl.link "hub" to 0 bandwidth 10.0 latency 1.0
  ccl.link "hub" to 1 bandwidth 10.0 latency 1.0
  ccl.link "hub" to 2 bandwidth 10.0 latency 1.0
  ccl.link "hub" to 3 bandwidth 10.0 latency 1.0
}
ccl.all_gather @first on @line axes(x) algorithm = @gather
ccl.all_gather @second on @line axes(y) algorithm = @gather
// CHECK-LABEL: ccl.algorithm @one_port
// CHECK-NOT: micro_batches
// CHECK: ccl.apply @first on %x
// CHECK-NEXT: ccl.apply @second on %x
ccl.algorithm @one_port implements #ccl.contract<all_gather> on @line {
  %x = ccl.buffer inout ranks(2, 2) chunks(2, 2)
  ccl.apply @first on %x
  ccl.apply @second on %x
}

// Another form, and one stage: left alone.
ccl.algorithm @pair implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  ccl.copy %x[0, 0] into %x[1, 0]
}
// CHECK-LABEL: ccl.algorithm @moves
// CHECK-NOT: ccl.pipeline
ccl.algorithm @moves implements #ccl.contract<custom> on @line {
  %x = ccl.buffer inout ranks(2, 2) chunks(2, 2)
  ccl.apply @pair on %x by affine_map<(r, c, g) -> (r, g, 0, 0)> groups(2)
  ccl.copy %x[0, 0, 0, 0] into %x[1, 1, 0, 0]
}
ccl.algorithm @one implements #ccl.contract<custom> on @line {
  %x = ccl.buffer inout ranks(2, 2) chunks(2, 2)
  ccl.apply @pair on %x by affine_map<(r, c, g) -> (r, g, 0, 0)> groups(2)
}
