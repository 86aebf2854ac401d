//===- HostMeeting.h - Ranks on several hosts find each other ----------------------===//
//
// Rank 0 listens, the others connect, prove themselves (HostProof.h) and say who they are; when
// all have come, each gets the roster. One poll loop on rank 0: no caller can hold up another, and
// who proves nothing is hung up on after a while. The first thing that goes wrong ends the meeting,
// and all who can be reached are told in the same words.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/bootstrap/HostLink.h"
#include "runtime/bootstrap/HostStream.h"

#include <optional>

namespace ccl::bootstrap {

struct HostEntry {
  std::string host;    ///< its hostIdentity()
  std::string address; ///< numeric, as rank 0 sees it
  int64_t pid = 0;
};

struct HostMeeting {
  uint64_t job = 0;
  std::vector<HostEntry> entries; ///< by rank
  /// On rank 0: by rank, its own is null; on others: one, to rank 0.
  std::vector<std::unique_ptr<HostStream>> streams;
};

/// Of more than one rank. Errors as of HostLink::meet.
llvm::Expected<HostMeeting> gatherHosts(const HostLinkOptions &options);
llvm::Expected<HostMeeting> joinHosts(const HostLinkOptions &options);

constexpr size_t mostHostBytes = 1024; ///< of a hostIdentity()
/// A caller that means it speaks at once; a dropped one may come again.
constexpr Milliseconds hostSilence{2000};
/// For words that are under way to arrive.
constexpr Milliseconds hostGrace{500};

//===----------------------------------------------------------------------===//
// Bodies of frames. What is read is nothing if it is not whole.
//===----------------------------------------------------------------------===//

/// Of a rank: who it is, and how much longer it waits.
struct Presence {
  HostEntry entry; ///< without an address
  Milliseconds remaining{0};
};
std::string encodePresent(const Presence &presence);
std::optional<Presence> decodePresent(llvm::StringRef body);

std::string encodeRoster(uint64_t job, const std::vector<HostEntry> &entries);
/// Sets job and entries.
bool decodeRoster(llvm::StringRef body, int64_t ranks, HostMeeting &meeting);

std::string encodeFailed(const RuntimeError &error);
std::optional<RuntimeError> decodeFailed(llvm::StringRef body);

/// Those that have been silent for a while, and how long.
struct Silent {
  uint32_t rank = 0;
  uint32_t milliseconds = 0;
};
std::string encodeSilent(const std::vector<Silent> &silent);
std::vector<Silent> decodeSilent(llvm::StringRef body);

} // namespace ccl::bootstrap
