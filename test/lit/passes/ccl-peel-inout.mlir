// RUN: ccl-opt %s --ccl-lower-to-program --split-input-file | FileCheck %s
// RUN: ccl-opt %s --ccl-check-algorithm --ccl-lower-to-program --ccl-check-program --split-input-file -o /dev/null
// RUN: ccl-opt %s --ccl-check-algorithm --ccl-lower-to-program=via=direct --ccl-check-program --split-input-file -o /dev/null

// First reads come from in; the rank's own shard, never written, is copied.
// CHECK-LABEL: ccl.program @gather.p(%me)
// CHECK: %x_in = ccl.buffer in chunks(2)
// CHECK: %x_out = ccl.buffer out chunks(6)
// CHECK: affine.for %[[C:.*]] = 0 to 2 {
// CHECK-NEXT: ccl.transfer from %x_in[%[[C]]] to %x_out[%[[C]] + %me * 2]
// CHECK: ccl.transfer from %x_in[0] to %{{.*}} x 2
ccl.algorithm @gather implements #ccl.contract<all_gather> {
  %x = ccl.buffer inout ranks(3) chunks(6)
  affine.for %s = 1 to 3 {
    affine.parallel (%r) = (0) to (3) {
      ccl.copy %x[%r, %r * 2] into %x[(%r + %s) mod 3, %r * 2] x 2
    }
  }
}

// -----

// The result of a reduce-scatter is smaller than its input: partial sums live in scratch.
// CHECK-LABEL: ccl.program @scatter.p(%me)
// CHECK: %x_in = ccl.buffer in chunks(3)
// CHECK: %x_out = ccl.buffer out chunks(1)
// CHECK: %x_work = ccl.buffer scratch chunks(3)
// CHECK: ccl.transfer from %x_work[%me] to %x_out[0]
ccl.algorithm @scatter implements #ccl.contract<reduce_scatter, sum> {
  %x = ccl.buffer inout ranks(3) chunks(3)
  affine.for %s = 1 to 3 {
    affine.parallel (%r) = (0) to (3) {
      ccl.reduce %x[(%r + %s) mod 3, %r] into %x[%r, %r]
    }
  }
}

// -----

// Where each operand is either in the rank's own part or not, that part is the output itself; what is
// only passed on is kept nowhere.
// CHECK-LABEL: ccl.program @apart.p(%me)
// CHECK: %x_in = ccl.buffer in chunks(4)
// CHECK-NEXT: %x_out = ccl.buffer out chunks(1)
// CHECK-NOT: ccl.buffer
// CHECK: ccl.transfer reduce from %{{.*}}, %x_in[(%me + 2) mod 4] to %{{[a-z_0-9]+$}}
// CHECK: ccl.transfer reduce from %{{.*}}, %x_in[%me] to %x_out[0]{{$}}
// CHECK: ccl.transfer reduce from %{{.*}}, %x_out[0] to %x_out[0]{{$}}
// CHECK-NOT: ccl.transfer
// CHECK: }
ccl.algorithm @apart implements #ccl.contract<reduce_scatter, sum> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  affine.parallel (%r) = (0) to (4) {
    ccl.reduce %x[(%r + 3) mod 4, %r] into %x[(%r + 2) mod 4, %r]
  }
  affine.parallel (%r) = (0) to (4) {
    ccl.reduce %x[(%r + 2) mod 4, %r] into %x[%r, %r]
  }
  affine.parallel (%r) = (0) to (4) {
    ccl.reduce %x[(%r + 1) mod 4, %r] into %x[%r, %r]
  }
}

// -----

// Reads that are first in some iterations only: the input is copied before.
// CHECK-LABEL: ccl.program @mixed.p0
// CHECK: ccl.block 0 {
// CHECK-NEXT: affine.for %[[C:.*]] = 0 to 8 {
// CHECK-NEXT:   ccl.transfer from %x_in[%[[C]]] to %x_out[%[[C]]]
// CHECK-NOT: ccl.transfer from %x_in
// CHECK-LABEL: ccl.program @mixed.p1
ccl.algorithm @mixed implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(8)
  affine.for %s = 0 to 7 {
    ccl.copy %x[0, %s] into %x[1, %s]
    ccl.copy %x[1, %s] into %x[0, %s + 1]
  }
}

// -----

// In a grid of shards the own one has simple indices: they move evenly with the rank.
// CHECK-LABEL: ccl.program @grid.p(%me)
// CHECK: affine.for %[[C:.*]] = 0 to 3 {
// CHECK-NEXT: ccl.transfer from %x_work[%me floordiv 2, %me mod 2, %[[C]]] to %x_out[%[[C]]]
ccl.algorithm @grid implements #ccl.contract<reduce_scatter, sum> {
  %x = ccl.buffer inout ranks(2, 2) chunks(2, 2, 3)
  affine.for %s = 1 to 4 {
    affine.parallel (%a, %b) = (0, 0) to (2, 2) {
      ccl.reduce %x[(%a + %s floordiv 2) mod 2, (%b + %s) mod 2, %a, %b, 0] into %x[%a, %b, %a, %b, 0] x 3
    }
  }
}
