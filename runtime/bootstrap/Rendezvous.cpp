//===- Rendezvous.cpp -------------------------------------------------------===//
#include "runtime/bootstrap/Rendezvous.h"

#include "runtime/bootstrap/Handles.h"
#include "runtime/bootstrap/Hub.h"
#include "runtime/bootstrap/Visitor.h"

#include <sys/stat.h>

namespace ccl {
namespace {

/// Why these options make no sense, or "".
std::string problemOf(const JoinOptions &options) {
  if (options.ranks < 1)
    return fmt::format("{} ranks", options.ranks);
  if (options.rank < 0 || options.rank >= options.ranks)
    return fmt::format("there is no rank {} of {}", options.rank, options.ranks);
  if (options.timeout <= Milliseconds(0))
    return fmt::format("the time-out is {} ms", options.timeout.count());
  if (options.ranks == 1)
    return "";
  const int64_t wanted = options.rank == 0 ? options.ranks - 1 : 1;
  if (options.sockets.empty() && options.path.empty())
    return "there is neither a path of a socket (CCL_SOCKET) nor are there sockets";
  if (!options.sockets.empty() && int64_t(options.sockets.size()) != wanted)
    return fmt::format("rank {} of {} needs {} sockets, not {}", options.rank, options.ranks,
                       wanted, options.sockets.size());
  for (int socket : options.sockets)
    if (struct stat status{}; fstat(socket, &status) != 0 || !S_ISSOCK(status.st_mode))
      return fmt::format("descriptor {}, given to rank {} of {}, is no socket", socket,
                         options.rank, options.ranks);
  return "";
}

} // namespace

llvm::Expected<Meeting> meet(const JoinOptions &options, Descriptor arena, int64_t arenaBytes) {
  std::vector<Descriptor> sockets;
  sockets.reserve(options.sockets.size());
  for (int socket : options.sockets)
    sockets.emplace_back(socket);
  if (std::string problem = problemOf(options); !problem.empty())
    return makeFailure(Failure::BadArgument, "{}", problem);
  if (std::string problem = bootstrap::arenaProblem(arena.get(), arenaBytes); !problem.empty())
    return makeFailureOf(options.rank, Failure::Machine, "the arena of this rank is refused: {}",
                         problem);
  if (options.ranks == 1) {
    Meeting meeting;
    meeting.peers.resize(1);
    meeting.peers[0].arena = std::move(arena);
    return meeting;
  }
  if (options.rank == 0)
    return bootstrap::Hub(options, std::move(arena), arenaBytes, std::move(sockets)).run();
  return bootstrap::Visitor(options, std::move(arena), arenaBytes,
                            sockets.empty() ? Descriptor() : std::move(sockets[0]))
      .run();
}

} // namespace ccl
