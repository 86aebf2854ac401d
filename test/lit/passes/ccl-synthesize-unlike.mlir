// RUN: cat %S/Inputs/unlike-boxes.mlir %s | ccl-opt --ccl-synthesize=pieces=2 -o %t 2> %t.remarks
// RUN: FileCheck %s < %t
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// RUN: ccl-opt %t --ccl-expand-apply --ccl-check-algorithm -o /dev/null
//
// Groups that are unlike: an algorithm, and a collective, for each kind.
// REMARK: along gpu, among ranks 0, 1, 2, 3
// REMARK: along gpu, among ranks 4, 5, 6, 7
// REMARK: along node, among ranks 0, 4
// REMARK: along node, among ranks 3, 7
// REMARK-NOT: remark

// CHECK: ccl.reduce_scatter @inside_kind0 sum on @t axes(gpu) groups [0] algorithm = @
// CHECK: ccl.reduce_scatter @inside_kind1 sum on @t axes(gpu) groups [1] algorithm = @
// CHECK-NOT: @inside on
ccl.reduce_scatter @inside sum on @t axes(gpu)
// CHECK: ccl.reduce_scatter @across_kind0 sum on @t axes(node) groups [0, 1, 2] algorithm = @
// CHECK: ccl.reduce_scatter @across_kind1 sum on @t axes(node) groups [3] algorithm = @
ccl.reduce_scatter @across sum on @t axes(node)
ccl.reduce_scatter @both sum on @t algorithm = @stages
// CHECK: ccl.algorithm @stages
// CHECK: ccl.apply @inside_kind0
// CHECK-NEXT: ccl.apply @inside_kind1
// CHECK-NEXT: ccl.apply @across_kind0
// CHECK-NEXT: ccl.apply @across_kind1
ccl.algorithm @stages implements #ccl.contract<reduce_scatter, sum> on @t {
  %x = ccl.buffer inout ranks(2, 4) chunks(2, 4, 1)
  ccl.apply @inside on %x
  ccl.apply @across on %x
}
