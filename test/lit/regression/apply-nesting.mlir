// Callees of callees are removed, too, and a copy never hides an algorithm of its name.
// RUN: ccl-opt %s --ccl-expand-algorithm --split-input-file | FileCheck %s

// CHECK-NOT: @a0
// CHECK-NOT: @a1
// CHECK-LABEL: ccl.algorithm @a2
// CHECK: ccl.copy
ccl.algorithm @a0 implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  ccl.copy %x[0, 0] into %x[1, 0]
}
ccl.algorithm @a1 implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  ccl.apply @a0 on %x by affine_map<(r, c) -> (r, c)>
}
ccl.algorithm @a2 implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  ccl.apply @a1 on %x by affine_map<(r, c) -> (r, c)>
}

// -----

// CHECK-LABEL: ccl.algorithm @top
// CHECK: ccl.copy
ccl.algorithm @b.applied0 implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  ccl.copy %x[0, 0] into %x[1, 0]
}
ccl.algorithm @b implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  ccl.apply @b.applied0 on %x by affine_map<(r, c) -> (r, c)>
}
ccl.algorithm @top implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  ccl.apply @b on %x by affine_map<(r, c) -> (r, c)>
}
