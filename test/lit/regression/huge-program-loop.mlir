// RUN: not ccl check %s 2>&1 | FileCheck %s
// RUN: not ccl run %s --count 1 2>&1 | FileCheck %s
// CHECK: huge-program-loop.mlir:[[@LINE+7]]:5: error: 'affine.for' op executes more than 33554432 instructions
ccl.algorithm @a implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(1) chunks(1)
}
ccl.program @a.p of @a ranks(0) {
  %x = ccl.buffer inout chunks(1)
  ccl.block 0 {
    affine.for %i = 0 to 1000000000000 {
      ccl.transfer from %x[0] to %x[0]
    }
  }
}
