// RUN: ccl-opt %s --ccl-project-to-ranks=max-ops=50 --split-input-file -verify-diagnostics
// RUN: not ccl-opt %s --ccl-project-to-ranks=rank=9 --split-input-file 2>&1 | FileCheck %s

// CHECK: error: 'ccl.algorithm' op rank 9 is outside [0, 4)

ccl.algorithm @too_large implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(1)
  affine.for %s = 0 to 100 {
    affine.for %k = 0 to 1000 {
      // expected-error @below {{exceeds 50 operations: its rank indices have no closed form over these loops}}
      ccl.copy %x[%k mod 3, 0] into %x[%k mod 3 + 1, 0]
    }
  }
}

// -----

// expected-error @below {{size parameter 'n' is not bound}}
ccl.algorithm @unbound(%n: index) implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(1)
}

// -----

ccl.algorithm @callee implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(1)
}
ccl.algorithm @not_expanded implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(1)
  // expected-error @below {{must be expanded first (ccl-expand-apply)}}
  ccl.apply @callee on %x by affine_map<(r, c) -> (r, c)>
}
