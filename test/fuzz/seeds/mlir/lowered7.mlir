module {
  ccl.algorithm @a7 implements #ccl.contract<reduce_scatter, max> lowered {
    %in = ccl.buffer in ranks(2) chunks(2)
    %out = ccl.buffer out ranks(2) chunks(1)
  }
  ccl.program @a7.0 of @a7 ranks(0) {
    %in = ccl.buffer in chunks(2)
    %out = ccl.buffer out chunks(1)
    %from = ccl.channel from 1 slots 3
    ccl.block 0 {
      ccl.transfer from %in[0] to %out[0]
      ccl.transfer reduce from %from, %out[0] to %out[0]
    }
  }
  ccl.program @a7.1 of @a7 ranks(1) {
    %in = ccl.buffer in chunks(2)
    %out = ccl.buffer out chunks(1)
    %to = ccl.channel to 0 slots 3
    %0 = ccl.peer %in at 0
    ccl.block 0 {
      ccl.transfer from %in[1] to %out[0]
      ccl.transfer reduce from %0[1], %out[0] to %out[0]
      ccl.transfer from %in[0] to %to
    }
  }
}
