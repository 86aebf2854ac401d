// Loops that would take for ever are refused at the loop, at once.
// RUN: ccl-opt %s --ccl-check-algorithm --split-input-file -verify-diagnostics

ccl.algorithm @many implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-error @below {{executes more than 33554432 moves}}
  affine.for %s = 0 to 1000000000 {
    ccl.copy %x[0, 0] into %x[1, 0]
  }
}

// -----

ccl.algorithm @far implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-error @below {{has bounds or a step beyond 1099511627776}}
  affine.for %s = 0 to 9223372036854775807 step 4611686018427387904 {
    ccl.copy %x[0, 0] into %x[1, 0]
  }
}

// -----

// Chains of affine.apply can stand for exponentially large expressions.
ccl.algorithm @apply implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  affine.for %s = 0 to 2 {
    // expected-error @below {{is not allowed in an algorithm}}
    %0 = affine.apply affine_map<(d0) -> (d0 * 2)>(%s)
  }
}

// -----

ccl.algorithm @program implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
}
// expected-error @below {{rank 7 is outside [0, 2), the ranks of @program}}
ccl.program @program.p(%me) of @program ranks(0 to 8) {
  %x = ccl.buffer inout chunks(1)
}
