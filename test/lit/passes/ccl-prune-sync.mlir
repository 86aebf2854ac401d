// RUN: ccl-opt %s --ccl-check-algorithm --ccl-assign-channels=via=direct --ccl-project-to-ranks --ccl-prune-sync --canonicalize --split-input-file | FileCheck %s
// RUN: ccl-opt %s --ccl-check-algorithm --ccl-assign-channels=via=direct --ccl-project-to-ranks --ccl-prune-sync --ccl-check-program --split-input-file -o /dev/null

// Nobody writes what is read: all offers come first, all waits for readers last.
// CHECK-LABEL: ccl.program @gather.p
// CHECK: ccl.block 0 {
// CHECK-NEXT: affine.for %[[A:.*]] = 1 to 5 {
// CHECK-NEXT:   ccl.channel to
// CHECK-NEXT:   ccl.signal {{.*}}
// CHECK-NEXT: }
// CHECK-NEXT: ccl.transfer from %x[0] to %t[%me]
// CHECK-NEXT: affine.for
// CHECK:        ccl.wait
// CHECK:        ccl.transfer from
// CHECK:        ccl.signal
// CHECK-NOT:    ccl.wait
// CHECK:      affine.for
// CHECK-NEXT:   ccl.channel from
// CHECK-NEXT:   ccl.wait {{.*}}
// CHECK-NEXT: }
// CHECK-NOT:  ccl.wait
// CHECK-LABEL: ccl.algorithm @rewrite
ccl.algorithm @gather implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer in ranks(5) chunks(1)
  %y = ccl.buffer out ranks(5) chunks(1)
  %t = ccl.buffer scratch ranks(5) chunks(5)
  affine.parallel (%r) = (0) to (5) {
    ccl.copy %x[%r, 0] into %t[%r, %r]
  }
  affine.for %s = 1 to 5 {
    affine.parallel (%r) = (0) to (5) {
      ccl.copy %x[(%r + %s) mod 5, 0] into %t[%r, (%r + %s) mod 5]
    }
  }
  affine.parallel (%r) = (0) to (5) {
    ccl.copy %t[%r, 0] into %y[%r, 0]
  }
  affine.for %s = 1 to 5 {
    affine.parallel (%r) = (0) to (5) {
      ccl.reduce %t[%r, %s] into %y[%r, 0]
    }
  }
}

// -----

// What is read is written again: the wait stays before that write.
// CHECK-LABEL: ccl.program @rewrite.p0
// CHECK: ccl.transfer from %x[0] to %t[0]
// CHECK-NEXT: ccl.signal {{.*}}
// CHECK: ccl.transfer from %y[0] to %y[1]
// CHECK-NEXT: ccl.wait {{.*}}
// CHECK-NEXT: ccl.transfer from %x[0] to %t[0]
ccl.algorithm @rewrite implements #ccl.contract<custom> {
  %x = ccl.buffer in ranks(2) chunks(1)
  %y = ccl.buffer out ranks(2) chunks(2)
  %t = ccl.buffer scratch ranks(2) chunks(1)
  ccl.copy %x[0, 0] into %t[0, 0]
  ccl.copy %t[0, 0] into %y[1, 0]
  ccl.copy %x[0, 0] into %y[0, 0]
  ccl.copy %y[0, 0] into %y[0, 1]
  ccl.copy %x[0, 0] into %t[0, 0]
}
