//===- Meetings.cpp ---------------------------------------------------------===//
#include "test/unit/runtime/Meetings.h"

#include "runtime/bootstrap/Star.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/mman.h>

#include <cstring>

namespace ccl::test {

Descriptor makeArena(int64_t bytes, uint64_t word, int seals) {
  Descriptor arena(memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!arena || ftruncate(arena.get(), bytes) != 0 ||
      pwrite(arena.get(), &word, sizeof word, 0) != sizeof word ||
      fcntl(arena.get(), F_ADD_SEALS,
            seals >= 0 ? seals : F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    abort();
  return arena;
}

std::string Fared::toText() const {
  return fmt::format("{} {} {} {} {} {}", int(ok), int(category), culprit, leaked, milliseconds,
                     message);
}

Fared Fared::fromText(const std::string &text) {
  Fared fared;
  llvm::SmallVector<llvm::StringRef, 6> parts;
  llvm::StringRef(text).split(parts, ' ', 5);
  int category = 0;
  if (parts.size() != 6 || parts[1].getAsInteger(10, category) ||
      parts[2].getAsInteger(10, fared.culprit) || parts[3].getAsInteger(10, fared.leaked) ||
      parts[4].getAsInteger(10, fared.milliseconds)) {
    fared.message = "no text: " + text;
    return fared;
  }
  fared.ok = parts[0] == "1";
  fared.category = Failure(category);
  fared.message = parts[5].str();
  return fared;
}

static std::string checkMeeting(const Meeting &meeting, const Attend &how) {
  if (meeting.rank != how.options.rank || meeting.ranks != how.options.ranks ||
      int64_t(meeting.peers.size()) != how.options.ranks)
    return "wrong rank";
  for (int64_t r = 0; r < meeting.ranks; ++r) {
    const PeerLink &peer = meeting.peers[size_t(r)];
    uint64_t word = 0;
    if (pread(peer.arena.get(), &word, sizeof word, 0) != sizeof word || word != uint64_t(r + 1))
      return fmt::format("arena {} holds {}", r, word);
    const bool mine = r == meeting.rank;
    if (mine == bool(peer.pidfd))
      return fmt::format("pidfd of {}", r);
    if (!mine && peer.pid <= 0)
      return fmt::format("pid of {}", r);
    if (bool(peer.socket) != (!mine && (meeting.rank == 0 || r == 0)))
      return fmt::format("socket of {}", r);
    for (int number : {peer.arena.get(), peer.pidfd.get(), peer.socket.get()})
      if (number >= 0 && (fcntl(number, F_GETFD) & FD_CLOEXEC) == 0)
        return fmt::format("descriptor {} of {} outlives exec", number, r);
  }
  return "";
}

Fared attend(const Attend &how) {
  if (how.prepare)
    how.prepare();
  const auto begin = std::chrono::steady_clock::now();
  // `meet` closes the sockets that it is given.
  const int before = countDescriptors() - int(how.options.sockets.size());
  Fared fared;
  {
    llvm::Expected<Meeting> meeting = meet(
        how.options, makeArena(how.arenaBytes, uint64_t(how.options.rank + 1)), how.arenaBytes);
    if (meeting) {
      fared.ok = true;
      fared.message = checkMeeting(*meeting, how);
    } else {
      llvm::handleAllErrors(meeting.takeError(), [&](const RuntimeError &e) {
        fared.category = e.category;
        fared.culprit = e.culprit;
        fared.message += e.message;
      });
    }
  }
  fared.leaked = countDescriptors() - before;
  fared.milliseconds =
      std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - begin).count();
  return fared;
}

std::vector<Attend> atPath(int64_t ranks, const std::string &path, Milliseconds timeout) {
  std::vector<Attend> all(static_cast<size_t>(ranks));
  for (int64_t r = 0; r < ranks; ++r) {
    JoinOptions &options = all[size_t(r)].options;
    options.rank = r;
    options.ranks = ranks;
    options.path = path;
    options.timeout = timeout;
  }
  return all;
}

static std::vector<Fared> faredOf(std::vector<Child> &children) {
  std::vector<Fared> all;
  for (Child &child : children)
    all.push_back(Fared::fromText(child.text()));
  return all;
}

std::vector<Fared> meetAll(const std::vector<Attend> &ranks) {
  std::vector<Child> children;
  children.reserve(ranks.size());
  for (const Attend &how : ranks)
    children.emplace_back([&how] { return attend(how).toText(); });
  return faredOf(children);
}

std::vector<Fared> meetOverSockets(std::vector<Attend> ranks) {
  std::vector<Child> children;
  children.reserve(ranks.size());
  {
    bootstrap::Star star = llvm::cantFail(bootstrap::Star::make(int64_t(ranks.size())));
    for (size_t r = 0; r < ranks.size(); ++r)
      children.emplace_back([&, r] {
        ranks[r].options.sockets = star.keep(int64_t(r));
        ranks[r].options.path.clear();
        return attend(ranks[r]).toText();
      });
  }
  return faredOf(children);
}

} // namespace ccl::test
