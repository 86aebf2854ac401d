// Claims of puts that do not hold, and more channels than there are.
// RUN: not ccl-opt %s --split-input-file --ccl-lower-to-program --ccl-check-program -o /dev/null 2>&1 | FileCheck %s
// RUN: not ccl-opt %s --split-input-file --ccl-lower-to-program=via=put 2>&1 | FileCheck %s --check-prefix=VIA
// VIA: error: ccl-assign-channels: via is auto, staged or direct, not 'put'

// Nobody tells the rank behind that what came from the rank in front has been read.
ccl.algorithm @early implements #ccl.contract<all_gather> {
  %in = ccl.buffer in ranks(3) chunks(1)
  %out = ccl.buffer out ranks(3) chunks(3)
  %t = ccl.buffer scratch ranks(3) chunks(1)
  affine.parallel (%r) = (0) to (3) {
    ccl.copy %in[%r, 0] into %out[%r, %r]
    ccl.copy %in[%r, 0] into %t[(%r + 1) mod 3, 0] via put
  }
  affine.parallel (%r) = (0) to (3) {
    ccl.copy %t[%r, 0] into %out[%r, (%r + 2) mod 3]
  }
  // CHECK: [[#@LINE + 3]]:5: error: race: rank {{[0-2]}}, t[0]: {{.*}} writes it, and {{.*}}; nothing says which comes first
  // CHECK: note: the other access
  affine.parallel (%r) = (0) to (3) {
    ccl.copy %in[%r, 0] into %t[(%r + 2) mod 3, 0] via put
  }
  affine.parallel (%r) = (0) to (3) {
    ccl.copy %t[%r, 0] into %out[%r, (%r + 1) mod 3]
  }
}

// -----

// CHECK: error: 'ccl.algorithm' op needs 1000002 channels between two ranks, at most 349525 have tags: use lower tags, or fewer pairs of agents
ccl.algorithm @tags implements #ccl.contract<custom> {
  %x = ccl.buffer inout ranks(2) chunks(1)
  ccl.copy %x[0, 0] into %x[1, 0] agents(0 to 1) tag 500000
  ccl.copy %x[0, 0] into %x[1, 0] agents(0 to 2)
}
