// The numbered constraints of L0 ops and of contracts (docs/semantics.md).
// RUN: ccl-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{'ccl.topology' op axis 'gpu' is named twice}}
ccl.topology @topology_c1 ranks(gpu = 2, gpu = 4) {
}

// -----

// expected-error@+1 {{'ccl.topology' op axis 'gpu' has size 0, needs at least 1}}
ccl.topology @topology_c1_size ranks(node = 2, gpu = 0) {
}

// -----

// expected-error@+1 {{'ccl.topology' op has too many ranks (limit 16777216)}}
ccl.topology @topology_c1_limit ranks(node = 65536, gpu = 65536) {
}

// -----

ccl.topology @topology_c2 ranks(gpu = 2) {
  // expected-error@+1 {{'arith.constant' op is not allowed in a topology: use ccl.switch, ccl.link and ccl.resource}}
  %c = arith.constant 0 : index
}

// -----

ccl.topology @topology_c3_switch ranks(gpu = 2) {
  ccl.switch "sw"
  // expected-error@+1 {{'ccl.switch' op the name "sw" is taken}}
  ccl.switch "sw"
}

// -----

ccl.topology @topology_c3_resource ranks(gpu = 2) {
  ccl.resource "nic0" bandwidth 25.0
  // expected-error@+1 {{'ccl.resource' op the name "nic0" is taken}}
  ccl.resource "nic0" bandwidth 25.0
}

// -----

ccl.topology @switch_c1 ranks(gpu = 2) {
  // expected-error@+1 {{'ccl.switch' op is of kind "hub"; there are "switch", "nic", "pcie" and "cpu"}}
  ccl.switch "sw" kind "hub"
}

// -----

ccl.topology @resource_c1 ranks(gpu = 2) {
  // expected-error@+1 {{'ccl.resource' op needs a positive bandwidth (GB/s)}}
  ccl.resource "nic0" bandwidth 0.0
}

// -----

ccl.topology @topology_c3_rank ranks(gpu = 2) {
  // expected-error@+1 {{'ccl.link' op rank 2 is outside [0, 2)}}
  ccl.link 0 to 2 bandwidth 1.0
}

// -----

ccl.topology @topology_c3_name ranks(gpu = 2) {
  // expected-error@+1 {{'ccl.link' op there is no switch "sw"}}
  ccl.link 0 to "sw" bandwidth 1.0
}

// -----

ccl.topology @topology_c3_self ranks(gpu = 2) {
  // expected-error@+1 {{'ccl.link' op joins a node with itself}}
  ccl.link 1 to 1 bandwidth 1.0
}

// -----

ccl.topology @link_c1 ranks(gpu = 2) {
  // expected-error@+1 {{'ccl.link' op needs a positive bandwidth (GB/s)}}
  ccl.link 0 to 1 bandwidth 0.0
}

// -----

ccl.topology @link_c1_latency ranks(gpu = 2) {
  // expected-error@+1 {{'ccl.link' op needs a latency (us) that is not negative}}
  ccl.link 0 to 1 bandwidth 1.0 latency -1
}

// -----

// expected-error@+1 {{'ccl.all_reduce' op there is no topology @nowhere}}
ccl.all_reduce @collective_c1 sum on @nowhere

// -----

ccl.topology @t ranks(gpu = 2) {
}
// expected-error@+1 {{'ccl.barrier' op topology @t has no axis 'node'}}
ccl.barrier @collective_c1_axis on @t axes(node)

// -----

ccl.topology @t ranks(gpu = 2) {
}
// expected-error@+1 {{'ccl.all_gather' op there is no algorithm @nothing}}
ccl.all_gather @collective_c2 on @t algorithm = @nothing

// -----

ccl.topology @t ranks(gpu = 2) {
}
// expected-note@+1 {{the algorithm is here}}
ccl.algorithm @max implements #ccl.contract<all_reduce, max> {
}
// expected-error@+1 {{'ccl.all_reduce' op algorithm @max implements #ccl.contract<all_reduce, max>, not #ccl.contract<all_reduce, sum>}}
ccl.all_reduce @collective_c2_contract sum on @t algorithm = @max

// -----

ccl.topology @t ranks(gpu = 2) {
}
// expected-error@+1 {{'ccl.barrier' op axis 'gpu' is named twice}}
ccl.barrier @collective_c1_twice on @t axes(gpu, gpu)

// -----

ccl.topology @t ranks(gpu = 2) {
}
// expected-error@+1 {{'ccl.barrier' op choice 0 names no algorithm}}
ccl.barrier @collective_c2_choice on @t {choices = [{up_to = 4 : i64}]}

// -----

ccl.topology @t ranks(gpu = 2) {
}
ccl.algorithm @a implements #ccl.contract<barrier> {
}
// expected-error@+1 {{'ccl.barrier' op choice 1: all but the last one have up_to, bytes that ascend}}
ccl.barrier @collective_c2_sizes on @t {choices = [{algorithm = @a, up_to = 4 : i64}, {algorithm = @a, up_to = 4 : i64}, {algorithm = @a}]}

// -----

ccl.topology @t ranks(gpu = 2) {
}
ccl.algorithm @a implements #ccl.contract<barrier> {
}
// expected-error@+1 {{'ccl.barrier' op choice 0: micro_batches is an i64 from 1 on}}
ccl.barrier @collective_c2_batches on @t {choices = [{algorithm = @a, micro_batches = 0 : i64}]}

// -----

ccl.topology @t ranks(node = 2, gpu = 2) {
}
// expected-error@+1 {{'ccl.barrier' op group 2: groups ascend, and are 0 to 1}}
ccl.barrier @collective_c3 on @t axes(gpu) groups [0, 2]

// -----

// expected-error@+1 {{all_reduce needs a reduction, for example 'sum'}}
ccl.algorithm @contract_c1 implements #ccl.contract<all_reduce> {
}

// -----

// expected-error@+1 {{all_gather does not reduce: drop the reduction}}
ccl.algorithm @contract_c1_none implements #ccl.contract<all_gather, sum> {
}

// -----

// expected-error@+1 {{all_gather has no root}}
ccl.algorithm @contract_c2 implements #ccl.contract<all_gather, root = 1> {
}

// -----

// expected-error@+1 {{root -1 is negative}}
ccl.algorithm @contract_c2_negative implements #ccl.contract<broadcast, root = -1> {
}

// -----

// expected-error@+1 {{permute needs 'to = [...]'}}
ccl.algorithm @contract_c3 implements #ccl.contract<permute> {
}

// -----

// expected-error@+1 {{'to' is for permute only}}
ccl.algorithm @contract_c3_to implements #ccl.contract<all_gather, to = [1, 0]> {
}

// -----

// expected-error@+1 {{'to' is no permutation}}
ccl.algorithm @contract_c3_twice implements #ccl.contract<permute, to = [1, 1]> {
}

// -----

// expected-error@+1 {{'rows', 'in' and 'out' are for custom only}}
ccl.algorithm @contract_c3_rows implements #ccl.contract<all_gather, in = 1> {
}

// -----

// expected-error@+1 {{rows have four numbers each, got 3}}
ccl.algorithm @contract_c3_four implements #ccl.contract<custom, in = 1, out = 1, rows = [0, 0, 1]> {
}

// -----

// expected-error@+1 {{rows need the chunks of 'in' and 'out'}}
ccl.algorithm @contract_c3_chunks implements #ccl.contract<custom, rows = [0, 0, 1, 0]> {
}
