//===- Star.cpp -------------------------------------------------------------===//
#include "runtime/bootstrap/Star.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace ccl::bootstrap {

llvm::Expected<Star> Star::make(int64_t ranks) {
  Star star;
  for (int64_t r = 1; r < ranks; ++r) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      const int error = errno;
      return makeFailure(Failure::Machine, "cannot make sockets for {} ranks: {}{}", ranks,
                         std::strerror(error), error == EMFILE ? " (ulimit -n)" : "");
    }
    star.hub.emplace_back(ends[0]);
    star.spokes.emplace_back(ends[1]);
  }
  return star;
}

std::vector<int> Star::keep(int64_t rank) {
  std::vector<int> ends;
  if (rank == 0)
    for (Descriptor &end : hub)
      ends.push_back(end.release());
  else
    ends.push_back(spokes[size_t(rank - 1)].release());
  hub.clear();
  spokes.clear();
  return ends;
}

} // namespace ccl::bootstrap
