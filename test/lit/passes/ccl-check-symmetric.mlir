// Proofs on one rank of thousands, each within a second or two.
// RUN: ccl compile --collective all_reduce --algorithm ring -n 4096 --emit program 2>/dev/null \
// RUN:   | ccl-opt --pass-pipeline='builtin.module(ccl-check-program{remark=true})' -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=RING
// RING: remark: programs ok: 33550336 instructions, least slots 2, proved on one rank of 4096 by symmetry
// RUN: ccl compile --collective all_reduce --algorithm one_shot -n 4096 --emit program 2>/dev/null \
// RUN:   | ccl-opt --pass-pipeline='builtin.module(ccl-check-program{remark=true})' -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=SHOT
// SHOT: remark: programs ok: {{[0-9]+}} instructions, least slots 0, proved on one rank of 4096 by symmetry
// RUN: ccl compile --collective all_reduce --algorithm hierarchical --grid 64x64 --emit program 2>/dev/null \
// RUN:   | ccl-opt --pass-pipeline='builtin.module(ccl-check-program{remark=true})' -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=GRID
// GRID: remark: programs ok: {{[0-9]+}} instructions, least slots 2, proved on one rank of 4096 by symmetry

// A tree is not symmetric: small enough, it is proved on all ranks, if not asked otherwise.
// RUN: ccl compile --collective all_reduce --algorithm binomial -n 64 --emit program 2>/dev/null > %t.tree
// RUN: ccl-opt %t.tree --pass-pipeline='builtin.module(ccl-check-program{remark=true})' -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=TREE
// TREE:     remark: programs ok: {{[0-9]+}} instructions, least slots 1
// TREE-NOT: symmetry
// RUN: not ccl-opt %t.tree --pass-pipeline='builtin.module(ccl-check-program{symmetric=always})' -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NOT
// NOT: error: {{.*}}cannot be proved: there is no single program for all ranks
// RUN: not ccl-opt %t.tree --pass-pipeline='builtin.module(ccl-check-program{symmetric=maybe})' -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=OPTION
// OPTION: error: option symmetric: 'maybe' is none of auto, always, never

// The same mistakes are found, on rank 0.
// RUN: ccl-opt %s --split-input-file --pass-pipeline='builtin.module(ccl-check-program{symmetric=always remark=true})' -verify-diagnostics

// The loop over all chunks names them by its own variable on every rank.
// expected-remark @below {{programs ok: 72 instructions, least slots 1, proved on one rank of 6 by symmetry, uneven shards}}
ccl.algorithm @grid implements #ccl.contract<all_gather> {
  %x = ccl.buffer in ranks(2, 3) chunks(1)
  %y = ccl.buffer out ranks(2, 3) chunks(2, 3)
}
ccl.program @grid.p(%me) of @grid ranks(0 to 6) {
  %x = ccl.buffer in chunks(1)
  %y = ccl.buffer out chunks(2, 3)
  %right = ccl.channel to (%me + 1) mod 3 + (%me floordiv 3) * 3 slots 1
  %left = ccl.channel from (%me + 2) mod 3 + (%me floordiv 3) * 3 slots 1
  %down = ccl.channel to (%me + 3) mod 6 slots 1
  %up = ccl.channel from (%me + 3) mod 6 slots 1
  ccl.block 0 {
    ccl.transfer from %x[0] to %y[%me floordiv 3, %me mod 3]
    ccl.transfer from %x[0] to %down
    ccl.transfer from %up to %y[(%me floordiv 3 + 1) mod 2, %me mod 3]
    affine.for %s = 0 to 2 {
      affine.for %row = 0 to 2 {
        ccl.transfer from %y[%row, (%me - %s) mod 3] to %right
        ccl.transfer from %left to %y[%row, (%me - %s + 2) mod 3]
      }
    }
    ccl.transfer from %y[%me floordiv 3, %me mod 3] to %y[%me floordiv 3, %me mod 3]
  }
}

// -----

// Received chunks go to the wrong places.
// expected-note @below {{all 4 ranks do the same, shifted}}
ccl.algorithm @wrong implements #ccl.contract<all_gather> {
  %x = ccl.buffer in ranks(4) chunks(1)
  %y = ccl.buffer out ranks(4) chunks(4)
}
ccl.program @wrong.p(%me) of @wrong ranks(0 to 4) {
  %x = ccl.buffer in chunks(1)
  %y = ccl.buffer out chunks(4)
  %next = ccl.channel to (%me + 1) mod 4 slots 1
  %prev = ccl.channel from (%me + 3) mod 4 slots 1
  ccl.block 0 {
    // expected-note @below {{which used the result of block 0, instruction 0}}
    ccl.transfer from %x[0] to %y[%me]
    affine.for %s = 1 to 4 {
      // expected-error @below {{rank 0, y[3] is read, but holds nothing}}
      // expected-note @below {{which used the result of block 0, instruction 1}}
      ccl.transfer from %y[(%me - %s + 1) mod 4] to %next
      // expected-error @below {{rank 0, y[1] holds {3.0}, wants {1.0}}}
      // expected-note @below {{y[1] was last written by block 0, instruction 2}}
      ccl.transfer from %prev to %y[(%me + %s) mod 4]
    }
  }
}

// -----

// Every rank sends twice before it receives.
// expected-note @below {{with 2 slots a channel none would get stuck}}
// expected-note @below {{all 4 ranks do the same, shifted}}
ccl.algorithm @stuck implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
}
ccl.program @stuck.p(%me) of @stuck ranks(0 to 4) {
  %x = ccl.buffer inout chunks(4)
  %next = ccl.channel to (%me + 1) mod 4 slots 1
  %prev = ccl.channel from (%me + 3) mod 4 slots 1
  ccl.block 0 {
    ccl.transfer from %x[%me] to %next
    // expected-error @below {{deadlock: rank 0, block 0, instruction 1 waits for a free slot to rank 1}}
    // expected-note @below {{rank 0, block 0, instruction 1 waits}}
    ccl.transfer from %x[%me] to %next
    ccl.transfer from %prev to %x[%me]
    ccl.transfer from %prev to %x[%me]
  }
}

// -----

// The last rank would leave the buffer where rank 0 does not.
// expected-error @below {{cannot be proved: ccl.transfer: an index does not move evenly with the rank}}
ccl.algorithm @edge implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
}
ccl.program @edge.p(%me) of @edge ranks(0 to 4) {
  %x = ccl.buffer inout chunks(4)
  ccl.block 0 {
    ccl.transfer from %x[%me] to %x[%me + 1]
  }
}

// -----

// Nothing says when the peer's place may be read.
// expected-error @below {{cannot be proved: rank 0, block 0, instruction 1: nothing orders it with another access to y[1]}}
ccl.algorithm @race implements #ccl.contract<all_gather> {
  %x = ccl.buffer in ranks(2) chunks(1)
  %y = ccl.buffer out ranks(2) chunks(2)
}
ccl.program @race.p(%me) of @race ranks(0 to 2) {
  %x = ccl.buffer in chunks(1)
  %y = ccl.buffer out chunks(2)
  %other = ccl.peer %y at (%me + 1) mod 2
  ccl.block 0 {
    ccl.transfer from %x[0] to %y[%me]
    ccl.transfer from %other[(%me + 1) mod 2] to %y[(%me + 1) mod 2]
  }
}
