// RUN: ccl-opt %s --ccl-assign-channels --ccl-project-to-ranks --canonicalize --split-input-file | FileCheck %s
// The programs together meet the contract:
// RUN: ccl-opt %s --ccl-check-algorithm --ccl-assign-channels --ccl-project-to-ranks --ccl-check-program --split-input-file -o /dev/null
// RUN: ccl-opt %s --ccl-assign-channels=via=direct --ccl-project-to-ranks --ccl-check-program --split-input-file -o /dev/null
// One rank alone:
// RUN: ccl-opt %s --ccl-assign-channels --ccl-project-to-ranks=rank=1 --canonicalize --split-input-file | FileCheck %s --check-prefix=ONE

// Ranks that differ by a shift share a program; the step loop stays a loop.
// CHECK-LABEL: ccl.program @shift.p(%me) of @shift ranks(0 to 5)
// CHECK: %[[TO:.*]] = ccl.channel to (%me + 1) mod 5 slots 4
// CHECK: %[[FROM:.*]] = ccl.channel from (%me + 4) mod 5 slots 4
// CHECK: ccl.block 0 {
// CHECK-NEXT: affine.for %[[S:.*]] = 1 to 5 {
// CHECK-NEXT:   ccl.transfer from %x[(%me - %[[S]] + 1) mod 5] to %[[TO]]
// CHECK-NEXT:   ccl.transfer from %[[FROM]] to %x[(%me - %[[S]]) mod 5]
// ONE-LABEL: ccl.program @shift.r1 of @shift ranks(1)
// ONE: ccl.channel to 2 slots 4
// ONE: ccl.channel from 0 slots 4
ccl.algorithm @shift implements #ccl.contract<all_gather> {
  %x = ccl.buffer inout ranks(5) chunks(5)
  affine.for %s = 1 to 5 {
    affine.parallel (%r) = (0) to (5) {
      ccl.copy %x[%r, (%r - %s + 1) mod 5] into %x[(%r + 1) mod 5, (%r - %s + 1) mod 5]
    }
  }
}

// -----

// Conditions on the rank split the ranks into classes.
// CHECK-LABEL: ccl.program @tree.p0 of @tree ranks(0)
// CHECK-LABEL: ccl.program @tree.p1 of @tree ranks(1)
// CHECK-LABEL: ccl.program @tree.p2(%me) of @tree ranks(2 to 4)
// CHECK: ccl.channel from %me - 2 slots 4
// CHECK-NOT: ccl.program
ccl.algorithm @tree implements #ccl.contract<broadcast> {
  %x = ccl.buffer inout ranks(4) chunks(1)
  ccl.copy %x[0, 0] into %x[1, 0]
  affine.parallel (%r) = (0) to (2) {
    ccl.copy %x[%r, 0] into %x[%r + 2, 0]
  }
}

// -----

// The partner r xor 2 is its own inverse.
// CHECK-LABEL: ccl.program @xor.p(%me) of @xor ranks(0 to 4)
// CHECK: ccl.channel to %me - ((%me floordiv 2) mod 2) * 4 + 2 slots 4
// CHECK: ccl.channel from %me - ((%me floordiv 2) mod 2) * 4 + 2 slots 4
ccl.algorithm @xor implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(1)
  %t = ccl.buffer scratch ranks(4) chunks(1)
  affine.parallel (%r) = (0) to (4) {
    ccl.copy %x[%r, 0] into %t[%r + 2 - 4 * ((%r floordiv 2) mod 2), 0]
  }
}

// -----

// Digits of the rank: r = 4 a + 2 b + c.
// CHECK-LABEL: ccl.program @digits.p(%me) of @digits ranks(0 to 8)
// CHECK: ccl.transfer from %x[%me floordiv 4, (%me mod 4) floordiv 2, %me mod 2] to %y[0]
ccl.algorithm @digits implements #ccl.contract<custom> {
  %x = ccl.buffer in ranks(8) chunks(2, 2, 2)
  %y = ccl.buffer out ranks(8) chunks(1)
  affine.parallel (%a, %b, %c) = (0, 0, 0) to (2, 2, 2) {
    ccl.copy %x[%a * 4 + %b * 2 + %c, %a, %b, %c] into %y[%a * 4 + %b * 2 + %c, 0]
  }
}

// -----

// A variable that the rank does not fix becomes a loop; peers in it are named there.
// More sends than slots to one peer would alternate; here each goes to another.
// CHECK-LABEL: ccl.program @all.p(%me) of @all ranks(0 to 9)
// CHECK: affine.for %[[Q:.*]] = 0 to 9 {
// CHECK-NEXT: %[[TO:.*]] = ccl.channel to %[[Q]] slots 4
// CHECK-NEXT: ccl.transfer from %x[%[[Q]]] to %[[TO]]
// CHECK: affine.for %[[P:.*]] = 0 to 9 {
// CHECK-NEXT: %[[FROM:.*]] = ccl.channel from %[[P]] slots 4
// CHECK-NEXT: ccl.transfer from %[[FROM]] to %y[%[[P]]]
ccl.algorithm @all implements #ccl.contract<all_to_all> {
  %x = ccl.buffer in ranks(9) chunks(9)
  %y = ccl.buffer out ranks(9) chunks(9)
  affine.parallel (%p, %q) = (0, 0) to (9, 9) {
    ccl.copy %x[%p, %q] into %y[%q, %p] via staged
  }
}

// -----

// Seven chunks to one peer and four slots: both halves alternate.
// CHECK-LABEL: ccl.program @burst.p(%me) of @burst ranks(0 to 2)
// CHECK: affine.for %[[C:.*]] = 0 to 7 {
// CHECK-NEXT: ccl.transfer from %x[%[[C]]] to %{{.*}}
// CHECK-NEXT: ccl.transfer from %{{.*}} to %y[%[[C]]]
// CHECK-NEXT: }
ccl.algorithm @burst implements #ccl.contract<permute, to = [1, 0]> {
  %x = ccl.buffer in ranks(2) chunks(7)
  %y = ccl.buffer out ranks(2) chunks(7)
  affine.parallel (%r, %c) = (0, 0) to (2, 7) {
    ccl.copy %x[%r, %c] into %y[(%r + 1) mod 2, %c] via staged
  }
}

// -----

// A condition on the step has no closed form: the loop unrolls.
// CHECK-LABEL: ccl.program @unrolled.p0 of @unrolled ranks(0)
// CHECK-NOT: affine.for
// CHECK: ccl.block
// ONE-LABEL: ccl.program @unrolled.r1 of @unrolled ranks(1)
ccl.algorithm @unrolled implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(1)
  affine.for %s = 0 to 3 {
    ccl.copy %x[%s, 0] into %x[%s + 1, 0]
  }
}

// -----

// Rows of a table: every rank on its own.
// CHECK-LABEL: ccl.program @table.p0 of @table ranks(0)
// CHECK: ccl.transfer from %x[0] to %[[TO:.*]]{{$}}
// CHECK-LABEL: ccl.program @table.p1 of @table ranks(1)
// CHECK: ccl.transfer from %{{.*}} to %x[0]
// CHECK: ccl.transfer from %x[0] to %{{.*}}
// CHECK-LABEL: ccl.program @table.p2 of @table ranks(2)
// CHECK: ccl.transfer from %{{.*}} to %x[0]
ccl.algorithm @table implements #ccl.contract<broadcast> {
  %x = ccl.buffer inout ranks(3) chunks(1)
  ccl.schedule %x dense<[[0, 0, 0, 0, 0, 1, 0, 0, 1], [1, 0, 1, 0, 0, 2, 0, 0, 1]]> : tensor<2x9xi64>
}

// -----

// Direct: offers, reads between a wait and a done signal, waits for the readers.
// CHECK-LABEL: ccl.program @read.p(%me) of @read ranks(0 to 3)
// CHECK-DAG: %[[READY:.*]] = ccl.channel to (%me + 2) mod 3 tag 1{{$}}
// CHECK-DAG: %[[OFFER:.*]] = ccl.channel from (%me + 1) mod 3 tag 1{{$}}
// CHECK-DAG: %[[P:.*]] = ccl.peer %x at (%me + 1) mod 3
// CHECK-DAG: %[[DONE:.*]] = ccl.channel to (%me + 1) mod 3 tag 2{{$}}
// CHECK-DAG: %[[READ:.*]] = ccl.channel from (%me + 2) mod 3 tag 2{{$}}
// CHECK: ccl.block 0 {
// CHECK-NEXT: ccl.signal %[[READY]]
// CHECK-NEXT: ccl.wait %[[OFFER]]
// CHECK-NEXT: ccl.transfer from %[[P]][0] to %y[0]
// CHECK-NEXT: ccl.signal %[[DONE]]
// CHECK-NEXT: ccl.wait %[[READ]]
ccl.algorithm @read implements #ccl.contract<permute, to = [2, 0, 1]> {
  %x = ccl.buffer in ranks(3) chunks(1)
  %y = ccl.buffer out ranks(3) chunks(1)
  affine.parallel (%r) = (0) to (3) {
    ccl.copy %x[(%r + 1) mod 3, 0] into %y[%r, 0]
  }
}

// -----

// An algorithm has at least the slots that it asks for.
// CHECK-LABEL: ccl.program @asks.p(%me) of @asks ranks(0 to 5)
// CHECK: ccl.channel to (%me + 1) mod 5 slots 9
// ONE-LABEL: ccl.program @asks.r1 of @asks ranks(1)
// ONE: ccl.channel to 2 slots 9
ccl.algorithm @asks implements #ccl.contract<custom> attributes {ccl.slots = 9} {
  %x = ccl.buffer inout ranks(5) chunks(2)
  affine.parallel (%r) = (0) to (5) {
    ccl.copy %x[%r, 0] into %x[(%r + 1) mod 5, 1]
  }
}
