// The checks as passes: remarks, the attribute that records the in-place proof, faults
// of programs.
// RUN: ccl-opt %s --split-input-file --pass-pipeline='builtin.module(ccl-check-algorithm{remark=true},ccl-check-program{remark=true})' -verify-diagnostics | FileCheck %s

// CHECK-LABEL: ccl.algorithm @direct
// CHECK-SAME: ccl.in_place = false
// expected-remark @below {{ok: all_reduce sum on 2 ranks, 4 moves, disjoint only}}
// expected-remark @below {{programs ok: 10 instructions, least slots 1}}
ccl.algorithm @direct implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer in ranks(2) chunks(1)
  %y = ccl.buffer out ranks(2) chunks(1)
  affine.parallel (%r) = (0) to (2) {
    ccl.copy %x[%r, 0] into %y[%r, 0]
  }
  affine.parallel (%r) = (0) to (2) {
    ccl.reduce %x[(%r + 1) mod 2, 0] into %y[%r, 0]
  }
}
ccl.program @direct.p(%me) of @direct ranks(0 to 2) {
  %x = ccl.buffer in chunks(1)
  %y = ccl.buffer out chunks(1)
  %t = ccl.buffer scratch chunks(1)
  %to = ccl.channel to (%me + 1) mod 2 slots 1
  %from = ccl.channel from (%me + 1) mod 2 slots 1
  ccl.block 0 {
    ccl.transfer from %x[0] to %to
    ccl.transfer from %x[0] to %y[0]
    ccl.transfer from %from to %t[0]
    ccl.transfer reduce from %t[0], %y[0] to %t[0]
    ccl.transfer from %t[0] to %y[0]
  }
}

// -----

// Both ranks send twice before they receive: one slot is too few.
// expected-remark @below {{unchecked: custom on 2 ranks}}
// expected-note @below {{with 2 slots a channel none would get stuck}}
ccl.algorithm @stuck implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(2)
}
ccl.program @stuck.p(%me) of @stuck ranks(0 to 2) {
  %x = ccl.buffer inout chunks(2)
  %to = ccl.channel to (%me + 1) mod 2 slots 1
  %from = ccl.channel from (%me + 1) mod 2 slots 1
  ccl.block 0 {
    ccl.transfer from %x[0] to %to
    // expected-error @below {{deadlock: rank 0, block 0, instruction 1 waits for a free slot to rank 1}}
    // expected-note @below {{rank 0, block 0, instruction 1 waits}}
    // expected-note @below {{rank 1, block 0, instruction 1 waits}}
    ccl.transfer from %x[1] to %to
    ccl.transfer from %from to %x[0]
    ccl.transfer from %from to %x[1]
  }
}

// -----

// A channel to a rank that does not exist is reported where it stands. What nothing uses means
// nothing: ranks may have it in common with others that do use it.
// expected-remark @below {{unchecked: custom on 2 ranks}}
ccl.algorithm @outside implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
}
ccl.program @outside.p(%me) of @outside ranks(0 to 2) {
  %x = ccl.buffer inout chunks(1)
  %unused = ccl.channel from %me + 7 slots 1
  %nobody = ccl.peer %x at -1
  // expected-error @below {{rank 0: a channel to peer -1, which is outside [0, 2)}}
  %to = ccl.channel to %me - 1 slots 1
  ccl.block 0 {
    ccl.transfer from %x[0] to %to
  }
}

// -----

// A lowered algorithm has no moves to check. With `in` and `out` the form out of place decides.
// expected-remark @below {{programs ok: 4 instructions, least slots 1}}
ccl.algorithm @swap implements #ccl.contract<permute, to = [1, 0]> lowered {
  %in = ccl.buffer in ranks(2) chunks(1)
  %out = ccl.buffer out ranks(2) chunks(1)
}
ccl.program @swap.p(%me) of @swap ranks(0 to 2) {
  %in = ccl.buffer in chunks(1)
  %out = ccl.buffer out chunks(1)
  %next = ccl.channel to 1 - %me slots 1
  %prev = ccl.channel from 1 - %me slots 1
  ccl.block 0 {
    ccl.transfer from %in[0] to %next
  }
  ccl.block 1 {
    ccl.transfer from %prev to %out[0]
  }
}
