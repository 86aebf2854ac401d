// RUN: ccl-opt %s --split-input-file --ccl-split-agents -verify-diagnostics
// RUN: not ccl-opt %s --split-input-file --ccl-lower-to-program --ccl-check-program 2>&1 | FileCheck %s

// Places that a buffer has not are those of no agent.
ccl.algorithm @far implements #ccl.contract<all_gather> {
  %in = ccl.buffer in ranks(2) chunks(1)
  %out = ccl.buffer out ranks(2) chunks(2)
}
ccl.program @far.p(%me) of @far ranks(0 to 2) {
  %in = ccl.buffer in chunks(1)
  %out = ccl.buffer out chunks(2)
  ccl.block 0 {
    ccl.transfer from %in[0] to %out[%me]
    // expected-error @below {{on rank 1 touches chunks -100000 to -100000 of buffer 0, which has 1}}
    ccl.transfer from %in[%me * -100000] to %out[0] {ccl.agent = 1 : i64}
  }
}

// -----

// Rank 3 sends a shard that it never got: there is no such place in its input.
// CHECK: error: rank 3, x_out[0] is read, but holds nothing: it was never written
ccl.algorithm @ungot implements #ccl.contract<all_gather> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  ccl.copy %x[3, 0] into %x[1, 0] agents(0 to 1)
  ccl.copy %x[1, 0] into %x[0, 0] agents(1 to 1)
}
