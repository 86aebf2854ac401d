ccl.algorithm @ring implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(4) chunks(4)
}
ccl.program @ring.p(%me) of @ring ranks(0 to 4) {
  %x = ccl.buffer inout chunks(4)
  %next = ccl.channel to (%me + 1) mod 4 slots 2 protocol simple
  %prev = ccl.channel from (%me + 3) mod 4 slots 2 protocol simple
  ccl.block 0 {
    ccl.transfer from %x[%me] to %next
    affine.for %s = 1 to 3 {
      ccl.transfer reduce from %prev, %x[(%me - %s) mod 4] to %next
    }
    ccl.transfer reduce from %prev, %x[(%me + 1) mod 4] to %x[(%me + 1) mod 4], %next
    ccl.transfer from %prev to %x[(%me + 2) mod 4]
  }
}
