// RUN: cat %S/Inputs/boxes-2x4.mlir %s | ccl-opt --ccl-synthesize=pieces=2 -o %t 2> %t.remarks
// RUN: FileCheck %s < %t
// RUN: FileCheck %s --check-prefix=ONCE < %t.remarks
// RUN: ccl-opt %t --ccl-expand-apply --ccl-check-algorithm -o /dev/null
// The seed, and nothing else, decides.
// RUN: cat %S/Inputs/boxes-2x4.mlir %s | ccl-opt --ccl-synthesize=pieces=2 -o %t.again 2> /dev/null
// RUN: cmp %t %t.again
//
// Both boxes are alike: one search. The second all_gather is the same, and not looked for again.
// ONCE: remark: @{{.*}} us along gpu, among ranks 0, 1, 2, 3
// ONCE-NOT: along gpu
// ONCE: remark: @{{.*}} us along node, among ranks 0, 4
// ONCE-NOT: remark

// CHECK: ccl.all_gather @inside on @t axes(gpu) algorithm = @[[IN:.*]]
ccl.all_gather @inside on @t axes(gpu)
// CHECK: ccl.all_gather @again on @t axes(gpu) algorithm = @[[IN]]
ccl.all_gather @again on @t axes(gpu)
// CHECK: ccl.all_gather @across on @t axes(node) algorithm = @
ccl.all_gather @across on @t axes(node)
// CHECK: ccl.all_gather @both on @t algorithm = @stages
ccl.all_gather @both on @t algorithm = @stages
// CHECK: ccl.algorithm @stages
// CHECK: chunks(2, 4, {{[0-9]+}})
ccl.algorithm @stages implements #ccl.contract<all_gather> on @t {
  %x = ccl.buffer inout ranks(2, 4) chunks(2, 4, 1)
  ccl.apply @across on %x
  ccl.apply @inside on %x
}
// CHECK: ccl.algorithm @[[IN]] implements #ccl.contract<all_gather>
