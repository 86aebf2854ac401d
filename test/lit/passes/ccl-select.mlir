// RUN: ccl-opt %s --ccl-select=bytes=1024 2> %t.one | FileCheck %s --check-prefixes=SMALL,BOTH
// RUN: FileCheck %s --check-prefix=REMARK < %t.one
// RUN: ccl-opt %s --ccl-select='bytes=1024,4096,16777216,67108864' 2> /dev/null | FileCheck %s --check-prefixes=RANGE,BOTH
// RUN: ccl-opt %s --ccl-select='bytes=67108864 prune=true' 2> /dev/null | FileCheck %s --check-prefix=PRUNE
//
// Few steps for a few bytes, few bytes a link for many. Of a range the last one is `algorithm`, and
// sizes in a row that one algorithm is best for are one choice.
// REMARK: remark: 1024 bytes: @ring {{.*}} us @once {{.*}} us
// BOTH: ccl.topology
// SMALL: ccl.all_gather @ag on @t algorithm = @once{{$}}
// RANGE: ccl.all_gather @ag on @t algorithm = @ring {choices = [{algorithm = @once, up_to = 4096 : i64}, {algorithm = @ring, micro_batches = 2 : i64}]}
// PRUNE: ccl.all_gather @ag on @t algorithm = @ring{{$}}
// PRUNE-NOT: @once
// PRUNE-NOT: @larger
ccl.topology @t ranks(gpu = 4) {
  ccl.switch "hub"
  ccl.link 0 to 1 bandwidth 50.0 latency 3.0
  ccl.link 1 to 2 bandwidth 50.0 latency 3.0
  ccl.link 2 to 3 bandwidth 50.0 latency 3.0
  ccl.link 3 to 0 bandwidth 50.0 latency 3.0
  ccl.link 0 to "hub" bandwidth 10.0 latency 2.0
  ccl.link 1 to "hub" bandwidth 10.0 latency 2.0
  ccl.link 2 to "hub" bandwidth 10.0 latency 2.0
  ccl.link 3 to "hub" bandwidth 10.0 latency 2.0
  ccl.link "hub" to 0 bandwidth 10.0 latency 2.0
  ccl.link "hub" to 1 bandwidth 10.0 latency 2.0
  ccl.link "hub" to 2 bandwidth 10.0 latency 2.0
  ccl.link "hub" to 3 bandwidth 10.0 latency 2.0
}
ccl.all_gather @ag on @t
ccl.algorithm @ring implements #ccl.contract<all_gather> attributes {ccl.micro_batches = 2 : i64} {
  %x = ccl.buffer inout ranks(4) chunks(4)
  affine.for %s = 1 to 4 {
    affine.parallel (%r) = (0) to (4) {
      ccl.copy %x[%r, (%r - %s + 1) mod 4] into %x[(%r + 1) mod 4, (%r - %s + 1) mod 4]
    }
  }
}
ccl.algorithm @once implements #ccl.contract<all_gather> {
  %x = ccl.buffer inout ranks(4) chunks(4)
  affine.parallel (%r, %s) = (0, 1) to (4, 4) {
    ccl.copy %x[%r, %r] into %x[(%r + %s) mod 4, %r]
  }
}
// Another number of ranks, another contract, and one that waits for its size.
ccl.algorithm @larger implements #ccl.contract<all_gather> {
  %x = ccl.buffer inout ranks(8) chunks(8)
}
ccl.algorithm @other implements #ccl.contract<barrier> {
  %x = ccl.buffer inout ranks(4) chunks(1)
}
ccl.algorithm @family(%n: index) implements #ccl.contract<all_gather> {
  %x = ccl.buffer inout ranks(%n) chunks(%n)
}
