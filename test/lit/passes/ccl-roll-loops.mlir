// RUN: ccl-opt %s --ccl-roll-loops | FileCheck %s
// RUN: ccl-opt %s --ccl-roll-loops | ccl-opt --ccl-roll-loops | FileCheck %s

// Constants become the loop's variable; where the rank is counted around it may pass the end.
// CHECK-LABEL: @ring
// CHECK: %[[X:.*]] = ccl.buffer inout
// CHECK-NEXT: affine.for %[[S:.*]] = 1 to 4 {
// CHECK-NEXT:   affine.parallel (%[[R:.*]]) = (0) to (4) {
// CHECK-NEXT:     ccl.reduce %[[X]][%[[R]], (%[[R]] - %[[S]]) mod 4] into %[[X]][(%[[R]] + 1) mod 4, (%[[R]] - %[[S]]) mod 4]
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK-NEXT: affine.for %[[S:.*]] = 0 to 3 {
// CHECK-NEXT:   affine.parallel (%[[R:.*]]) = (0) to (4) {
// CHECK-NEXT:     ccl.copy %[[X]][%[[R]], (%[[R]] - %[[S]]) mod 4]
ccl.algorithm @ring implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  affine.parallel (%r) = (0) to (4) {
    ccl.reduce %x[%r, (%r + 3) mod 4] into %x[(%r + 1) mod 4, (%r + 3) mod 4]
  }
  affine.parallel (%r) = (0) to (4) {
    ccl.reduce %x[%r, (%r + 2) mod 4] into %x[(%r + 1) mod 4, (%r + 2) mod 4]
  }
  affine.parallel (%r) = (0) to (4) {
    ccl.reduce %x[%r, (%r + 1) mod 4] into %x[(%r + 1) mod 4, (%r + 1) mod 4]
  }
  affine.parallel (%r) = (0) to (4) {
    ccl.copy %x[%r, %r] into %x[(%r + 1) mod 4, %r]
  }
  affine.parallel (%r) = (0) to (4) {
    ccl.copy %x[%r, (%r + 3) mod 4] into %x[(%r + 1) mod 4, (%r + 3) mod 4]
  }
  affine.parallel (%r) = (0) to (4) {
    ccl.copy %x[%r, (%r + 2) mod 4] into %x[(%r + 1) mod 4, (%r + 2) mod 4]
  }
}

// Loops in loops.
// CHECK-LABEL: @nested
// CHECK: affine.for %[[I:.*]] = 0 to 3 {
// CHECK-NEXT: affine.for %[[J:.*]] = 1 to 4 {
// CHECK-NEXT: ccl.copy %{{.*}}[0, %[[I]] * 2] into %{{.*}}[%[[J]], %[[I]]] agents(0 to 1)
// CHECK-NOT: ccl.copy
ccl.algorithm @nested implements #ccl.contract<custom> {
  %x = ccl.buffer in ranks(4) chunks(6)
  %y = ccl.buffer out ranks(4) chunks(3)
  ccl.copy %x[0, 0] into %y[1, 0] agents(0 to 1)
  ccl.copy %x[0, 0] into %y[2, 0] agents(0 to 1)
  ccl.copy %x[0, 0] into %y[3, 0] agents(0 to 1)
  ccl.copy %x[0, 2] into %y[1, 1] agents(0 to 1)
  ccl.copy %x[0, 2] into %y[2, 1] agents(0 to 1)
  ccl.copy %x[0, 2] into %y[3, 1] agents(0 to 1)
  ccl.copy %x[0, 4] into %y[1, 2] agents(0 to 1)
  ccl.copy %x[0, 4] into %y[2, 2] agents(0 to 1)
  ccl.copy %x[0, 4] into %y[3, 2] agents(0 to 1)
}

// What differs in more than constants, or grows unevenly, stays.
// CHECK-LABEL: @kept
// CHECK-NOT: affine.for
// CHECK: ccl.copy %{{.*}}[0, 0] into %{{.*}}[1, 0] agents(0 to 1)
// CHECK-NEXT: ccl.copy %{{.*}}[0, 1] into %{{.*}}[1, 1] agents(0 to 2)
// CHECK-NEXT: ccl.copy %{{.*}}[0, 2] into %{{.*}}[1, 2]{{$}}
// CHECK-NEXT: ccl.copy %{{.*}}[0, 3] into %{{.*}}[1, 3] via staged
// CHECK-NEXT: ccl.copy %{{.*}}[0, 4] into %{{.*}}[1, 4] x 2
// CHECK-NEXT: ccl.copy %{{.*}}[0, 6] into %{{.*}}[1, 6]{{$}}
// CHECK-NEXT: ccl.copy %{{.*}}[0, 7] into %{{.*}}[2, 7]{{$}}
ccl.algorithm @kept implements #ccl.contract<custom> {
  %x = ccl.buffer in ranks(3) chunks(8)
  %y = ccl.buffer out ranks(3) chunks(8)
  ccl.copy %x[0, 0] into %y[1, 0] agents(0 to 1)
  ccl.copy %x[0, 1] into %y[1, 1] agents(0 to 2)
  ccl.copy %x[0, 2] into %y[1, 2]
  ccl.copy %x[0, 3] into %y[1, 3] via staged
  ccl.copy %x[0, 4] into %y[1, 4] x 2
  ccl.copy %x[0, 6] into %y[1, 6]
  ccl.copy %x[0, 7] into %y[2, 7]
}
