// RUN: ccl-opt %s --split-input-file --ccl-verify-level -verify-diagnostics
// RUN: not ccl-opt %s --split-input-file --ccl-verify-level=level=program 2>&1 | FileCheck %s
// RUN: not ccl-opt %s --split-input-file --ccl-verify-level=level=plan 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: error: ccl-verify-level: level is algorithm or program, not 'plan'
// CHECK: error: 'ccl.algorithm' op has no program
// CHECK: error: 'ccl.buffer' op is still inout: run ccl-peel-inout

ccl.algorithm @fine implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
}

// -----

ccl.algorithm @inout implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
}
ccl.program @inout.p(%me) of @inout ranks(0 to 2) {
  %x = ccl.buffer inout chunks(1)
}

// -----

// expected-error @below {{size parameter 'n' is not bound}}
ccl.algorithm @unbound(%n: index) implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(%n) chunks(1)
}

// -----

ccl.algorithm @callee implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
}
ccl.algorithm @left_over implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-error @below {{is left over: run ccl-expand-apply}}
  ccl.apply @callee on %x by affine_map<(r, c) -> (r, c)>
}
