ccl.algorithm @a implements #ccl.contract<broadcast> {
  %x = ccl.buffer inout ranks(3) chunks(1)
  ccl.copy %x[0, 0] into %x[1, 0] via put
  ccl.copy %x[1, 0] into %x[2, 0] via put
}
