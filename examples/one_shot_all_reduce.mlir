// Every rank reads the inputs of all others and adds them up itself.
//
// Nothing waits for a result of another rank: one step, the quickest for little data.
// But every rank reads n - 1 times its data. In step s rank r asks rank r + s, so that
// no two ranks ask the same one.
//
// In place this would be wrong: a rank would add into what the others still have to read.
// `ccl check` says so, and in-place launches go through scratch memory.
ccl.algorithm @one_shot(%n: index) implements #ccl.contract<all_reduce, sum> {
  %in = ccl.buffer in ranks(%n) chunks(1)
  %out = ccl.buffer out ranks(%n) chunks(1)
  affine.parallel (%r) = (0) to (symbol(%n)) {
    ccl.copy %in[%r, 0] into %out[%r, 0]
  }
  affine.for %s = 1 to %n {
    affine.parallel (%r) = (0) to (symbol(%n)) {
      ccl.reduce %in[(%r + %s) mod symbol(%n), 0] into %out[%r, 0]
    }
  }
}
