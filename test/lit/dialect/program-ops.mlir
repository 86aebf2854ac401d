// L2 ops print as they are written.
// RUN: ccl-opt --verify-roundtrip %s | ccl-opt | FileCheck %s

ccl.algorithm @ring implements #ccl.contract<all_reduce, sum> {
}

// CHECK-LABEL: ccl.program @ring.p(%me) of @ring ranks(0 to 4) {
// CHECK-NEXT:    %x = ccl.buffer inout chunks(4)
// CHECK-NEXT:    %[[NEXT:.*]] = ccl.channel to (%me + 1) mod 4 slots 2{{$}}
// CHECK-NEXT:    %[[PREV:.*]] = ccl.channel from (%me + 3) mod 4 tag 1 slots 2 protocol ll128
// CHECK-NEXT:    %[[P:.*]] = ccl.peer %x at (%me + 1) mod 4
// CHECK-NEXT:    ccl.block 0 {
// CHECK-NEXT:      ccl.transfer from %x[%me] to %[[NEXT]]
// CHECK-NEXT:      affine.for %[[S:.*]] = 1 to 3 {
// CHECK-NEXT:        ccl.transfer reduce from %[[PREV]], %x[(%me - %[[S]]) mod 4] to %[[NEXT]]
// CHECK-NEXT:      }
// CHECK-NEXT:      ccl.transfer reduce from %[[PREV]], %x[(%me + 1) mod 4] to %x[(%me + 1) mod 4], %[[NEXT]]
// CHECK-NEXT:      ccl.transfer from %[[P]][0] to %x[0] x 2
// CHECK-NEXT:    }
// CHECK-NEXT:    ccl.proxy 0 {
// CHECK-NEXT:      %[[READY:.*]] = ccl.channel to (%me + 2) mod 4 tag 1
// CHECK-NEXT:      ccl.signal %[[READY]]
// CHECK-NEXT:      %[[DONE:.*]] = ccl.channel from (%me + 2) mod 4 tag 1
// CHECK-NEXT:      ccl.wait %[[DONE]]
// CHECK-NEXT:    }
// CHECK-NEXT:  }
ccl.program @ring.p(%me) of @ring ranks(0 to 4) {
  %x = ccl.buffer inout chunks(4)
  %next = ccl.channel to (%me + 1) mod 4 slots 2 protocol simple
  %prev = ccl.channel from (%me + 3) mod 4 tag 1 slots 2 protocol ll128
  %p = ccl.peer %x at (%me + 1) mod 4
  ccl.block 0 {
    ccl.transfer from %x[%me] to %next
    affine.for %s = 1 to 3 {
      ccl.transfer reduce from %prev, %x[(%me - %s) mod 4] to %next
    }
    ccl.transfer reduce from %prev, %x[(%me + 1) mod 4] to %x[(%me + 1) mod 4], %next
    ccl.transfer from %p[0] to %x[0] x 2
  }
  ccl.proxy 0 {
    %ready = ccl.channel to (%me + 2) mod 4 tag 1
    ccl.signal %ready
    %done = ccl.channel from (%me + 2) mod 4 tag 1
    ccl.wait %done
  }
}

// One rank needs no %me; a rank set may have gaps.
// CHECK: ccl.program @one of @ring ranks(7) {
ccl.program @one of @ring ranks(7) {
}
// CHECK: ccl.program @some(%me) of @ring ranks(0, 2 to 4, 8) {
ccl.program @some(%me) of @ring ranks(0, 2 to 4, 8) {
}
