// Size parameters become constants and fold into maps and bounds; an applied algorithm
// keeps its own.
// RUN: ccl-opt %s --ccl-specialize=sizes=n=4,k=3 --canonicalize --split-input-file | FileCheck %s
// RUN: not ccl-opt %s --ccl-specialize=sizes=n=0 2>&1 | FileCheck %s --check-prefix=BAD
// RUN: not ccl-opt %s --ccl-specialize=sizes=n 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: error: ccl-specialize: 'n{{(=0)?}}' is no size: write name=value with a value of at least 1

// CHECK-LABEL: ccl.algorithm @bound implements
// CHECK-NEXT: %x = ccl.buffer inout ranks(4) chunks(6)
// CHECK-NEXT: affine.for %[[S:.*]] = 1 to 4 {
// CHECK-NEXT:   affine.parallel (%[[R:.*]]) = (0) to (4) {
// CHECK-NEXT:     ccl.reduce %x[%[[R]], (%[[R]] - %[[S]]) mod 4] into %x[(%[[R]] + 1) mod 4, (%[[R]] - %[[S]]) mod 4]
ccl.algorithm @bound(%n: index, %k: index) implements #ccl.contract<custom, sum> {
  %x = ccl.buffer inout ranks(%n) chunks(%k * 2)
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.reduce %x[%r, (%r - %s) mod symbol(%n)] into %x[(%r + 1) mod symbol(%n), (%r - %s + symbol(%n)) mod symbol(%n)]
    }
  }
}

// -----

// A parameter that is not named stays.
// CHECK-LABEL: ccl.algorithm @other(%m: index) implements
ccl.algorithm @other(%m: index) implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(%m) chunks(1)
}

// -----

// CHECK-LABEL: ccl.algorithm @callee(%n: index)
ccl.algorithm @callee(%n: index) implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(%n) chunks(1)
}
// CHECK-LABEL: ccl.algorithm @caller implements
ccl.algorithm @caller(%n: index) implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(%n) chunks(1)
  // CHECK: ccl.apply @callee(4) on %x by #{{.*}}
  ccl.apply @callee(%n) on %x by affine_map<(r, c) -> (r, c)>
}
