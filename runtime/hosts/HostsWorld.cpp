//===- HostsWorld.cpp ---------------------------------------------------------===//
#include "runtime/hosts/HostsWorld.h"

#include "runtime/Log.h"
#include "runtime/ProcessWorld.h"
#include "runtime/RankMember.h"
#include "runtime/bootstrap/HostLink.h"
#include "runtime/hosts/Blocks.h"
#include "runtime/hosts/Hosts.h"
#include "runtime/rdma/Wire.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <sys/stat.h>
#include <unistd.h>

namespace ccl {
namespace {

using bootstrap::HostLink;

/// Where each rank of the world is.
struct Places {
  std::vector<int64_t> near;      ///< ranks of this host
  std::vector<int64_t> nearIndex; ///< of each rank, in `near`; -1: on another host
  std::vector<int64_t> host;      ///< of each rank: the first one of its host
};

Places findPlaces(const HostLink &link) {
  Places places;
  std::map<std::string, int64_t> first;
  const std::string &mine = link.hostOf(link.rank());
  for (int64_t r = 0; r < link.ranks(); ++r) {
    const bool isNear = link.hostOf(r) == mine;
    places.nearIndex.push_back(isNear ? int64_t(places.near.size()) : -1);
    if (isNear)
      places.near.push_back(r);
    places.host.push_back(first.emplace(link.hostOf(r), r).first->second);
  }
  return places;
}

class HostsWorld final : public World, public Hosts {
public:
  HostsWorld(std::shared_ptr<World> near, std::unique_ptr<HostLink> link, Places places,
             decltype(JoinOptions::nics) nics)
      : nearWorld(std::move(near)), link(std::move(link)), places(std::move(places)),
        nics(std::move(nics)), blocks(*nearWorld, *this->link, this->places.nearIndex),
        nearEar(*this), farEar(*this) {}
  ~HostsWorld() override {
    nearWorld->ignore(&nearEar);
    link.reset(); // its thread calls into all of this
  }
  llvm::Error start() {
    nearWorld->listen(&nearEar);
    return link->start(farEar);
  }

  // Memory: of this host.
  llvm::Expected<Block> allocate(size_t bytes) override { return nearWorld->allocate(bytes); }
  void release(Block block, bool mayBeInUse) override { nearWorld->release(block, mayBeInUse); }
  uint64_t share(const void *address) const override { return nearWorld->share(address); }
  void *reach(int64_t rank, uint64_t shared) const override {
    const int64_t index = places.nearIndex[size_t(rank)];
    return index >= 0 ? nearWorld->reach(index, shared) : blocks.reach(shared);
  }
  bool isMapped(const void *address) const override { return nearWorld->isMapped(address); }
  std::string read(int64_t rank, const void *address, void *to, size_t bytes) override {
    const int64_t index = places.nearIndex[size_t(rank)];
    return index >= 0 ? nearWorld->read(index, address, to, bytes) : "it is on another host";
  }

  // Peers.
  std::optional<std::string> gone(int64_t rank) const override {
    std::lock_guard lock(listening);
    auto found = goners.find(rank);
    return found == goners.end() ? std::nullopt : std::optional(found->second);
  }
  Milliseconds silence(int64_t rank) const override {
    const int64_t index = places.nearIndex[size_t(rank)];
    return index >= 0 ? nearWorld->silence(index) : link->silence(rank);
  }
  std::string describe(int64_t rank) const override {
    const int64_t index = places.nearIndex[size_t(rank)];
    return index >= 0 ? nearWorld->describe(index)
                      : fmt::format("process {} at {}", link->pidOf(rank), link->addressOf(rank));
  }
  const char *unusable() const override { return nearWorld->unusable(); }
  void listen(Listener *listener) override {
    std::lock_guard lock(listening);
    listeners.push_back(listener);
    for (const auto &[who, how] : goners)
      listener->onGone(who, how);
  }
  void ignore(Listener *listener) override {
    std::lock_guard lock(listening);
    std::erase(listeners, listener);
  }

  // Other hosts.
  Hosts *hosts() override { return this; }
  bool isNear(int64_t rank) const override { return places.nearIndex[size_t(rank)] >= 0; }
  int64_t hostOf(int64_t rank) const override { return places.host[size_t(rank)]; }
  void join(ControlBlock &control, int64_t rank) override { blocks.join(control, rank); }
  void leave(ControlBlock &control, int64_t rank) override { blocks.leave(control, rank); }
  void tellArrived(ControlBlock &control, uint64_t operation) override {
    blocks.tellArrived(control, operation);
  }
  void tellFailed(ControlBlock &control, int64_t rank) override {
    blocks.tellFailed(control, rank);
  }
  void tellRejoins(ControlBlock &control, int64_t rank) override {
    blocks.tellRejoins(control, rank);
  }
  void propose(ControlBlock &control, const std::vector<int64_t> &ranks) override {
    blocks.propose(control, ranks);
  }
  std::optional<std::vector<int64_t>> decision(ControlBlock &control) override {
    return blocks.decision(control);
  }
  void look(ControlBlock &control) override { blocks.look(control); }
  void send(ControlBlock &control, int64_t from, int64_t to, llvm::StringRef bytes) override {
    blocks.send(control, from, to, bytes);
  }
  std::optional<std::string> receive(ControlBlock &control, int64_t from, int64_t to) override {
    return blocks.receive(control, from, to);
  }
  llvm::Expected<std::unique_ptr<rdma::Wire>>
  openWire(const rdma::WireOptions &options) const override {
    if (!nics)
      return makeFailure(Failure::Machine, "nothing leads from this host to the others");
    llvm::Expected<std::vector<std::unique_ptr<rdma::Nic>>> opened = nics();
    if (!opened)
      return opened.takeError();
    return rdma::Wire::create(std::move(*opened), options);
  }

private:
  void report(int64_t rank, const std::string &how) {
    std::lock_guard lock(listening);
    if (!goners.emplace(rank, how).second)
      return;
    for (Listener *listener : listeners)
      listener->onGone(rank, how);
  }

  /// Processes of this host are watched by the system, which knows more of how they ended.
  struct NearEar final : World::Listener {
    explicit NearEar(HostsWorld &world) : world(world) {}
    void onGone(int64_t index, const std::string &how) override {
      world.report(world.places.near[size_t(index)], how);
    }
    HostsWorld &world;
  };
  struct FarEar final : HostLink::Listener {
    explicit FarEar(HostsWorld &world) : world(world) {}
    void onMessage(int64_t from, uint32_t kind, llvm::StringRef bytes) override {
      world.blocks.hear(from, kind, bytes);
    }
    void onGone(int64_t rank, const std::string &how) override {
      // With rank 0 in order, too, the connections of all others end. If it failed, that is known
      // before they are missed, though the system may tell of its process a moment later.
      if (!hubLeft && (rank == 0 || !world.isNear(rank)))
        world.report(rank, how);
    }
    void onLeft(int64_t rank) override { hubLeft |= rank == 0; }
    HostsWorld &world;
    bool hubLeft = false;
  };

  std::shared_ptr<World> nearWorld;
  std::unique_ptr<HostLink> link;
  const Places places;
  const decltype(JoinOptions::nics) nics;
  hosts::Blocks blocks;
  mutable std::mutex listening;
  std::vector<Listener *> listeners;
  std::map<int64_t, std::string> goners;
  NearEar nearEar;
  FarEar farEar;
};

/// A folder of this job that the processes of this host meet in, and nobody else may enter.
class MeetingPlace {
public:
  MeetingPlace(const HostLink &link, const Places &places) {
    llvm::SmallString<128> path;
    llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, path);
    llvm::sys::path::append(path, fmt::format("ccl-{:016x}-{}", link.job(), places.near.front()));
    folder = std::string(path);
  }
  ~MeetingPlace() { ::rmdir(folder.c_str()); } // the last to leave finds it empty
  std::string socket() const { return folder + "/meet"; }

private:
  std::string folder;
};

} // namespace

llvm::Expected<std::unique_ptr<Member>> joinHosts(JoinOptions options) {
  const Clock::time_point deadline = Clock::now() + options.timeout;
  bootstrap::HostLinkOptions meeting{options.rank,
                                     options.ranks,
                                     options.address,
                                     options.secret,
                                     bootstrap::hostIdentity(options.host),
                                     options.timeout};
  llvm::Expected<std::unique_ptr<HostLink>> link = HostLink::meet(meeting);
  if (!link)
    return link.takeError();
  Places places = findPlaces(**link);
  JoinOptions nearby;
  nearby.rank = places.nearIndex[size_t(options.rank)];
  nearby.ranks = int64_t(places.near.size());
  nearby.timeout = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now());
  nearby.member = options.member;
  const MeetingPlace place(**link, places);
  nearby.path = place.socket();
  llvm::Expected<NearProcesses> near = meetNear(std::move(nearby), options.ranks, places.near);
  if (!near)
    return near.takeError();
  const size_t numNear = places.near.size();
  auto world = std::make_shared<HostsWorld>(near->world, std::move(*link), std::move(places),
                                            std::move(options.nics));
  if (llvm::Error e = world->start())
    return e;
  auto member =
      std::make_unique<RankMember>(world, near->control, options.rank,
                                   Recording::make(options.member.flightRecorder, options.rank));
  // All or nobody: programs are compiled for one way of moving data.
  auto answers = member->exchange({near->canRead}, options.timeout);
  if (!answers)
    return answers.takeError();
  const bool all = llvm::all_of(*answers, [](const Member::Words &words) { return words[0] != 0; });
  world->setCanRead(all);
  near->world->setCanRead(all);
  const bool isOneHost = numNear == size_t(options.ranks);
  member->setDirect(all && isOneHost);
  log::info(log::Subsystem::Init, options.rank, "communicator of {} processes, {} of this host",
            options.ranks, numNear);
  return std::unique_ptr<Member>(std::move(member));
}

} // namespace ccl
