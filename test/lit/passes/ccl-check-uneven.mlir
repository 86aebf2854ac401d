// Whether shards may differ in length from launch to launch.
// RUN: ccl-opt %s --pass-pipeline='builtin.module(ccl-check-algorithm{remark=true})' -o /dev/null 2>&1 | FileCheck %s

// CHECK: remark: ok: all_gather on 2 ranks, 4 moves, disjoint only, uneven shards{{$}}
ccl.algorithm @direct implements #ccl.contract<all_gather> {
  %in = ccl.buffer in ranks(2) chunks(1)
  %out = ccl.buffer out ranks(2) chunks(2)
  affine.parallel (%r) = (0) to (2) {
    ccl.copy %in[%r, 0] into %out[%r, %r]
    ccl.copy %in[%r, 0] into %out[(%r + 1) mod 2, %r]
  }
}

// Shard 0 rests where shard 1 belongs.
// CHECK: remark: ok: all_gather on 2 ranks, 5 moves, disjoint only{{$}}
ccl.algorithm @detour implements #ccl.contract<all_gather> {
  %in = ccl.buffer in ranks(2) chunks(1)
  %out = ccl.buffer out ranks(2) chunks(2)
  ccl.copy %in[0, 0] into %out[1, 1]
  ccl.copy %out[1, 1] into %out[1, 0]
  ccl.copy %in[1, 0] into %out[1, 1]
  ccl.copy %in[0, 0] into %out[0, 0]
  ccl.copy %in[1, 0] into %out[0, 1]
}

// In one buffer, what 0 sends to 1 is as long as what 1 sends to 0.
// CHECK: remark: ok: all_to_all on 2 ranks, 3 moves, disjoint and in place, uneven shards{{$}}
ccl.algorithm @swap implements #ccl.contract<all_to_all> {
  %x = ccl.buffer inout ranks(2) chunks(2)
  %t = ccl.buffer scratch ranks(2) chunks(1)
  ccl.copy %x[0, 1] into %t[1, 0]
  ccl.copy %x[1, 0] into %x[0, 1]
  ccl.copy %t[1, 0] into %x[1, 0]
}

// There is one shard, so there is nothing that could differ.
// CHECK: remark: ok: broadcast on 2 ranks, 1 moves, disjoint and in place{{$}}
ccl.algorithm @one implements #ccl.contract<broadcast> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  ccl.copy %x[0, 0] into %x[1, 0]
}
