//===- HostLink.cpp ---------------------------------------------------------===//
#include "runtime/bootstrap/HostLink.h"

#include "runtime/Log.h"
#include "runtime/bootstrap/HostMeeting.h"
#include "runtime/bootstrap/HostProof.h"
#include "runtime/bootstrap/HostRelay.h"
#include "runtime/bootstrap/QuietThread.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

namespace ccl::bootstrap {
namespace {

class Link;

/// The links of this process: a child of fork must not use them.
struct Registry {
  std::mutex mutex;
  std::vector<Link *> links;
  static Registry &get() {
    static auto *registry = new Registry; // outlives every other static
    return *registry;
  }
};

class Link final : public HostLink {
public:
  Link(const HostLinkOptions &options, HostMeeting meeting, Descriptor wake)
      : myRank(options.rank), myJob(meeting.job), entries(std::move(meeting.entries)),
        relay(std::make_unique<HostRelay>(myRank, ranks(), std::move(meeting.streams),
                                          std::move(wake))) {
    static std::once_flag once;
    std::call_once(once, [] {
      pthread_atfork([] { Registry::get().mutex.lock(); }, [] { Registry::get().mutex.unlock(); },
                     &Link::childOfFork);
    });
    std::lock_guard lock(Registry::get().mutex);
    Registry::get().links.push_back(this);
  }
  ~Link() override;

  int64_t rank() const override { return myRank; }
  int64_t ranks() const override { return int64_t(entries.size()); }
  uint64_t job() const override { return myJob; }
  const std::string &hostOf(int64_t rank) const override { return entries[size_t(rank)].host; }
  const std::string &addressOf(int64_t rank) const override {
    return entries[size_t(rank)].address;
  }
  int64_t pidOf(int64_t rank) const override { return entries[size_t(rank)].pid; }

  void send(llvm::ArrayRef<int64_t> to, uint32_t kind, llvm::StringRef bytes) override;
  llvm::Error start(Listener &listener) override;
  Milliseconds silence(int64_t rank) const override { return relay->silence(rank); }

private:
  static void childOfFork();

  const int64_t myRank;
  const uint64_t myJob;
  const std::vector<HostEntry> entries; ///< by rank
  std::unique_ptr<HostRelay> relay;
  Listener *listener = nullptr;
  pthread_t thread{};
  std::atomic<bool> forked{false};
};

Link::~Link() {
  if (forked.load()) {
    (void)relay.release(); // its thread, and who holds its locks, exist in the parent only
    return;
  }
  {
    std::lock_guard lock(Registry::get().mutex);
    std::erase(Registry::get().links, this);
  }
  if (!listener) {
    relay->farewell();
    return;
  }
  relay->stop();
  pthread_join(thread, nullptr);
}

/// Descriptors that a child keeps open would hide the end of its parent from others.
void Link::childOfFork() {
  for (Link *link : Registry::get().links) {
    link->forked.store(true);
    link->relay->closeInChild();
  }
  Registry::get().links.clear();
  Registry::get().mutex.unlock();
}

void Link::send(llvm::ArrayRef<int64_t> to, uint32_t kind, llvm::StringRef bytes) {
  if (forked.load())
    return;
  if (bytes.size() > mostBytes)
    return log::warn(log::Subsystem::Init, myRank,
                     "a message of {} bytes to other hosts was not sent: the limit is {}",
                     bytes.size(), mostBytes);
  Frame frame = Frame::make(FrameType::Message, myRank);
  frame.header.kind = kind;
  for (int64_t target : to)
    if (target >= 0 && target < ranks() && target != myRank)
      frame.targets.push_back(uint32_t(target));
  if (frame.targets.empty())
    return;
  frame.body = std::make_shared<const std::string>(bytes.str());
  relay->post(std::move(frame));
}

llvm::Error Link::start(Listener &told) {
  listener = &told;
  const int error = startQuietThread(
      thread,
      [](void *self) -> void * {
        pthread_setname_np(pthread_self(), "ccl-hosts");
        auto *link = static_cast<Link *>(self);
        link->relay->run(*link->listener);
        return nullptr;
      },
      this);
  if (error == 0)
    return llvm::Error::success();
  listener = nullptr;
  return makeFailure(Failure::Machine, "cannot start the thread that talks to other hosts: {}",
                     std::strerror(error));
}

/// Why these options make no sense, or "".
std::string problemOf(const HostLinkOptions &options) {
  if (options.ranks < 1)
    return fmt::format("{} ranks", options.ranks);
  if (options.rank < 0 || options.rank >= options.ranks)
    return fmt::format("there is no rank {} of {}", options.rank, options.ranks);
  if (options.timeout <= Milliseconds(0))
    return fmt::format("the time-out is {} ms", options.timeout.count());
  if (options.host.size() > mostHostBytes)
    return fmt::format("the name of the host (CCL_HOST_ID) has {} bytes, the limit is {}",
                       options.host.size(), mostHostBytes);
  if (options.ranks > 1 && options.address.empty())
    return "there is no address of rank 0 (CCL_ADDRESS)";
  if (options.ranks > 1 && options.secret.empty())
    return "there is no secret that all ranks know (CCL_SECRET, CCL_SECRET_FILE)";
  return "";
}

/// Of one rank, which talks to nobody.
llvm::Expected<HostMeeting> meetAlone(const HostLinkOptions &options) {
  HostMeeting meeting;
  if (!fillRandom(&meeting.job, sizeof meeting.job))
    return makeFailure(Failure::Machine, "no random numbers: {}", std::strerror(errno));
  meeting.entries.push_back({options.host, "", getpid()});
  return meeting;
}

} // namespace

llvm::Expected<std::unique_ptr<HostLink>> HostLink::meet(const HostLinkOptions &options) {
  if (std::string problem = problemOf(options); !problem.empty())
    return makeFailure(Failure::BadArgument, "{}", problem);
  // Before the others count on us.
  Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake)
    return makeFailure(Failure::Machine, "cannot make an eventfd: {}", std::strerror(errno));
  llvm::Expected<HostMeeting> meeting = options.ranks == 1  ? meetAlone(options)
                                        : options.rank == 0 ? gatherHosts(options)
                                                            : joinHosts(options);
  if (!meeting)
    return meeting.takeError();
  return std::make_unique<Link>(options, std::move(*meeting), std::move(wake));
}

} // namespace ccl::bootstrap
