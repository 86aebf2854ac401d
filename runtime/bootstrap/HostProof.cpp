//===- HostProof.cpp --------------------------------------------------------===//
#include "runtime/bootstrap/HostProof.h"

#include "runtime/Memory.h"
#include "runtime/bootstrap/Connection.h"

#include "llvm/Support/SHA256.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace ccl::bootstrap {
namespace {

constexpr char theMagic[8] = {'c', 'c', 'l', 'h', 'o', 's', 't', '\n'};
constexpr size_t blockBytes = 64; ///< of SHA-256

template <typename T>
llvm::StringRef bytesOf(const T &value, size_t bytes = sizeof(T)) {
  return {reinterpret_cast<const char *>(&value), bytes};
}

} // namespace

bool fillRandom(void *to, size_t n) {
  ssize_t got = -1;
  do {
    got = getrandom(to, n, 0);
  } while (got < 0 && errno == EINTR);
  return got == ssize_t(n); // up to 256 bytes come whole
}

llvm::Expected<Greeting> makeGreeting(bool isCaller, int64_t rank, int64_t ranks) {
  Greeting greeting{};
  std::memcpy(greeting.magic, theMagic, sizeof theMagic);
  greeting.protocol = hostProtocol;
  greeting.side = isCaller;
  copyText(greeting.version, CCL_VERSION);
  greeting.rank = rank;
  greeting.ranks = ranks;
  if (!fillRandom(greeting.nonce, sizeof greeting.nonce))
    return makeFailure(Failure::Machine, "no random numbers: {}", std::strerror(errno));
  return greeting;
}

bool isGreeting(const Greeting &greeting, bool ofCaller) {
  return std::memcmp(greeting.magic, theMagic, sizeof theMagic) == 0 &&
         greeting.side == uint32_t(ofCaller);
}

std::string versionOf(const Greeting &greeting) {
  return printable({greeting.version, strnlen(greeting.version, sizeof greeting.version)});
}

Digest hmacSha256(llvm::StringRef key, llvm::ArrayRef<llvm::StringRef> parts) {
  std::array<uint8_t, blockBytes> inner{}, outer{};
  if (key.size() > blockBytes) {
    llvm::SHA256 hash;
    hash.update(key);
    const Digest digest = hash.final();
    std::copy(digest.begin(), digest.end(), inner.begin());
  } else {
    std::copy(key.begin(), key.end(), inner.begin());
  }
  for (size_t i = 0; i < blockBytes; ++i) {
    outer[i] = inner[i] ^ 0x5c;
    inner[i] ^= 0x36;
  }
  llvm::SHA256 hash;
  hash.update(inner);
  for (llvm::StringRef part : parts)
    hash.update(part);
  const Digest within = hash.final();
  hash.init();
  hash.update(outer);
  hash.update(within);
  return hash.final();
}

bool isEqual(const Digest &a, const Digest &b) {
  // Volatile: nothing may stop at the first difference.
  volatile uint8_t different = 0;
  for (size_t i = 0; i < a.size(); ++i)
    different = different | (a[i] ^ b[i]);
  return different == 0;
}

Digest proveCaller(llvm::StringRef secret, const Greeting &caller, const Greeting &rank0) {
  return hmacSha256(secret, {"ccl: a rank to rank 0", bytesOf(caller), bytesOf(rank0)});
}

Digest proveRank0(llvm::StringRef secret, const Greeting &caller, const Greeting &rank0,
                  const Verdict &verdict) {
  return hmacSha256(secret, {"ccl: rank 0 to a rank", bytesOf(caller), bytesOf(rank0),
                             bytesOf(verdict, offsetof(Verdict, proof))});
}

} // namespace ccl::bootstrap
