// RUN: ccl-opt %s --ccl-pipeline-micro-batches --split-input-file -verify-diagnostics
// RUN: not ccl-opt %s --ccl-pipeline-micro-batches=max=0 --split-input-file 2>&1 | FileCheck %s
// CHECK: ccl-pipeline-micro-batches: max is 1 to 4096, not 0

ccl.topology @t ranks(x = 2, y = 2) {
  ccl.link 0 to 1 bandwidth 1.0
  ccl.link 1 to 0 bandwidth 1.0
  ccl.link 1 to 2 bandwidth 1.0
  ccl.link 2 to 1 bandwidth 1.0
  ccl.link 2 to 3 bandwidth 1.0
  ccl.link 3 to 2 bandwidth 1.0
}
ccl.algorithm @swap implements #ccl.contract<all_gather> {
  %x = ccl.buffer inout ranks(2) chunks(2)
  affine.parallel (%r) = (0) to (2) {
    ccl.copy %x[%r, %r] into %x[(%r + 1) mod 2, %r]
  }
}
ccl.all_gather @x on @t axes(x) algorithm = @swap
ccl.all_gather @y on @t axes(y) algorithm = @swap
// expected-error @below {{cannot be simulated: }}
ccl.algorithm @no_way implements #ccl.contract<all_gather> on @t {
  %x = ccl.buffer inout ranks(2, 2) chunks(2, 2)
  ccl.apply @x on %x
  ccl.apply @y on %x
}

// -----

ccl.topology @t ranks(x = 2, y = 2) {
  ccl.switch "hub"
  ccl.link 0 to "hub" bandwidth 1.0
  ccl.link 1 to "hub" bandwidth 1.0
  ccl.link 2 to "hub" bandwidth 1.0
  ccl.link 3 to "hub" bandwidth 1.0
  ccl.link "hub" to 0 bandwidth 1.0
  ccl.link "hub" to 1 bandwidth 1.0
  ccl.link "hub" to 2 bandwidth 1.0
  ccl.link "hub" to 3 bandwidth 1.0
}
ccl.all_gather @x on @t axes(x)
ccl.all_gather @y on @t axes(y)
// expected-error @below {{cannot be simulated: 'ccl.apply' op @x has no algorithm}}
ccl.algorithm @unsolved implements #ccl.contract<all_gather> on @t {
  %x = ccl.buffer inout ranks(2, 2) chunks(2, 2)
  ccl.apply @x on %x
  ccl.apply @y on %x
}
