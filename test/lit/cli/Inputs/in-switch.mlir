// Four GPUs at a switch that copies and adds, and an all-reduce that uses it: rank r adds up chunk r
// of all in one transfer, which writes it to all.
ccl.topology @star ranks(gpu = 4) {
  ccl.switch "sw" multicast reduce
  ccl.link 0 to "sw" bandwidth 10.0
  ccl.link 1 to "sw" bandwidth 10.0
  ccl.link 2 to "sw" bandwidth 10.0
  ccl.link 3 to "sw" bandwidth 10.0
  ccl.link "sw" to 0 bandwidth 10.0
  ccl.link "sw" to 1 bandwidth 10.0
  ccl.link "sw" to 2 bandwidth 10.0
  ccl.link "sw" to 3 bandwidth 10.0
}

ccl.algorithm @in_switch implements #ccl.contract<all_reduce, sum> lowered {
  %in = ccl.buffer in ranks(4) chunks(4)
  %out = ccl.buffer out ranks(4) chunks(4)
}
ccl.program @in_switch.p(%me) of @in_switch ranks(0 to 4) {
  %in = ccl.buffer in chunks(4)
  %out = ccl.buffer out chunks(4)
  %in1 = ccl.peer %in at (%me + 1) mod 4
  %in2 = ccl.peer %in at (%me + 2) mod 4
  %in3 = ccl.peer %in at (%me + 3) mod 4
  %out1 = ccl.peer %out at (%me + 1) mod 4
  %out2 = ccl.peer %out at (%me + 2) mod 4
  %out3 = ccl.peer %out at (%me + 3) mod 4
  ccl.block 0 {
    ccl.transfer reduce from %in[%me], %in1[%me], %in2[%me], %in3[%me] to %out[%me], %out1[%me], %out2[%me], %out3[%me]
    affine.for %d = 1 to 4 {
      %to = ccl.channel to (%me + %d) mod 4
      ccl.signal %to
    }
    affine.for %d = 1 to 4 {
      %from = ccl.channel from (%me - %d) mod 4
      ccl.wait %from
    }
  }
}
