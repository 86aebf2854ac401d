// RUN: ccl-opt %s --ccl-fuse-transfers --canonicalize --split-input-file | FileCheck %s
// Meaning is kept:
// RUN: ccl-opt %s --ccl-check-program --ccl-fuse-transfers --ccl-check-program --split-input-file -o /dev/null

// The ring: loops are rotated, sends join receives, partial sums are not stored.
// CHECK-LABEL: ccl.program @ring.p
// CHECK: ccl.block 0 {
// CHECK-NEXT: ccl.transfer from %x[%me] to %to
// CHECK-NEXT: affine.for %[[S:.*]] = 1 to 4 {
// CHECK-NEXT:   ccl.transfer reduce from %from, %x[(%me - %[[S]]) mod 5] to %to
// CHECK-NEXT: }
// CHECK-NEXT: ccl.transfer reduce from %from, %x[(%me + 1) mod 5] to %x[(%me + 1) mod 5], %to
// CHECK-NEXT: affine.for %[[T:.*]] = 1 to 4 {
// CHECK-NEXT:   ccl.transfer from %from to %x[(%me - %[[T]] + 1) mod 5], %to
// CHECK-NEXT: }
// CHECK-NEXT: ccl.transfer from %from to %x[(%me + 2) mod 5]
// CHECK-NEXT: }
ccl.algorithm @ring implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(5) chunks(5)
}
ccl.program @ring.p(%me) of @ring ranks(0 to 5) {
  %x = ccl.buffer inout chunks(5)
  %to = ccl.channel to (%me + 1) mod 5 slots 2
  %from = ccl.channel from (%me + 4) mod 5 slots 2
  ccl.block 0 {
    affine.for %s = 1 to 5 {
      ccl.transfer from %x[(%me - %s + 1) mod 5] to %to
      ccl.transfer reduce from %from, %x[(%me - %s) mod 5] to %x[(%me - %s) mod 5]
    }
    affine.for %s = 1 to 5 {
      ccl.transfer from %x[(%me - %s + 2) mod 5] to %to
      ccl.transfer from %from to %x[(%me - %s + 1) mod 5]
    }
  }
}

// -----

// Reductions into one place become one n-ary reduction.
// CHECK-LABEL: ccl.program @sum.p
// CHECK: ccl.block 0 {
// CHECK: ccl.transfer reduce from %x[0], %{{.*}}[0], %{{.*}}[0], %{{.*}}[0] to %y[0]
// CHECK-NOT: ccl.transfer
ccl.algorithm @sum implements #ccl.contract<custom, sum> {
  %x = ccl.buffer in ranks(4) chunks(1)
  %y = ccl.buffer out ranks(4) chunks(1)
}
ccl.program @sum.p(%me) of @sum ranks(0 to 4) {
  %x = ccl.buffer in chunks(1)
  %y = ccl.buffer out chunks(1)
  ccl.block 0 {
    ccl.transfer from %x[0] to %y[0]
    affine.for %s = 1 to 4 {
      %p = ccl.peer %x at (%me + %s) mod 4
      ccl.transfer reduce from %p[0], %y[0] to %y[0]
    }
  }
}

// -----

// A send joins the last write of its place, not an earlier one; and not at all if the
// send's channel is used in between.
// CHECK-LABEL: ccl.program @kept.p0
// CHECK: ccl.transfer from %from to %x[0]{{$}}
// CHECK-NEXT: ccl.transfer from %x[1] to %x[0], %to{{$}}
// CHECK-NEXT: ccl.transfer from %from to %x[2]{{$}}
// CHECK-NEXT: ccl.transfer from %x[1] to %to{{$}}
// CHECK-NEXT: ccl.transfer from %x[2] to %to{{$}}
ccl.algorithm @kept implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(3)
}
ccl.program @kept.p0(%me) of @kept ranks(0) {
  %x = ccl.buffer inout chunks(3)
  %to = ccl.channel to 1 slots 4
  %from = ccl.channel from 1 slots 4
  ccl.block 0 {
    ccl.transfer from %from to %x[0]
    ccl.transfer from %x[1] to %x[0]
    ccl.transfer from %x[0] to %to
    ccl.transfer from %from to %x[2]
    ccl.transfer from %x[1] to %to
    ccl.transfer from %x[2] to %to
  }
}
ccl.program @kept.p1(%me) of @kept ranks(1) {
  %x = ccl.buffer inout chunks(3)
  %to = ccl.channel to 0 slots 4
  %from = ccl.channel from 0 slots 4
  ccl.block 0 {
    ccl.transfer from %x[0] to %to
    ccl.transfer from %x[1] to %to
    ccl.transfer from %from to %x[0]
    ccl.transfer from %from to %x[1]
    ccl.transfer from %from to %x[2]
  }
}

// -----

// Fused, this ring would need two slots and has one: it stays as it is.
// CHECK-LABEL: ccl.program @narrow.p
// CHECK: affine.for
// CHECK-NEXT: ccl.transfer from %x[{{.*}}] to %to
// CHECK-NEXT: ccl.transfer from %from to %x[{{.*}}]{{$}}
ccl.algorithm @narrow implements #ccl.contract<all_gather> {
  %x = ccl.buffer inout ranks(4) chunks(4)
}
ccl.program @narrow.p(%me) of @narrow ranks(0 to 4) {
  %x = ccl.buffer inout chunks(4)
  %to = ccl.channel to (%me + 1) mod 4 slots 1
  %from = ccl.channel from (%me + 3) mod 4 slots 1
  ccl.block 0 {
    affine.for %s = 1 to 4 {
      ccl.transfer from %x[(%me - %s + 1) mod 4] to %to
      ccl.transfer from %from to %x[(%me - %s) mod 4]
    }
  }
}

// -----

// What a switch copies is one transfer, whoever is told about it is told afterwards.
// CHECK-LABEL: ccl.program @fan.root
// CHECK-COUNT-3: ccl.peer
// CHECK: ccl.transfer from %x[0] to %{{.*}}[0], %{{.*}}[0], %{{.*}}[0]
// CHECK-NOT: ccl.transfer
// CHECK-COUNT-3: ccl.signal
ccl.algorithm @fan implements #ccl.contract<broadcast> attributes {ccl.multicast} {
  %x = ccl.buffer inout ranks(4) chunks(1)
}
ccl.program @fan.root(%me) of @fan ranks(0 to 1) {
  %x = ccl.buffer inout chunks(1)
  ccl.block 0 {
    affine.for %s = 1 to 4 {
      %p = ccl.peer %x at %s
      %told = ccl.channel to %s
      ccl.transfer from %x[0] to %p[0]
      ccl.signal %told
    }
  }
}
ccl.program @fan.leaf(%me) of @fan ranks(1 to 4) {
  %x = ccl.buffer inout chunks(1)
  %root = ccl.channel from 0
  ccl.block 0 {
    ccl.wait %root
  }
}

// -----

// Not across what has to be waited for, and not without the word.
// CHECK-LABEL: ccl.program @turns.root
// CHECK: ccl.transfer from %x[0] to %{{[^,]*}}[0]{{$}}
// CHECK: ccl.wait
// CHECK: ccl.transfer from %x[0] to %{{[^,]*}}[0]{{$}}
ccl.algorithm @turns implements #ccl.contract<broadcast> attributes {ccl.multicast} {
  %x = ccl.buffer inout ranks(3) chunks(1)
}
ccl.program @turns.root of @turns ranks(0) {
  %x = ccl.buffer inout chunks(1)
  %p = ccl.peer %x at 1
  %q = ccl.peer %x at 2
  %one = ccl.channel to 1
  %two = ccl.channel to 2
  %back = ccl.channel from 1
  ccl.block 0 {
    ccl.transfer from %x[0] to %p[0]
    ccl.signal %one
    ccl.wait %back
    ccl.transfer from %x[0] to %q[0]
    ccl.signal %two
  }
}
ccl.program @turns.one of @turns ranks(1) {
  %x = ccl.buffer inout chunks(1)
  %root = ccl.channel from 0
  %back = ccl.channel to 0
  ccl.block 0 {
    ccl.wait %root
    ccl.signal %back
  }
}
ccl.program @turns.two of @turns ranks(2) {
  %x = ccl.buffer inout chunks(1)
  %root = ccl.channel from 0
  ccl.block 0 {
    ccl.wait %root
  }
}
// CHECK-LABEL: ccl.program @each.root
// CHECK: ccl.transfer from %x[0] to %{{[^,]*}}[0]{{$}}
// CHECK: ccl.transfer from %x[0] to %{{[^,]*}}[0]{{$}}
ccl.algorithm @each implements #ccl.contract<broadcast> {
  %x = ccl.buffer inout ranks(3) chunks(1)
}
ccl.program @each.root of @each ranks(0) {
  %x = ccl.buffer inout chunks(1)
  %p = ccl.peer %x at 1
  %q = ccl.peer %x at 2
  %one = ccl.channel to 1
  %two = ccl.channel to 2
  ccl.block 0 {
    ccl.transfer from %x[0] to %p[0]
    ccl.signal %one
    ccl.transfer from %x[0] to %q[0]
    ccl.signal %two
  }
}
ccl.program @each.leaf(%me) of @each ranks(1 to 3) {
  %x = ccl.buffer inout chunks(1)
  %root = ccl.channel from 0
  ccl.block 0 {
    ccl.wait %root
  }
}
