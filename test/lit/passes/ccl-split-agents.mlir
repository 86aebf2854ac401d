// Agents of a rank: their parts of the sequence, and what orders them.
// RUN: ccl-opt %s --split-input-file --ccl-lower-to-program | FileCheck %s
// RUN: ccl-opt %s --split-input-file --ccl-lower-to-program=fuse=false | FileCheck %s --check-prefix=PLAIN
// RUN: ccl-opt %s --split-input-file --ccl-lower-to-program --ccl-check-program -o /dev/null
// RUN: ccl-opt %s --split-input-file --pass-pipeline='builtin.module(ccl-assign-channels,ccl-project-to-ranks)' \
// RUN:   | FileCheck %s --check-prefix=PROJECTED

// What is put is told to each agent that waits for it, and only the one that sends it on waits
// before that. What agent 1 receives agent 3 sends on: the one signals, the other waits.
// CHECK-LABEL: ccl.program @relay.p0
// CHECK: %[[PEER:.*]] = ccl.peer %out at 1
// CHECK: ccl.block 0 {
// CHECK-NEXT: ccl.transfer from %in[0] to %[[PEER]][0]
// CHECK-NEXT: ccl.signal %[[ONE:.*]]
// CHECK-NEXT: ccl.signal %[[ZERO:.*]]
// CHECK-NEXT: }
// CHECK-NEXT: ccl.block 1 {
// CHECK-NEXT: ccl.transfer from %in[1] to
// CHECK-NEXT: }
// A copy inside of a rank makes nobody wait: in place it moves nothing.
// CHECK-NEXT: ccl.block 2 {
// CHECK-NEXT: ccl.transfer from %in[0] to %out[0] x 2
// CHECK-NEXT: }
// CHECK-LABEL: ccl.program @relay.p1
// CHECK: %[[TO:.*]] = ccl.channel to 1{{$}}
// CHECK: %[[FROM:.*]] = ccl.channel from 1{{$}}
// CHECK: ccl.block 0 {
// CHECK-NEXT: ccl.wait
// CHECK-NEXT: ccl.transfer from %out[0] to %{{.*}}[0]
// CHECK-NEXT: ccl.signal
// CHECK-NEXT: }
// CHECK-NEXT: ccl.block 1 {
// CHECK-NEXT: ccl.transfer from %{{.*}} to %out[1]
// CHECK-NEXT: ccl.signal %[[TO]]
// CHECK-NEXT: ccl.wait
// CHECK-NEXT: }
// CHECK-NEXT: ccl.block 3 {
// CHECK-NEXT: ccl.wait %[[FROM]]
// CHECK-NEXT: ccl.transfer from %out[1] to
// CHECK-NEXT: ccl.signal
// CHECK-NEXT: }
// CHECK-LABEL: ccl.program @relay.p2
// CHECK: ccl.block 0 {
// CHECK-NEXT: ccl.wait
// CHECK-NEXT: ccl.wait
// CHECK-NEXT: }
// CHECK-NOT: ccl.agent

// PROJECTED-LABEL: ccl.program @relay.p1
// PROJECTED: ccl.wait %{{.*}} of %out[0] {ccl.agent = 1 : i64, ccl.arrives = 0 : i64, ccl.step = 2 : i64}
// PROJECTED-NEXT: ccl.wait %{{.*}} of %out[0] {ccl.agent = 0 : i64, ccl.arrives = 0 : i64, ccl.step = 2 : i64}
// PROJECTED-NEXT: ccl.transfer from %{{.*}} to %out[1] {ccl.agent = 1 : i64, ccl.step = 3 : i64}
ccl.algorithm @relay implements #ccl.contract<broadcast> {
  %in = ccl.buffer in ranks(3) chunks(2)
  %out = ccl.buffer out ranks(3) chunks(2)
  ccl.copy %in[0, 0] into %out[0, 0] x 2 agents(2 to 2)
  ccl.copy %in[0, 0] into %out[1, 0] via put agents(0 to 1, 0)
  ccl.copy %in[0, 1] into %out[1, 1] via staged agents(1 to 1)
  ccl.copy %out[1, 0] into %out[2, 0] via put agents(0 to 0)
  ccl.copy %out[1, 1] into %out[2, 1] via put agents(3 to 0)
}

// -----

// Agent 0 waits for what is put when it needs it, not before. It writes where agent 1 reads, if
// input and output are one memory.
// CHECK-LABEL: ccl.program @exchange.p
// CHECK: %[[PUT:.*]] = ccl.channel from (%me + 1) mod 2{{$}}
// CHECK: %[[FROM:.*]] = ccl.channel from %me
// CHECK: ccl.block 0 {
// CHECK-NEXT: ccl.transfer from %x_in[1] to
// CHECK-NEXT: ccl.transfer from %{{.*}} to %t[1]
// CHECK-NEXT: ccl.transfer reduce from %t[1], %x_in[1] to %x_out[1]
// CHECK-NEXT: ccl.wait %[[PUT]]
// CHECK-NEXT: ccl.wait %[[FROM]]
// CHECK-NEXT: ccl.transfer reduce from %t[0], %x_in[0] to %x_out[0]
// CHECK-NEXT: }
// CHECK-NEXT: ccl.block 1 {
// CHECK-NEXT: ccl.transfer from %x_in[0] to
// CHECK-NEXT: ccl.signal
// CHECK-NEXT: ccl.signal
// CHECK-NEXT: }
// PLAIN-LABEL: ccl.program @exchange.p
// PLAIN: %[[PUT:.*]] = ccl.channel from (%me + 1) mod 2{{$}}
// PLAIN: ccl.block 0 {
// PLAIN-NEXT: ccl.wait %[[PUT]]
// PLAIN-NEXT: ccl.transfer from %x_in[1] to
ccl.algorithm @exchange implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(2) chunks(2)
  %t = ccl.buffer scratch ranks(2) chunks(2)
  affine.parallel (%r) = (0) to (2) {
    ccl.copy %x[%r, 0] into %t[(%r + 1) mod 2, 0] via put agents(1 to 0)
  }
  affine.parallel (%r) = (0) to (2) {
    ccl.copy %x[%r, 1] into %t[(%r + 1) mod 2, 1] agents(0 to 0)
  }
  affine.parallel (%r) = (0) to (2) {
    ccl.reduce %t[%r, 1] into %x[%r, 1] agents(0 to 0)
    ccl.reduce %t[%r, 0] into %x[%r, 0] agents(0 to 0)
  }
}

// -----

// Signals of what is put have other channels than data, and than those of direct reads.
// CHECK-LABEL: ccl.program @mixed.p
// CHECK-DAG: ccl.channel to (%me + 1) mod 2 tag 3{{$}}
// CHECK-DAG: ccl.channel to (%me + 1) mod 2 slots 4
// CHECK-DAG: ccl.channel to (%me + 1) mod 2 tag 1{{$}}
// CHECK: ccl.block 0 {
// CHECK-NOT: ccl.block
ccl.algorithm @mixed implements #ccl.contract<all_gather> {
  %in = ccl.buffer in ranks(2) chunks(3)
  %out = ccl.buffer out ranks(2) chunks(2, 3)
  affine.parallel (%r) = (0) to (2) {
    ccl.copy %in[%r, 0] into %out[%r, %r, 0] x 3
  }
  affine.parallel (%r) = (0) to (2) {
    ccl.copy %in[%r, 0] into %out[(%r + 1) mod 2, %r, 0] via put
  }
  affine.parallel (%r) = (0) to (2) {
    ccl.copy %in[%r, 1] into %out[(%r + 1) mod 2, %r, 1] via staged
  }
  affine.parallel (%r) = (0) to (2) {
    ccl.copy %in[%r, 2] into %out[(%r + 1) mod 2, %r, 2] via direct
  }
}

// -----

// The rank in the middle puts to itself; signals between its agents have tags of their own.
// CHECK-LABEL: ccl.program @mirror.p
// CHECK-DAG: ccl.channel to -%me + 2 tag 6{{$}}
// CHECK-DAG: ccl.channel to -%me + 2 tag 15{{$}}
// CHECK-DAG: ccl.channel to %me tag 16{{$}}
ccl.algorithm @mirror implements #ccl.contract<custom, in = 1, out = 1,
    rows = [0, 0, 2, 0, 1, 0, 1, 0, 2, 0, 0, 0]> {
  %in = ccl.buffer in ranks(3) chunks(1)
  %out = ccl.buffer out ranks(3) chunks(1)
  %t = ccl.buffer scratch ranks(3) chunks(2)
  affine.parallel (%r) = (0) to (3) {
    ccl.copy %in[%r, 0] into %t[%r, 0] agents(0 to 0)
  }
  affine.parallel (%r) = (0) to (3) {
    ccl.copy %t[%r, 0] into %t[2 - %r, 1] via put agents(1 to 1)
    ccl.copy %t[%r, 0] into %out[2 - %r, 0] via put agents(1 to 0)
  }
}
