// A wrong word is answered with the right ones.
// RUN: ccl-opt %s -split-input-file -verify-diagnostics

ccl.algorithm @role implements #ccl.contract<custom> {
  // expected-error@+1 {{expected one of in, out, inout, scratch}}
  %x = ccl.buffer input ranks(4) chunks(4)
}

// -----

// expected-error@+1 {{expected one of all_reduce, all_gather, reduce_scatter, broadcast, reduce, gather, scatter, all_to_all, all_to_allv, permute, barrier, custom}}
ccl.algorithm @collective implements #ccl.contract<allreduce, sum> {
}

// -----

// expected-error@+1 {{expected one of none, sum, prod, min, max, avg, band, bor, bxor}}
ccl.algorithm @reduction implements #ccl.contract<all_reduce, add> {
}

// -----

ccl.algorithm @via implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  // expected-error@+1 {{expected one of staged, direct}}
  ccl.copy %x[0, 0] into %x[1, 0] via nvlink
}

// -----

ccl.topology @node ranks(gpu = 2) {
  // expected-error@+1 {{expected a rank number or the name of a switch in quotes}}
  ccl.link sw0 to 1 bandwidth 1.0
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
ccl.program @protocol of @a ranks(0) {
  // expected-error@+1 {{expected one of simple, ll, ll128, lamport}}
  %c = ccl.channel to 1 slots 2 protocol fast
}
