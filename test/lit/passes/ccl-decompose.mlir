// RUN: cat %S/Inputs/boxes-2x4.mlir %s | ccl-opt --ccl-decompose -o %t 2> %t.remarks
// RUN: FileCheck %s < %t
// RUN: FileCheck %s --check-prefix=COST < %t.remarks
//
// Slow NICs carry a quarter after a reduce_scatter inside; an all_gather goes the other way round.
// The costs are the bounds of the stages: 64 MiB of reduce_scatter among 4 ranks at 100 GB/s are
// 503.3 us, and so on; 0.7 us and 5 us of latency.
// COST: remark: at least 1684.12 us: reduce_scatter[gpu]; all_reduce[node]; all_gather[gpu]
// COST: 3197.67 us: reduce_scatter[node]; all_reduce[gpu]; all_gather[node]
// COST: 3695.99 us: all_reduce[node]; all_reduce[gpu]
// COST: 4032.93 us: reduce[gpu]; all_reduce[node]; broadcast[gpu]
// COST: remark: at least 844.56 us: all_gather[node]; all_gather[gpu]
// COST: 1599.54 us: all_gather[gpu]; all_gather[node]

// CHECK: ccl.reduce_scatter @ar_reduce_scatter_gpu max on @t axes(gpu)
// CHECK: ccl.all_reduce @ar_all_reduce_node max on @t axes(node)
// CHECK: ccl.all_gather @ar_all_gather_gpu on @t axes(gpu)
// CHECK: ccl.all_reduce @ar max on @t axes(node, gpu) algorithm = @ar_stages
ccl.all_reduce @ar max on @t axes(node, gpu)
// CHECK: ccl.all_gather @ag on @t algorithm = @ag_stages
ccl.all_gather @ag on @t
// Rank 6 is 1, 2.
// CHECK: ccl.broadcast @{{.*}}_gpu root 2 on @t axes(gpu)
// CHECK: ccl.broadcast @{{.*}}_node root 1 on @t axes(node)
// CHECK: ccl.broadcast @bc root 6 on @t algorithm = @bc_stages
ccl.broadcast @bc root 6 on @t

// Left alone: one axis, an algorithm that is there, and kinds that have no stages.
// CHECK: ccl.reduce_scatter @part sum on @t axes(gpu){{$}}
ccl.reduce_scatter @part sum on @t axes(gpu)
// CHECK: ccl.all_reduce @given sum on @t algorithm = @mine
ccl.all_reduce @given sum on @t algorithm = @mine
// CHECK: ccl.all_to_all @a2a on @t{{$}}
ccl.all_to_all @a2a on @t
ccl.algorithm @mine implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(8) chunks(1)
}

// Axes that are scattered have their chunks.
// CHECK: ccl.algorithm @ar_stages implements #ccl.contract<all_reduce, max> on @t {
// CHECK-NEXT: %x = ccl.buffer inout ranks(2, 4) chunks(1, 4, 1)
// CHECK-NEXT: ccl.apply @ar_reduce_scatter_gpu on %x
// CHECK-NEXT: ccl.apply @ar_all_reduce_node on %x
// CHECK-NEXT: ccl.apply @ar_all_gather_gpu on %x
// CHECK: ccl.algorithm @ag_stages
// CHECK-NEXT: %x = ccl.buffer inout ranks(2, 4) chunks(2, 4, 1)
// CHECK: ccl.algorithm @bc_stages
// CHECK-NEXT: %x = ccl.buffer inout ranks(2, 4) chunks(1, 1, 1)
