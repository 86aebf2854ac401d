//===- HostProofTest.cpp - Who knows the secret of a job --------------------------===//
#include "runtime/bootstrap/HostProof.h"

#include "llvm/ADT/StringExtras.h"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>

using namespace ccl;
using namespace ccl::bootstrap;

TEST_CASE("HMAC-SHA256 by RFC 4231") {
  auto hex = [](const Digest &digest) { return llvm::toHex(digest, true); };
  CHECK(hex(hmacSha256(std::string(20, '\x0b'), {"Hi ", "There"})) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hex(hmacSha256("Jefe", {"what do ya want for nothing?"})) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hex(hmacSha256(std::string(131, '\xaa'),
                       {"Test Using Larger Than Block-Size Key - Hash Key First"})) ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  const Digest a{};
  for (size_t i = 0; i < a.size(); ++i) {
    Digest b = a;
    b[i] = 1;
    CHECK_FALSE(isEqual(a, b));
  }
  CHECK(isEqual(a, a));
}

TEST_CASE("a proof is good for one conversation, rank, number of ranks and direction") {
  const Greeting caller = llvm::cantFail(makeGreeting(true, 1, 2));
  const Greeting rank0 = llvm::cantFail(makeGreeting(false, 0, 2));
  const Digest proof = proveCaller("secret", caller, rank0);
  auto differs = [&](const std::function<void(Greeting &)> &change) {
    Greeting a = caller, b = rank0;
    change(a);
    change(b);
    return !isEqual(proveCaller("secret", a, rank0), proof) &&
           !isEqual(proveCaller("secret", caller, b), proof);
  };
  CHECK(differs([](Greeting &g) { g.nonce[31] ^= 1; }));
  CHECK(differs([](Greeting &g) { g.rank = 3; }));
  CHECK(differs([](Greeting &g) { g.ranks = 3; }));
  CHECK(differs([](Greeting &g) { g.protocol = 3; }));
  CHECK(differs([](Greeting &g) { g.version[0] = 'x'; }));
  CHECK_FALSE(isEqual(proveCaller("Secret", caller, rank0), proof));
  CHECK_FALSE(isEqual(proveRank0("secret", caller, rank0, {}), proof));
  CHECK(std::memcmp(caller.nonce, rank0.nonce, sizeof caller.nonce) != 0);
}
