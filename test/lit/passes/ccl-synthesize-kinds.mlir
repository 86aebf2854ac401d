// RUN: ccl-opt %s --ccl-synthesize=pieces=1 2> %t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// RUN: ccl-opt %s --ccl-synthesize=pieces=1 --ccl-check-algorithm -o /dev/null
//
// What the planner does not know a generator may.
// REMARK-DAG: (planner)
// REMARK-DAG: (one_shot)
// REMARK-DAG: (pairwise)
ccl.topology @t ranks(gpu = 3) {
  ccl.switch "hub"
  ccl.link 0 to "hub" bandwidth 10.0 latency 2.0
  ccl.link 1 to "hub" bandwidth 10.0 latency 2.0
  ccl.link 2 to "hub" bandwidth 10.0 latency 2.0
  ccl.link "hub" to 0 bandwidth 10.0 latency 2.0
  ccl.link "hub" to 1 bandwidth 10.0 latency 2.0
  ccl.link "hub" to 2 bandwidth 10.0 latency 2.0
}
// CHECK: ccl.all_reduce @ar min on @t algorithm = @
ccl.all_reduce @ar min on @t
// CHECK: ccl.all_gather @ag on @t algorithm = @
ccl.all_gather @ag on @t
// CHECK: ccl.reduce_scatter @rs sum on @t algorithm = @
ccl.reduce_scatter @rs sum on @t
// CHECK: ccl.broadcast @bc root 2 on @t algorithm = @
ccl.broadcast @bc root 2 on @t
// CHECK: ccl.reduce_to @re sum root 1 on @t algorithm = @
ccl.reduce_to @re sum root 1 on @t
// CHECK: ccl.gather @ga root 1 on @t algorithm = @
ccl.gather @ga root 1 on @t
// CHECK: ccl.scatter @sc root 2 on @t algorithm = @
ccl.scatter @sc root 2 on @t
// CHECK: ccl.all_to_all @aa on @t algorithm = @
ccl.all_to_all @aa on @t
// CHECK: ccl.permute @pm to [2, 0, 1] on @t algorithm = @
ccl.permute @pm to [2, 0, 1] on @t
// CHECK: ccl.barrier @ba on @t algorithm = @
ccl.barrier @ba on @t
