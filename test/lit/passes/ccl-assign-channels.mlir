// RUN: ccl-opt %s --ccl-assign-channels | FileCheck %s --check-prefixes=CHECK,AUTO
// RUN: ccl-opt %s --ccl-assign-channels=via=direct | FileCheck %s --check-prefixes=CHECK,DIRECT
// RUN: ccl-opt %s --ccl-assign-channels=via=staged | FileCheck %s --check-prefixes=CHECK,STAGED
// RUN: not ccl-opt %s --ccl-assign-channels=via=air 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: error: ccl-assign-channels: via is auto, staged or direct, not 'air'

// Places of an inout buffer change while others would read them.
// CHECK-LABEL: @inout
ccl.algorithm @inout implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // AUTO: ccl.copy %x[0, 0] into %x[1, 0] via staged{{$}}
  // DIRECT: ccl.copy %x[0, 0] into %x[1, 0] via direct{{$}}
  // STAGED: ccl.copy %x[0, 0] into %x[1, 0] via staged{{$}}
  ccl.copy %x[0, 0] into %x[1, 0]
}

// Moves of one step get distinct tags; what the author chose stays.
// CHECK-LABEL: @step
ccl.algorithm @step implements #ccl.contract<custom> {
  %x = ccl.buffer in ranks(4) chunks(1)
  %y = ccl.buffer out ranks(4) chunks(3)
  affine.parallel (%r) = (0) to (4) {
    // AUTO: via direct{{$}}
    // AUTO-NEXT: via direct tag 1{{$}}
    // AUTO-NEXT: via staged tag 2{{$}}
    // STAGED: via staged{{$}}
    ccl.copy %x[%r, 0] into %y[%r, 0]
    ccl.copy %x[%r, 0] into %y[(%r + 1) mod 4, 1]
    ccl.copy %x[%r, 0] into %y[(%r + 3) mod 4, 2] via staged
  }
}

// A put is the author's claim. A message does the same without it, and one agent receives it.
// CHECK-LABEL: @put
ccl.algorithm @put implements #ccl.contract<custom> {
  %x = ccl.buffer in ranks(2) chunks(2)
  %y = ccl.buffer out ranks(2) chunks(2)
  // AUTO: via put agents(0 to 1, 2)
  // DIRECT: via put agents(0 to 1, 2)
  // STAGED: via staged agents(0 to 1){{$}}
  ccl.copy %x[0, 0] into %y[1, 0] via put agents(0 to 1, 2)
  // So does one for what would be read.
  // AUTO: via direct agents(0 to 1)
  // DIRECT: via direct agents(0 to 1)
  // STAGED: via staged agents(0 to 1){{$}}
  ccl.copy %x[1, 0] into %y[0, 0] via direct agents(0 to 1)
  // AUTO: via put agents dense<{{\[\[}}0, 1, -1], [0, 1, 2]]>
  // STAGED: via staged agents dense<{{\[\[}}0, 1], [0, 1]]>
  ccl.schedule %x, %y dense<[[0, 0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 1, 0, 1, 0, 1, 1, 1]]> : tensor<2x9xi64> via put agents dense<[[0, 1, -1], [0, 1, 2]]> : tensor<2x3xi64>
}
