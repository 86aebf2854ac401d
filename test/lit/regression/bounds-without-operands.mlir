// Upstream does not compare the maps of loop bounds with their operands.
// RUN: not ccl-opt %s 2>&1 | FileCheck %s
// RUN: not ccl check %s 2>&1 | FileCheck %s
// CHECK: error: 'affine.for' op has bounds whose maps do not fit their operands
ccl.algorithm @a implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  "affine.for"() <{lowerBoundMap = affine_map<(d0, d1) -> (d0 + d1)>, operandSegmentSizes = array<i32: 0, 0, 0>, step = 1 : index, upperBoundMap = affine_map<() -> (2)>}> ({
  ^bb0(%i: index):
    ccl.copy %x[0, 0] into %x[1, 0]
    "affine.yield"() : () -> ()
  }) : () -> ()
}
