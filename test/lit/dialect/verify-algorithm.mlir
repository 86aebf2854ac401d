// The numbered constraints of L1 ops (docs/semantics.md).
// RUN: ccl-opt %s -split-input-file -verify-diagnostics -allow-unregistered-dialect

// expected-error@+1 {{'ccl.algorithm' op size parameters have type index, got 'i32'}}
ccl.algorithm @algorithm_c1(%n: i32) implements #ccl.contract<custom> {
}

// -----

ccl.algorithm @algorithm_c2(%n: index) implements #ccl.contract<custom> {
  // expected-error@+1 {{'arith.addi' op is not allowed in an algorithm}}
  %m = arith.addi %n, %n : index
}

// -----

ccl.algorithm @algorithm_c3 implements #ccl.contract<custom> {
  // expected-note@+1 {{the first buffer is here}}
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.buffer' op has another rank grid than the first buffer}}
  %t = ccl.buffer scratch ranks(2, 2) chunks(1)
}

// -----

ccl.algorithm @algorithm_c3_extent implements #ccl.contract<custom> {
  // expected-note@+1 {{the first buffer is here}}
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.buffer' op has another rank grid than the first buffer}}
  %t = ccl.buffer scratch ranks(5) chunks(1)
}

// -----

ccl.algorithm @algorithm_c4 implements #ccl.contract<custom> {
  // expected-note@+1 {{the first is here}}
  %x = ccl.buffer in ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.buffer' op is a second 'in' buffer; there may be one}}
  %y = ccl.buffer in ranks(4) chunks(4)
}

// -----

ccl.algorithm @algorithm_c4_inout implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.buffer' op 'out' and 'inout' exclude each other}}
  %y = ccl.buffer out ranks(4) chunks(4)
}

// -----

// expected-error@+1 {{'ccl.algorithm' op there is no topology @nowhere}}
ccl.algorithm @algorithm_c5 implements #ccl.contract<custom> on @nowhere {
}

// -----

ccl.algorithm @algorithm_c6 implements #ccl.contract<custom> lowered {
  %x = ccl.buffer inout ranks(2) chunks(4)
  // expected-error@+1 {{'ccl.copy' op stands in a lowered algorithm, which holds only buffers}}
  ccl.copy %x[0, 0] into %x[1, 0]
}

// -----

// expected-error@+1 {{'ccl.algorithm' op ccl.micro_batches is an i64 from 1 on, not 0 : i64}}
ccl.algorithm @algorithm_c7 implements #ccl.contract<custom> attributes {ccl.micro_batches = 0 : i64} {
}

// -----

// expected-error@+1 {{'ccl.algorithm' op ccl.micro_batches is an i64 from 1 on, not 4 : i32}}
ccl.algorithm @algorithm_c7_type implements #ccl.contract<custom> attributes {ccl.micro_batches = 4 : i32} {
}

// -----

// expected-error@+1 {{'ccl.algorithm' op ccl.slots is an i64 from 1 to 1024, not 0 : i64}}
ccl.algorithm @algorithm_c8 implements #ccl.contract<custom> attributes {ccl.slots = 0 : i64} {
}

// -----

// expected-error@+1 {{'ccl.algorithm' op ccl.slots is an i64 from 1 to 1024, not 1025 : i64}}
ccl.algorithm @algorithm_c8 implements #ccl.contract<custom> attributes {ccl.slots = 1025 : i64} {
}

// -----

// expected-error@+1 {{'ccl.algorithm' op ccl.slots is an i64 from 1 to 1024, not true}}
ccl.algorithm @algorithm_c8 implements #ccl.contract<custom> attributes {ccl.slots = true} {
}

// -----

// expected-error@+1 {{'ccl.algorithm' op ccl.multicast has no value, not true}}
ccl.algorithm @algorithm_c9 implements #ccl.contract<custom> attributes {ccl.multicast = true} {
}

// -----

// expected-error@+1 {{'ccl.algorithm' op is lowered, so it has no size parameters}}
ccl.algorithm @algorithm_c6_sizes(%n: index) implements #ccl.contract<custom> lowered {
}

// -----

// expected-error@+1 {{'ccl.algorithm' op is lowered, but rank 2 has no program}}
ccl.algorithm @algorithm_c6_missing implements #ccl.contract<custom> lowered {
  %x = ccl.buffer inout ranks(4) chunks(4)
}
ccl.program @most(%me) of @algorithm_c6_missing ranks(0 to 2, 3) {
}

// -----

// expected-error@+1 {{'ccl.algorithm' op is lowered, but rank 0 has no program}}
ccl.algorithm @algorithm_c6_none implements #ccl.contract<custom> lowered {
  %x = ccl.buffer inout ranks(4) chunks(4)
}

// -----

// expected-error@+1 {{'ccl.algorithm' op is lowered, but rank 1 has two programs}}
ccl.algorithm @algorithm_c6_twice implements #ccl.contract<custom> lowered {
  %x = ccl.buffer inout ranks(4) chunks(4)
}
ccl.program @all(%me) of @algorithm_c6_twice ranks(0 to 4) {
}
ccl.program @again of @algorithm_c6_twice ranks(1) {
}

// -----

ccl.algorithm @lowered implements #ccl.contract<custom> lowered {
  %x = ccl.buffer inout ranks(2) chunks(1)
}
ccl.program @lowered.p(%me) of @lowered ranks(0 to 2) {
}
ccl.algorithm @apply_c1_lowered implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-error@+1 {{'ccl.apply' op @lowered is lowered: it has no moves to apply}}
  ccl.apply @lowered on %x by affine_map<(r, c) -> (r, c)>
}

// -----

ccl.algorithm @buffer_c1 implements #ccl.contract<custom> {
  affine.for %i = 0 to 4 {
    // expected-error@+1 {{'ccl.buffer' op stands at the top of ccl.algorithm or ccl.program}}
    %x = ccl.buffer scratch ranks(4) chunks(4)
  }
}

// -----

ccl.algorithm @buffer_c1_ranks implements #ccl.contract<custom> {
  // expected-error@+1 {{'ccl.buffer' op needs ranks(...) in an algorithm}}
  %x = ccl.buffer scratch chunks(4)
}

// -----

ccl.algorithm @buffer_c2 implements #ccl.contract<custom> {
  // expected-error@+1 {{'ccl.buffer' op extent 0 is below 1}}
  %x = ccl.buffer inout ranks(4) chunks(0)
}

// -----

ccl.algorithm @buffer_c2_axes implements #ccl.contract<custom> {
  // expected-error@+1 {{'ccl.buffer' op needs at least one chunk axis}}
  %x = ccl.buffer inout ranks(4) chunks()
}

// -----

ccl.algorithm @buffer_c2_limit implements #ccl.contract<custom> {
  // expected-error@+1 {{'ccl.buffer' op has more than 1099511627776 chunks}}
  %x = ccl.buffer inout ranks(4) chunks(1048576, 1048577)
}

// -----

ccl.algorithm @copy_c1 implements #ccl.contract<custom> {
  // expected-note@+1 {{the buffer is here}}
  %x = ccl.buffer inout ranks(2, 2) chunks(4)
  // expected-error@+1 {{'ccl.copy' op the source needs 3 indices (2 for the rank, 1 for the chunk), got 2}}
  ccl.copy %x[0, 0] into %x[0, 1, 0]
}

// -----

ccl.algorithm @copy_c2 implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(2)
  // expected-error@+1 {{'ccl.copy' op the destination's rank 4 is outside [0, 4)}}
  ccl.copy %x[0, 0] into %x[4, 0]
}

// -----

ccl.algorithm @copy_c2_chunk implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(2)
  // expected-error@+1 {{'ccl.copy' op the source's chunk -1 is outside [0, 2)}}
  ccl.copy %x[0, -1] into %x[1, 0]
}

// -----

ccl.algorithm @copy_c2_count implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.copy' op the source's chunks 3 to 4 are not all inside [0, 4)}}
  ccl.copy %x[0, 3] into %x[1, 0] x 2
}

// -----

ccl.algorithm @copy_c3 implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.copy' op moves 0 chunks, needs at least 1}}
  ccl.copy %x[0, 0] into %x[1, 0] x 0
}

// -----

%b = "test.buffer"() : () -> !ccl.buffer
// expected-error@+1 {{'ccl.copy' op stands in ccl.algorithm}}
"ccl.copy"(%b, %b) <{srcMap = affine_map<() -> (0)>, dstMap = affine_map<() -> (0)>,
  operandSegmentSizes = array<i32: 1, 0, 1, 0>}> {copy_c4} : (!ccl.buffer, !ccl.buffer) -> ()

// -----

ccl.algorithm @copy_c4_symbol implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  affine.for %r = 0 to 4 {
    // expected-error@+1 {{'ccl.copy' op index operand 0 is no affine symbol: use loop variables, size parameters and constants}}
    ccl.copy %x[0, symbol(%r)] into %x[1, 0]
  }
}

// -----

ccl.algorithm @copy_c5 implements #ccl.contract<custom> {
  %x = ccl.buffer in ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.copy' op writes an 'in' buffer}}
  ccl.copy %x[0, 0] into %x[1, 0]
}

// -----

ccl.algorithm @copy_c2_reduce implements #ccl.contract<all_reduce, sum> {
  %x = ccl.buffer inout ranks(4) chunks(2)
  // expected-error@+1 {{'ccl.reduce' op the source's rank 7 is outside [0, 4)}}
  ccl.reduce %x[7, 0] into %x[0, 0]
}

// -----

ccl.algorithm @reduce_c6 implements #ccl.contract<all_gather> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.reduce' op reduces, but the contract #ccl.contract<all_gather> names no reduction}}
  ccl.reduce %x[0, 0] into %x[1, 0]
}

// -----

ccl.algorithm @apply_c1 implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.apply' op there is no algorithm @nothing}}
  ccl.apply @nothing on %x by affine_map<(r, c) -> (r, c)>
}

// -----

ccl.algorithm @apply_c1_cycle implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  ccl.apply @other on %x by affine_map<(r, c) -> (r, c)>
}
ccl.algorithm @other implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.apply' op algorithm @other applies itself}}
  ccl.apply @apply_c1_cycle on %x by affine_map<(r, c) -> (r, c)>
}

// -----

ccl.topology @t ranks(gpu = 2) {
}
ccl.all_reduce @stage sum on @t axes(gpu)
ccl.algorithm @apply_c1_topology implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(2)
  // expected-error@+1 {{'ccl.apply' op @stage is a collective on @t, so the algorithm has to be 'on @t'}}
  ccl.apply @stage on %x
}

// -----

ccl.topology @t ranks(gpu = 2) {
}
ccl.all_reduce @stage sum on @t axes(gpu) algorithm = @apply_c1_stage_cycle
ccl.algorithm @apply_c1_stage_cycle implements #ccl.contract<all_reduce, sum> on @t {
  %x = ccl.buffer inout ranks(2) chunks(2)
  // expected-error@+1 {{'ccl.apply' op algorithm @apply_c1_stage_cycle applies itself}}
  ccl.apply @stage on %x
}

// -----

ccl.topology @t ranks(gpu = 2) {
}
ccl.all_reduce @stage sum on @t axes(gpu)
ccl.algorithm @apply_c2_stage implements #ccl.contract<all_reduce, sum> on @t {
  %x = ccl.buffer inout ranks(2) chunks(2)
  // expected-error@+1 {{'ccl.apply' op @stage is a collective: it has no sizes}}
  ccl.apply @stage(2) on %x
}

// -----

ccl.topology @t ranks(gpu = 2) {
}
ccl.all_reduce @stage sum on @t axes(gpu)
ccl.algorithm @apply_c3_stage implements #ccl.contract<all_reduce, sum> on @t {
  %x = ccl.buffer inout ranks(2) chunks(2)
  // expected-error@+1 {{'ccl.apply' op @stage is a collective, which says itself along which axes}}
  ccl.apply @stage along "gpu" on %x
}

// -----

ccl.algorithm @callee(%n: index) implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
}
ccl.algorithm @apply_c2 implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.apply' op @callee has 1 size parameters, got 0}}
  ccl.apply @callee on %x by affine_map<(r, c) -> (r, c)>
}

// -----

ccl.algorithm @callee implements #ccl.contract<custom> {
  %x = ccl.buffer in ranks(4) chunks(4)
  %y = ccl.buffer out ranks(4) chunks(4)
  %t = ccl.buffer scratch ranks(4) chunks(4)
}
ccl.algorithm @apply_c2_buffers implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.apply' op @callee has 2 buffers to bind, got 1}}
  ccl.apply @callee on %x by affine_map<(r, c) -> (r, c)>
}

// -----

ccl.algorithm @callee implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
}
ccl.algorithm @apply_c3 implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2, 4) chunks(4)
  // expected-error@+1 {{'ccl.apply' op the map takes 3 indices (@callee's ranks and chunks, then the groups) to 3; this one takes 2 to 2}}
  ccl.apply @callee on %x by affine_map<(r, c) -> (r, c)> groups(2)
}

// -----

ccl.algorithm @callee implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
}
ccl.algorithm @apply_c3_none implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.apply' op needs 'by' and a map for every buffer, or 'along' and an axis}}
  ccl.apply @callee on %x
}

// -----

ccl.algorithm @callee implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
}
ccl.algorithm @apply_c3_both implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.apply' op takes either 'along' or maps and groups}}
  ccl.apply @callee along "gpu" on %x by affine_map<(r, c) -> (r, c)>
}

// -----

ccl.algorithm @callee implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
}
ccl.algorithm @apply_c3_topology implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.apply' op 'along' needs an algorithm with 'on @topology'}}
  ccl.apply @callee along "gpu" on %x
}

// -----

ccl.topology @t ranks(gpu = 4) {
}
ccl.algorithm @callee implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
}
ccl.algorithm @apply_c3_axis implements #ccl.contract<custom> on @t {
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.apply' op topology @t has no axis "node"}}
  ccl.apply @callee along "node" on %x
}

// -----

ccl.algorithm @callee implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
}
ccl.algorithm @apply_c4 implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  affine.for %i = 0 to 2 {
    // expected-error@+1 {{'ccl.apply' op stands at the top of an algorithm or in ccl.pipeline}}
    ccl.apply @callee on %x by affine_map<(r, c) -> (r, c)>
  }
}

// -----

ccl.algorithm @pipeline_c1 implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.pipeline' op needs at least two stages}}
  ccl.pipeline {
    ccl.copy %x[0, 0] into %x[1, 0]
  }
}

// -----

ccl.algorithm @schedule_c1 implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.schedule' op the table is a tensor<Nx9xi64>, got 'tensor<1x8xi64>'}}
  ccl.schedule %x dense<[[0, 0, 0, 0, 0, 1, 0, 0]]> : tensor<1x8xi64>
}

// -----

ccl.algorithm @schedule_c1_step implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.schedule' op row 1: step 0 after step 1}}
  ccl.schedule %x dense<[[1, 0, 0, 0, 0, 1, 0, 0, 1],
                         [0, 0, 0, 0, 0, 2, 0, 0, 1]]> : tensor<2x9xi64>
}

// -----

ccl.algorithm @schedule_c1_negative_step implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.schedule' op row 0: step -1 is negative}}
  ccl.schedule %x dense<[[-1, 0, 0, 0, 0, 1, 0, 0, 1]]> : tensor<1x9xi64>
}

// -----

ccl.algorithm @schedule_c1_kind implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.schedule' op row 0: kind 2 is neither 0 (copy) nor 1 (reduce)}}
  ccl.schedule %x dense<[[0, 2, 0, 0, 0, 1, 0, 0, 1]]> : tensor<1x9xi64>
}

// -----

ccl.algorithm @schedule_c1_buffer implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.schedule' op row 0: buffer 1 is outside [0, 1)}}
  ccl.schedule %x dense<[[0, 0, 0, 0, 0, 1, 1, 0, 1]]> : tensor<1x9xi64>
}

// -----

ccl.algorithm @schedule_c1_count implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{'ccl.schedule' op row 0: count 0 is outside [1, 2147483647]}}
  ccl.schedule %x dense<[[0, 0, 0, 0, 0, 1, 0, 0, 0]]> : tensor<1x9xi64>
}

// -----

// expected-error@+1 {{'ccl.schedule' op stands in ccl.algorithm}}
"ccl.schedule"() <{table = dense<[[0, 0, 0, 0, 0, 1, 0, 0, 1]]> : tensor<1x9xi64>}> {schedule_c2} : () -> ()

// -----

// Loops go forward and carry no values: a step of 0 would never end.
ccl.algorithm @loop_step implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-error @below {{has step 0, needs at least 1}}
  affine.for %i = 0 to 4 step 0 {
    ccl.copy %x[0, 0] into %x[1, 0]
  }
}

// -----

ccl.algorithm @loop_values implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  %c = arith.constant 0 : index
  // expected-error @below {{carries values between iterations}}
  %r = affine.for %i = 0 to 4 iter_args(%v = %c) -> (index) {
    affine.yield %v : index
  }
}

// -----

ccl.algorithm @schedule_in_parallel implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  affine.parallel (%r) = (0) to (2) {
    // expected-error @below {{has steps of its own and cannot stand in affine.parallel}}
    ccl.schedule %x dense<[[0, 0, 0, 0, 0, 1, 0, 0, 1]]> : tensor<1x9xi64>
  }
}

// -----

ccl.algorithm @copy_count_too_large implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  affine.parallel (%r) = (0) to (1) {
    // expected-error @below {{moves 4294967297 chunks, needs at most 2147483647}}
    ccl.copy %x[%r, %r] into %x[%r + 1, %r] x 4294967297
  }
}

// -----

ccl.algorithm @buffer_rank_limit implements #ccl.contract<custom> {
  // expected-error @below {{has more than 16777216 ranks}}
  %x = ccl.buffer inout ranks(4097, 4096) chunks(1)
}

// -----

ccl.algorithm @copy_c7 implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-error @below {{agent 1024 is outside [0, 1023]}}
  ccl.copy %x[0, 0] into %x[1, 0] agents(0 to 1024)
}

// -----

ccl.algorithm @copy_c7_negative implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-error @below {{agent -1 is outside [0, 1023]}}
  ccl.copy %x[0, 0] into %x[1, 0] agents(-1 to 0)
}

// -----

ccl.algorithm @copy_c7_several implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-error @below {{has 3 agents: needs the source's and the destination's, and takes more of the destination only with put}}
  ccl.copy %x[0, 0] into %x[1, 0] via staged agents(0 to 1, 2)
}

// -----

ccl.algorithm @copy_c7_twice implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-error @below {{names agent 2 of the destination twice}}
  ccl.copy %x[0, 0] into %x[1, 0] via put agents(2 to 2, 1, 2)
}

// -----

ccl.algorithm @copy_c8 implements #ccl.contract<custom, sum> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-error @below {{'ccl.reduce' op reduces, and only copies go by put}}
  ccl.reduce %x[0, 0] into %x[1, 0] via put
}

// -----

ccl.algorithm @schedule_c1_agents implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-error @below {{agents are a tensor<NxMxi64> with as many rows as the table and 2 to 1025 columns, got 'tensor<2x2xi64>'}}
  ccl.schedule %x dense<[[0, 0, 0, 0, 0, 1, 0, 0, 1]]> : tensor<1x9xi64> agents dense<0> : tensor<2x2xi64>
}

// -----

ccl.algorithm @schedule_c1_wide implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-error @below {{2 to 1025 columns, got 'tensor<1x1000000000000xi64>'}}
  ccl.schedule %x dense<[[0, 0, 0, 0, 0, 1, 0, 0, 1]]> : tensor<1x9xi64> agents dense<0> : tensor<1x1000000000000xi64>
}

// -----

ccl.algorithm @schedule_c1_vector implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-error @below {{the table is a tensor<Nx9xi64>, got 'vector<1x9xi64>'}}
  ccl.schedule %x dense<[[0, 0, 0, 0, 0, 1, 0, 0, 1]]> : vector<1x9xi64>
}

// -----

ccl.algorithm @schedule_c1_splat implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-error @below {{row 0: every number is 0, which is no move}}
  ccl.schedule %x dense<0> : tensor<100000000000x9xi64>
}

// -----

ccl.algorithm @schedule_tag implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-error @below {{tag -5 is outside [0, 2147483647]}}
  ccl.schedule %x dense<[[0, 0, 0, 0, 0, 1, 0, 0, 1]]> : tensor<1x9xi64> tag -5
}

// -----

ccl.algorithm @schedule_c3 implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-error @below {{row 0: agent 1024 is outside [0, 1023]}}
  ccl.schedule %x dense<[[0, 0, 0, 0, 0, 1, 0, 0, 1]]> : tensor<1x9xi64> agents dense<[[0, 1024]]> : tensor<1x2xi64>
}

// -----

ccl.algorithm @schedule_c3_none implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-error @below {{row 0: no agent of the destination}}
  ccl.schedule %x dense<[[0, 0, 0, 0, 0, 1, 0, 0, 1]]> : tensor<1x9xi64> agents dense<[[0, -1]]> : tensor<1x2xi64>
}

// -----

ccl.algorithm @schedule_c3_several implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-error @below {{row 0: several agents of the destination, without put}}
  ccl.schedule %x dense<[[0, 0, 0, 0, 0, 1, 0, 0, 1]]> : tensor<1x9xi64> agents dense<[[0, 1, 2]]> : tensor<1x3xi64>
}

// -----

ccl.algorithm @schedule_c3_put implements #ccl.contract<custom, sum> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  // expected-error @below {{row 0: reduces, and only copies go by put}}
  ccl.schedule %x dense<[[0, 1, 0, 0, 0, 1, 0, 0, 1]]> : tensor<1x9xi64> via put
}

// -----

ccl.algorithm @schedule_c4 implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2, 2) chunks(4)
  // expected-error @below {{row 1: the source's rank 4294967296 is outside [0, 4)}}
  ccl.schedule %x dense<[[0, 0, 0, 0, 0, 1, 0, 0, 4],
                         [0, 0, 4294967296, 0, 0, 1, 0, 0, 1]]> : tensor<2x9xi64>
}

// -----

ccl.algorithm @schedule_c4_negative implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2, 2) chunks(4)
  // expected-error @below {{row 1: the destination's rank -1 is outside [0, 4)}}
  ccl.schedule %x dense<[[0, 0, 0, 0, 0, 1, 0, 0, 4],
                         [0, 0, 0, 0, 0, -1, 0, 0, 1]]> : tensor<2x9xi64>
}

// -----

ccl.algorithm @schedule_c4_chunk implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2, 2) chunks(4)
  // expected-error @below {{row 1: the destination's chunk 9223372036854775807 is outside [0, 4)}}
  ccl.schedule %x dense<[[0, 0, 0, 0, 0, 1, 0, 0, 4],
                         [0, 0, 0, 0, 0, 3, 0, 9223372036854775807, 3]]> : tensor<2x9xi64>
}

// -----

ccl.algorithm @schedule_c4_count implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2, 2) chunks(4)
  // expected-error @below {{row 1: the source's chunks 2 to 4 are not all inside [0, 4)}}
  ccl.schedule %x dense<[[0, 0, 0, 0, 0, 1, 0, 0, 4],
                         [0, 0, 0, 0, 2, 3, 0, 0, 3]]> : tensor<2x9xi64>
}

// -----

ccl.algorithm @schedule_c4_parameter(%n: index) implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(%n) chunks(4)
  // expected-error @below {{row 1: the source's chunk -1 is outside [0, 4)}}
  ccl.schedule %x dense<[[0, 0, 99, 0, 0, 1, 0, 0, 4],
                         [0, 0, 0, 0, -1, 1, 0, 0, 1]]> : tensor<2x9xi64>
}
