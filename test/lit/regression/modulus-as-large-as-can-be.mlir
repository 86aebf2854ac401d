// Numbers next to the limits of 64 bits do not overflow where indices are simplified.
// RUN: ccl-opt %s --canonicalize | FileCheck %s

ccl.algorithm @a implements #ccl.contract<custom> lowered {
  %x = ccl.buffer inout ranks(2) chunks(2)
}
// CHECK: ccl.channel to %me + 1 slots 2
ccl.program @a.p(%me) of @a ranks(0 to 2) {
  %x = ccl.buffer inout chunks(2)
  %next = ccl.channel to (%me + 1) mod 9223372036854775807 slots 2
  %prev = ccl.channel from (%me - 1) floordiv 9223372036854775807 slots 2
  ccl.block 0 {
    ccl.transfer from %x[%me] to %next
  }
}

// RUN: sed 's/ranks(0 to 2)/ranks(9223372036854775807)/' %s | not ccl-opt 2>&1 | FileCheck %s --check-prefix=RANK
// RANK: error: custom op 'ccl.program' there is no rank 9223372036854775807
