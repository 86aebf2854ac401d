// The numbered constraints of L2 ops (docs/semantics.md).
// RUN: ccl-opt %s -split-input-file -verify-diagnostics -allow-unregistered-dialect

// expected-error@+1 {{'ccl.program' op there is no algorithm @nothing}}
ccl.program @program_c1 of @nothing ranks(0) {
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
// expected-error@+1 {{'ccl.program' op needs at least one rank}}
ccl.program @program_c2 of @a ranks() {
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
// expected-error@+1 {{'ccl.program' op ranks 2 to 6: intervals ascend and do not overlap}}
ccl.program @program_c2_order(%me) of @a ranks(0 to 4, 2 to 6) {
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
// expected-error@+1 {{'ccl.program' op ranks 3 to 3: intervals ascend and do not overlap}}
ccl.program @program_c2_empty(%me) of @a ranks(3 to 3) {
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
// expected-error@+1 {{'ccl.program' op takes one argument, the rank, of type index}}
ccl.program @program_c3(%me, %you) of @a ranks(0 to 4) {
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
// expected-error@+1 {{'ccl.program' op is shared by 4 ranks and so needs the argument %me}}
ccl.program @program_c3_shared of @a ranks(0 to 4) {
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
ccl.program @program_c4 of @a ranks(0) {
  %x = ccl.buffer inout chunks(4)
  // expected-error@+1 {{'affine.for' op is not allowed at the top of a program: use an agent}}
  affine.for %i = 0 to 2 {
  }
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
ccl.program @program_c4_inside of @a ranks(0) {
  ccl.block 0 {
    // expected-error@+1 {{'test.op' op is not allowed in a program}}
    "test.op"() : () -> ()
  }
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
ccl.program @program_c5 of @a ranks(0) {
  ccl.block 1 {
  }
  ccl.proxy 1 {
  }
  // expected-error@+1 {{'ccl.block' op has the number of another agent}}
  ccl.block 1 {
  }
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
ccl.program @buffer_c1_program of @a ranks(0) {
  // expected-error@+1 {{'ccl.buffer' op is one rank's part in a program: drop ranks(...)}}
  %x = ccl.buffer inout ranks(4) chunks(4)
}

// -----

%b = "test.buffer"() : () -> !ccl.buffer
// expected-error@+1 {{'ccl.peer' op stands in ccl.program}}
%peer_c1 = ccl.peer %b at 1

// -----

// expected-error@+1 {{'ccl.channel' op stands in ccl.program}}
%channel_c1 = ccl.channel to 1

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
ccl.program @channel_c1_slots of @a ranks(0) {
  // expected-error@+1 {{'ccl.channel' op slots -1 are outside [0, 1024]}}
  %c = ccl.channel to 1 slots -1
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
ccl.program @channel_c1_tag of @a ranks(0) {
  // expected-error@+1 {{'ccl.channel' op tag -2 is outside [0, 1048576]}}
  %c = ccl.channel to 1 tag -2
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
ccl.program @transfer_c1 of @a ranks(0) {
  %x = ccl.buffer inout chunks(4)
  ccl.block 0 {
    // expected-error@+1 {{'ccl.transfer' op has several sources: reduce}}
    ccl.transfer from %x[0], %x[1] to %x[2]
  }
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
ccl.program @transfer_c1_single of @a ranks(0) {
  %x = ccl.buffer inout chunks(4)
  ccl.block 0 {
    // expected-error@+1 {{'ccl.transfer' op reduces a single source}}
    ccl.transfer reduce from %x[0] to %x[2]
  }
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
ccl.program @transfer_c2 of @a ranks(0) {
  %x = ccl.buffer inout chunks(2, 2)
  ccl.block 0 {
    // expected-error@+1 {{'ccl.transfer' op a source needs 2 indices (one per chunk axis), got 1}}
    ccl.transfer from %x[0] to %x[0, 1]
  }
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
ccl.program @transfer_c3 of @a ranks(0) {
  %x = ccl.buffer inout chunks(4)
  %c = ccl.channel to 1 slots 2
  ccl.block 0 {
    // expected-error@+1 {{'ccl.transfer' op a source channel is a 'from' end}}
    ccl.transfer from %c to %x[0]
  }
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
ccl.program @transfer_c3_to of @a ranks(0) {
  %x = ccl.buffer inout chunks(4)
  %c = ccl.channel from 1 slots 2
  ccl.block 0 {
    // expected-error@+1 {{'ccl.transfer' op a destination channel is a 'to' end}}
    ccl.transfer from %x[0] to %c
  }
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
ccl.program @transfer_c3_slots of @a ranks(0) {
  %x = ccl.buffer inout chunks(4)
  %c = ccl.channel to 1
  ccl.block 0 {
    // expected-error@+1 {{'ccl.transfer' op a destination channel needs slots}}
    ccl.transfer from %x[0] to %c
  }
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
ccl.program @transfer_c4 of @a ranks(0) {
  %x = ccl.buffer inout chunks(4)
  %c = ccl.channel to 1 slots 2
  ccl.block 0 {
    // expected-error@+1 {{'ccl.transfer' op lists a destination channel twice}}
    ccl.transfer from %x[0] to %c, %c
  }
}

// -----

%b = "test.buffer"() : () -> !ccl.buffer
// expected-error@+1 {{'ccl.transfer' op stands in an agent (ccl.block or ccl.proxy)}}
ccl.transfer from %b[0] to %b[1] {transfer_c5}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
ccl.program @transfer_c5_symbol of @a ranks(0) {
  %x = ccl.buffer inout chunks(4)
  ccl.block 0 {
    affine.for %i = 0 to 2 {
      // expected-error@+1 {{'ccl.transfer' op index operand 0 is no affine symbol}}
      ccl.transfer from %x[symbol(%i)] to %x[2]
    }
  }
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
ccl.program @transfer_c6 of @a ranks(0) {
  %x = ccl.buffer inout chunks(4)
  ccl.block 0 {
    // expected-error@+1 {{'ccl.transfer' op moves 0 chunks, needs at least 1}}
    ccl.transfer from %x[0] to %x[1] x 0
  }
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
ccl.program @transfer_c7(%me) of @a ranks(0 to 2) {
  %x = ccl.buffer in chunks(4)
  %p = ccl.peer %x at (%me + 1) mod 2
  ccl.block 0 {
    // expected-error@+1 {{'ccl.transfer' op writes an 'in' buffer}}
    ccl.transfer from %x[0] to %p[1]
  }
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
ccl.program @signal_c1 of @a ranks(0) {
  %c = ccl.channel from 1
  ccl.block 0 {
    // expected-error@+1 {{'ccl.signal' op takes a 'to' channel without slots}}
    ccl.signal %c
  }
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
ccl.program @wait_c1 of @a ranks(0) {
  %c = ccl.channel from 1 slots 2
  ccl.block 0 {
    // expected-error@+1 {{'ccl.wait' op takes a 'from' channel without slots}}
    ccl.wait %c
  }
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
ccl.program @signal_c2 of @a ranks(0) {
  %x = ccl.buffer in chunks(2, 2)
  %c = ccl.channel to 1
  ccl.block 0 {
    // expected-error@+1 {{'of' names a place of a ccl.buffer, one index per chunk axis}}
    ccl.signal %c of %x[0]
  }
}

// -----

ccl.algorithm @a implements #ccl.contract<custom> {
}
ccl.program @wait_c2 of @a ranks(0) {
  %x = ccl.buffer in chunks(2)
  %p = ccl.peer %x at 1
  %c = ccl.channel from 1
  ccl.block 0 {
    // expected-error@+1 {{'of' names a place of a ccl.buffer, one index per chunk axis}}
    ccl.wait %c of %p[0]
  }
}
