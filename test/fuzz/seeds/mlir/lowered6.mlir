module {
  ccl.algorithm @a6 implements #ccl.contract<scatter> lowered {
    %x = ccl.buffer inout ranks(2) chunks(6)
    %t = ccl.buffer scratch ranks(2) chunks(3)
  }
  ccl.program @a6.0 of @a6 ranks(0) {
    %x = ccl.buffer inout chunks(6)
    %t = ccl.buffer scratch chunks(3)
  }
  ccl.program @a6.1 of @a6 ranks(1) {
    %x = ccl.buffer inout chunks(6)
    %t = ccl.buffer scratch chunks(3)
    %0 = ccl.peer %x at 0
    ccl.block 0 {
      ccl.transfer from %0[3] to %t[0] x 3
      ccl.transfer from %t[0] to %x[3] x 3
    }
  }
}
