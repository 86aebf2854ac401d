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

ccl.algorithm @rows(%n: index) implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(%n) chunks(1)
  // expected-error @below {{row 0: rank 5 is outside [0, 2)}}
  ccl.schedule %x dense<[[0, 0, 5, 0, 0, 1, 0, 0, 1]]> : tensor<1x9xi64>
}
ccl.algorithm @rows_outside implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-note @below {{applied here}}
  ccl.apply @rows(2) on %x by affine_map<(r, c) -> (r, c)>
}

// -----

ccl.topology @t ranks(node = 2, gpu = 3) {
}
// expected-note @below {{the stage is here}}
ccl.all_reduce @stage sum on @t axes(gpu)
ccl.algorithm @unsolved implements #ccl.contract<all_reduce, sum> on @t {
  %x = ccl.buffer inout ranks(2, 3) chunks(2, 3)
  // expected-error @below {{@stage has no algorithm: give it one ('algorithm = @a', or ccl-synthesize)}}
  ccl.apply @stage on %x
}

// -----

ccl.topology @t ranks(node = 2, gpu = 3) {
}
ccl.algorithm @ag implements #ccl.contract<all_gather> {
  %x = ccl.buffer inout ranks(3) chunks(3)
}
ccl.all_gather @stage on @t axes(gpu) algorithm = @ag
ccl.algorithm @whole implements #ccl.contract<all_reduce, sum> on @t {
  %x = ccl.buffer inout ranks(2, 3) chunks(2, 3)
  // expected-error @below {{axis "gpu" is not scattered: there is nothing to gather}}
  ccl.apply @stage on %x
}

// -----

ccl.topology @t ranks(node = 2, gpu = 3) {
}
ccl.algorithm @ar implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(2) chunks(2)
}
ccl.all_reduce @stage sum on @t axes(gpu) algorithm = @ar
ccl.algorithm @other_ranks implements #ccl.contract<all_reduce, sum> on @t {
  %x = ccl.buffer inout ranks(2, 3) chunks(2, 3)
  // expected-error @below {{@ar.applied0 is for 2 ranks, the groups of @stage have 3}}
  ccl.apply @stage on %x
}

// -----

ccl.topology @t ranks(node = 2, gpu = 3) {
}
ccl.algorithm @ar implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(3) chunks(12)
}
ccl.all_reduce @stage sum on @t axes(gpu) algorithm = @ar
ccl.algorithm @pieces implements #ccl.contract<all_reduce, sum> on @t {
  %x = ccl.buffer inout ranks(2, 3) chunks(2, 3)
  // expected-error @below {{@ar.applied0 needs a multiple of 4 pieces, the buffer has 1}}
  ccl.apply @stage on %x
}

// -----

ccl.topology @t ranks(node = 2, gpu = 3) {
}
ccl.algorithm @ar implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(3) chunks(3)
}
ccl.all_reduce @stage sum on @t axes(gpu) algorithm = @ar
ccl.algorithm @grid implements #ccl.contract<all_reduce, sum> on @t {
  %x = ccl.buffer inout ranks(6) chunks(6)
  // expected-error @below {{needs a buffer whose rank grid is the topology's axes}}
  ccl.apply @stage on %x
}

// -----

ccl.topology @t ranks(node = 2, gpu = 3) {
}
ccl.algorithm @ar implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(3) chunks(3)
}
ccl.all_reduce @stage sum on @t axes(gpu) algorithm = @ar
ccl.algorithm @chunks implements #ccl.contract<all_reduce, sum> on @t {
  %x = ccl.buffer inout ranks(2, 3) chunks(2, 2)
  // expected-error @below {{axis "gpu" has 3 ranks, and the buffer 2 chunks along it}}
  ccl.apply @stage on %x
}

// -----

ccl.topology @t ranks(node = 2, gpu = 3) {
}
ccl.algorithm @rd implements #ccl.contract<reduce, sum, root = 1> {
  %x = ccl.buffer inout ranks(3) chunks(1)
}
ccl.reduce_to @stage sum root 1 on @t axes(gpu) algorithm = @rd
ccl.algorithm @rooted implements #ccl.contract<reduce, sum, root = 1> on @t {
  %x = ccl.buffer inout ranks(2, 3) chunks(1, 1)
  ccl.apply @stage on %x
  // expected-error @below {{axis "gpu" is held by one coordinate: broadcast along it first}}
  ccl.apply @stage on %x
}

// -----

ccl.topology @t ranks(node = 2, gpu = 3) {
}
ccl.algorithm @bc implements #ccl.contract<broadcast, root = 1> {
  %x = ccl.buffer inout ranks(3) chunks(1)
}
ccl.broadcast @stage root 1 on @t axes(gpu) algorithm = @bc
ccl.algorithm @other_root implements #ccl.contract<broadcast, root = 2> on @t {
  %x = ccl.buffer inout ranks(2, 3) chunks(1, 1)
  // expected-error @below {{axis "gpu" is held by coordinate 2, the stage's root has 1}}
  ccl.apply @stage on %x
}

// -----

ccl.topology @t ranks(node = 2, gpu = 3) {
}
ccl.algorithm @a2a implements #ccl.contract<all_to_all> {
  %x = ccl.buffer inout ranks(3) chunks(3)
}
ccl.all_to_all @stage on @t axes(gpu) algorithm = @a2a
ccl.algorithm @kind implements #ccl.contract<all_to_all> on @t {
  %x = ccl.buffer inout ranks(2, 3) chunks(2, 3)
  // expected-error @below {{@stage is no stage: all_reduce, reduce_scatter, all_gather, broadcast and reduce_to are}}
  ccl.apply @stage on %x
}

// -----

ccl.topology @t ranks(node = 2, gpu = 3) {
}
ccl.algorithm @two(%a: index, %b: index) implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(%a) chunks(%b)
}
ccl.all_reduce @stage sum on @t axes(gpu) algorithm = @two
ccl.algorithm @parameters implements #ccl.contract<all_reduce, sum> on @t {
  %x = ccl.buffer inout ranks(2, 3) chunks(2, 3)
  // expected-error @below {{@two has 2 size parameters; what implements a stage has one at most}}
  ccl.apply @stage on %x
}
