//===- HostProof.h - Who knows the secret of a job ---------------------------------===//
//
// The caller greets, rank 0 greets back, each with a nonce; the caller proves, then rank 0. A
// proof is an HMAC-SHA256 (RFC 2104) over the direction and both greetings, so that none can be
// used in another conversation, for another rank, or the other way. The caller is first: who only
// connects gets nothing that guesses at the secret could be tried on.
//
// What travels here are fixed structs, little-endian, which are the same in every version of the
// protocol.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Failure.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <bit>
#include <optional>

namespace ccl::bootstrap {

static_assert(std::endian::native == std::endian::little);

using Digest = std::array<uint8_t, 32>;
constexpr uint32_t hostProtocol = 1;

/// The first thing that is said, either way.
struct Greeting {
  char magic[8];
  uint32_t protocol;
  uint32_t side; ///< 0: of rank 0, 1: of a caller
  char version[32];
  int64_t rank, ranks; ///< of the caller; rank 0 says what it is and wants
  uint8_t nonce[32];
};
static_assert(sizeof(Greeting) == 96);

/// What rank 0 thinks of a caller that has said its proof.
struct Verdict {
  enum Kind : uint32_t {
    Refused = 1, ///< the proof is wrong; nothing else is set
    Fits,        ///< frames follow
    Failed       ///< the error that ends the meeting
  };
  uint32_t kind;
  uint32_t zero;
  int64_t category, culprit; ///< Failed: Failure and rank
  char text[640];
  Digest proof; ///< of rank 0, over all that is before it, too
};
static_assert(sizeof(Verdict) == 24 + 640 + 32);

/// Error (Failure::Machine): the machine gives no random numbers.
llvm::Expected<Greeting> makeGreeting(bool isCaller, int64_t rank, int64_t ranks);
/// Whether the other side speaks this protocol, whatever its version.
bool isGreeting(const Greeting &greeting, bool ofCaller);
std::string versionOf(const Greeting &greeting);

/// What the caller, what rank 0 proves itself with.
Digest proveCaller(llvm::StringRef secret, const Greeting &caller, const Greeting &rank0);
Digest proveRank0(llvm::StringRef secret, const Greeting &caller, const Greeting &rank0,
                  const Verdict &verdict);

Digest hmacSha256(llvm::StringRef key, llvm::ArrayRef<llvm::StringRef> parts);
/// Takes as long wherever they differ.
bool isEqual(const Digest &a, const Digest &b);
/// n random bytes; false if there are none to be had.
bool fillRandom(void *to, size_t n);

} // namespace ccl::bootstrap
