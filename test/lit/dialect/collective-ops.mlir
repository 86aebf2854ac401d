// L0 ops print as they are written.
// RUN: ccl-opt --verify-roundtrip %s | ccl-opt | FileCheck %s

// CHECK-LABEL: ccl.topology @quad ranks(node = 2, gpu = 2) {
// CHECK-NEXT:    ccl.switch "sw0" multicast
// CHECK-NEXT:    ccl.switch "sw1" multicast reduce
// CHECK-NEXT:    ccl.link 0 to "sw0" bandwidth 25.0 latency 0.7 shares ["nic0"]
// CHECK-NEXT:    ccl.link "sw0" to 1 bandwidth 25.0{{$}}
// CHECK-NEXT:    ccl.link 1 to 0 bandwidth 1.0e+09
// CHECK-NEXT:  }
ccl.topology @quad ranks(node = 2, gpu = 2) {
  ccl.switch "sw0" multicast
  ccl.switch "sw1" multicast reduce
  ccl.link 0 to "sw0" bandwidth 25 latency 0.7 shares ["nic0"]
  ccl.link "sw0" to 1 bandwidth 25.0 latency 0.0
  ccl.link 1 to 0 bandwidth 1.0e9
}

// CHECK-LABEL: ccl.topology @optical ranks(gpu = 4) reconfigurable(12.5) {
ccl.topology @optical ranks(gpu = 4) reconfigurable(12.5) {
}

// CHECK: ccl.all_reduce @ar sum on @quad axes(gpu) algorithm = @given
ccl.all_reduce @ar sum on @quad axes(gpu) algorithm = @given
// CHECK: ccl.all_reduce @part sum on @quad axes(gpu) groups [0] algorithm = @given {choices = [{algorithm = @given, up_to = 8 : i64}, {algorithm = @given, micro_batches = 2 : i64}]}
ccl.all_reduce @part sum on @quad axes(gpu) groups [0] algorithm = @given {choices = [{algorithm = @given, up_to = 8 : i64}, {algorithm = @given, micro_batches = 2 : i64}]}
// CHECK: ccl.all_gather @ag on @quad axes(node, gpu)
ccl.all_gather @ag on @quad axes(node, gpu)
// CHECK: ccl.reduce_scatter @rs max on @quad{{$}}
ccl.reduce_scatter @rs max on @quad
// CHECK: ccl.broadcast @bc root 3 on @quad{{$}}
ccl.broadcast @bc root 3 on @quad
// CHECK: ccl.reduce_to @rd avg root 1 on @quad{{$}}
ccl.reduce_to @rd avg root 1 on @quad
// CHECK: ccl.gather @ga root 0 on @quad{{$}}
ccl.gather @ga root 0 on @quad
// CHECK: ccl.scatter @sc root 0 on @quad{{$}}
ccl.scatter @sc root 0 on @quad
// CHECK: ccl.all_to_all @aa on @quad{{$}}
ccl.all_to_all @aa on @quad
// CHECK: ccl.all_to_allv @av on @quad{{$}}
ccl.all_to_allv @av on @quad
// CHECK: ccl.permute @pm to [1, 2, 3, 0] on @quad{{$}}
ccl.permute @pm to [1, 2, 3, 0] on @quad
// CHECK: ccl.barrier @ba on @quad{{$}}
ccl.barrier @ba on @quad

// CHECK: ccl.algorithm @given implements #ccl.contract<all_reduce, sum>
ccl.algorithm @given implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(1) chunks(1)
}
