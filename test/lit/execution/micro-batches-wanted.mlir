// What an algorithm wants is what a launch, and a simulation, takes: unless slices of a chunk would
// be below 64 KiB, or another number is asked for.
// RUN: ccl sim %s --topology ring:2 --bytes 1M --json | FileCheck %s --check-prefix=SIX
// SIX: "micro_batches":6
// RUN: ccl sim %s --topology ring:2 --bytes 512K --json | FileCheck %s --check-prefix=FOUR
// FOUR: "micro_batches":4
// RUN: ccl sim %s --topology ring:2 --bytes 4K --json | FileCheck %s --check-prefix=ONE
// ONE: "micro_batches":1
// RUN: ccl sim %s --topology ring:2 --bytes 1M --micro-batches 2 --json | FileCheck %s --check-prefix=TWO
// TWO: "micro_batches":2
// RUN: ccl run %s --count 0,1,17,4097,262144 --iters 1 --json > %t.json
// RUN: %zero-wrong --ranks 2 --counts 0,1,17,4097,262144 < %t.json
ccl.algorithm @swap implements #ccl.contract<all_reduce, sum> attributes {ccl.micro_batches = 6 : i64} {
  %x = ccl.buffer inout ranks(2) chunks(2)
  ccl.pipeline {
    affine.parallel (%r) = (0) to (2) {
      ccl.reduce %x[%r, (%r + 1) mod 2] into %x[(%r + 1) mod 2, (%r + 1) mod 2]
    }
  }, {
    affine.parallel (%r) = (0) to (2) {
      ccl.copy %x[%r, %r] into %x[(%r + 1) mod 2, %r]
    }
  }
}
