// RUN: ccl-opt %s --ccl-expand-apply --split-input-file -verify-diagnostics

ccl.topology @grid ranks(node = 2, gpu = 3) {
}
ccl.algorithm @ag(%n: index) implements #ccl.contract<all_gather> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
}
ccl.algorithm @nothing_scattered implements #ccl.contract<all_reduce, sum> on @grid {
  %x = ccl.buffer inout ranks(2, 3) chunks(2, 3)
  // expected-error @below {{axis "gpu" is not scattered: there is nothing to gather}}
  ccl.apply @ag(3) along "gpu" on %x
}

// -----

ccl.topology @grid ranks(node = 2, gpu = 3) {
}
ccl.algorithm @ar(%n: index) implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
}
ccl.algorithm @wrong_size implements #ccl.contract<all_reduce, sum> on @grid {
  %x = ccl.buffer inout ranks(2, 3) chunks(2, 3)
  // expected-error @below {{axis "gpu" has 3 ranks and 3 chunks, the applied algorithm 2 and 2}}
  ccl.apply @ar(2) along "gpu" on %x
}

// -----

ccl.algorithm @ar(%n: index) implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
}
ccl.algorithm @unbound(%n: index) implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error @below {{has sizes that are not constant: bind size parameters first}}
  ccl.apply @ar(%n) on %x by affine_map<(r, c) -> (r, c)>
}

// -----

ccl.algorithm @many implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(2, 100)
  // expected-error @below {{moves 100 chunks that are not adjacent for the caller}}
  ccl.copy %x[0, 0, 0] into %x[1, 0, 0] x 100
}
ccl.algorithm @caller implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(400)
  // expected-note @below {{applied here}}
  ccl.apply @many on %x by affine_map<(r, a, b) -> (r, a * 200 + b * 2)>
}

// -----

ccl.algorithm @largest implements #ccl.contract<all_reduce, max> {
  %x = ccl.buffer inout ranks(2) chunks(1)
}
ccl.algorithm @mixed implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-error @below {{@largest reduces with max, @mixed with sum}}
  ccl.apply @largest on %x by affine_map<(r, c) -> (r, c)>
}

// -----

ccl.algorithm @rows implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-error @below {{row 0: rank 5 is outside [0, 2)}}
  ccl.schedule %x dense<[[0, 0, 5, 0, 0, 1, 0, 0, 1]]> : tensor<1x9xi64>
}
ccl.algorithm @rows_outside implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-note @below {{applied here}}
  ccl.apply @rows on %x by affine_map<(r, c) -> (r, c)>
}
