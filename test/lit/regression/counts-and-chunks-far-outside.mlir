// A count that no buffer can hold is refused by the verifier: passes walk every chunk. A
// chunk at the end of int64_t is reported like any other that does not exist.
// RUN: ccl-opt %s --split-input-file --ccl-check-program -verify-diagnostics

ccl.algorithm @a implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(4)
  affine.parallel (%r) = (0) to (1) {
    // expected-error @below {{moves 2147483647 chunks, the source's buffer has 4}}
    ccl.copy %x[%r, %r] into %x[%r + 1, %r] x 2147483647
  }
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(1) chunks(4)
}
ccl.program @a.p of @a ranks(0) {
  %x = ccl.buffer inout chunks(4)
  ccl.block 0 {
    // expected-error @below {{moves 2147483647 chunks, a source's buffer has 4}}
    ccl.transfer from %x[0] to %x[1] x 2147483647
  }
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(1) chunks(4)
}
ccl.program @a.p of @a ranks(0) {
  %x = ccl.buffer inout chunks(4)
  ccl.block 0 {
    // expected-error @below {{outside [0, 4)}}
    ccl.transfer from %x[9223372036854775807] to %x[1]
  }
}
