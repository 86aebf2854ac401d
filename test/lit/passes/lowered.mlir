// Beside an algorithm with moves, the programs of a lowered one stay as they were written.
// RUN: ccl-opt %s --ccl-lower-to-program | FileCheck %s
// RUN: ccl-opt %s --ccl-check-algorithm --ccl-lower-to-program --ccl-check-program -o /dev/null

// CHECK: ccl.algorithm @given
// CHECK-SAME: lowered
ccl.algorithm @given implements #ccl.contract<all_gather> lowered {
  %x = ccl.buffer inout ranks(2) chunks(2)
}

// No wait slides, nothing is fused, `inout` is not peeled, signals keep their places.
// CHECK: ccl.program @given.p(%me) of @given ranks(0 to 2) {
// CHECK-NEXT: %x = ccl.buffer inout chunks(2)
// CHECK-NEXT: %[[READY:.*]] = ccl.channel to -%me + 1 tag 1
// CHECK-NEXT: %[[ASKED:.*]] = ccl.channel from -%me + 1 tag 1
// CHECK-NEXT: %[[TO:.*]] = ccl.channel to -%me + 1 slots 1
// CHECK-NEXT: %[[FROM:.*]] = ccl.channel from -%me + 1 slots 1
// CHECK-NEXT: ccl.block 0 {
// CHECK-NEXT: ccl.signal %[[READY]] of %x[%me]
// CHECK-NEXT: ccl.wait %[[ASKED]]
// CHECK-NEXT: ccl.transfer from %x[%me] to %[[TO]]
// CHECK-NEXT: }
// CHECK-NEXT: ccl.block 1 {
// CHECK-NEXT: ccl.transfer from %[[FROM]] to %x[-%me + 1]
// CHECK-NEXT: }
ccl.program @given.p(%me) of @given ranks(0 to 2) {
  %x = ccl.buffer inout chunks(2)
  %ready = ccl.channel to 1 - %me tag 1
  %asked = ccl.channel from 1 - %me tag 1
  %to = ccl.channel to 1 - %me slots 1
  %from = ccl.channel from 1 - %me slots 1
  ccl.block 0 {
    ccl.signal %ready of %x[%me]
    ccl.wait %asked
    ccl.transfer from %x[%me] to %to
  }
  ccl.block 1 {
    ccl.transfer from %from to %x[1 - %me]
  }
}

// CHECK: ccl.algorithm @moves
// CHECK: ccl.program @moves.p{{.*}} of @moves
// CHECK-NOT: inout
ccl.algorithm @moves implements #ccl.contract<all_gather> {
  %y = ccl.buffer inout ranks(2) chunks(2)
  affine.parallel (%r) = (0) to (2) {
    ccl.copy %y[%r, %r] into %y[1 - %r, %r]
  }
}
