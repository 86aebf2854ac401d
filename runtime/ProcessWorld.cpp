//===- ProcessWorld.cpp -----------------------------------------------------===//
#include "runtime/ProcessWorld.h"

#include "runtime/Arena.h"
#include "runtime/Faults.h"
#include "runtime/Log.h"
#include "runtime/Memory.h"
#include "runtime/RankMember.h"
#include "runtime/bootstrap/Monitor.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace ccl {
namespace {

/// At the start of every arena.
struct ArenaHeader {
  std::atomic<int64_t> heartbeat{0}; ///< CLOCK_MONOTONIC, ns; stored by the monitor
  uint64_t token = 0;                ///< random; also at `probe` in its process
  uint64_t probe = 0;                ///< address of a copy of it in ordinary memory
};

constexpr uint64_t headerBytes = Arena::pageBytes;
/// Rank 0's block for the communicator of all comes first, so that all know where it is.
constexpr uint64_t firstBlock = headerBytes;
/// In World::share: an offset in an arena, not an address.
constexpr uint64_t arenaBit = uint64_t(1) << 62;

/// Takes pages for a part of `file`; 0 or an errno. Where there are too few, the system would
/// rather kill some process than refuse, so large requests look first, and again after each
/// piece: so many ranks may be at it at the same time.
int takePages(int file, uint64_t offset, uint64_t bytes, int64_t ranks) {
  constexpr uint64_t piece = uint64_t(32) << 20;
  const uint64_t rest = uint64_t(ranks) * piece;
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t length = std::min(piece, bytes - done);
    if (bytes > piece && availableMemory() < rest + (done == 0 ? bytes : length))
      return ENOMEM;
    if (fallocate(file, 0, off_t(offset + done), off_t(length)) != 0)
      return errno;
    done += length;
  }
  return 0;
}

int64_t nowNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

/// Addresses that a process of this system has: a power of two, at most 2^46. One that is limited
/// (`ulimit -v`) is not asked, as others might be told another number.
int64_t addressSpace() {
  constexpr int64_t most = int64_t(1) << 46, fewest = int64_t(1) << 32;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    return most;
  for (int64_t bytes = most; bytes > fewest; bytes /= 2) {
    void *data =
        mmap(nullptr, size_t(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED)
      continue;
    munmap(data, size_t(bytes));
    return bytes;
  }
  return fewest;
}

/// Address space is plenty, but not everywhere: sanitizers keep most of it for themselves.
int64_t arenaBytesFor(int64_t ranks) {
  if (std::string_view(CCL_SANITIZE) == "thread")
    return int64_t(1) << 30;
  return std::min(int64_t(1) << 38, addressSpace() / 2 / ranks / 4096 * 4096);
}

class Mapping {
public:
  Mapping() = default;
  Mapping(Mapping &&other) noexcept
      : data(std::exchange(other.data, nullptr)), bytes(other.bytes) {}
  Mapping &operator=(Mapping &&other) noexcept {
    std::swap(data, other.data);
    std::swap(bytes, other.bytes);
    return *this;
  }
  ~Mapping() {
    if (data)
      munmap(data, bytes);
  }
  static llvm::Expected<Mapping> map(int memory, size_t bytes, int64_t rank) {
    void *data =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory, 0);
    if (data == MAP_FAILED)
      return makeFailure(
          Failure::Machine,
          "cannot map the memory of rank {} ({} GiB of address space, of which almost "
          "nothing is used): {}{}",
          rank, bytes >> 30, std::strerror(errno), errno == ENOMEM ? "; is `ulimit -v` set?" : "");
    madvise(data, bytes, MADV_DONTDUMP);
    Mapping mapping;
    mapping.data = static_cast<char *>(data);
    mapping.bytes = bytes;
    return mapping;
  }
  char *data = nullptr;
  size_t bytes = 0;
};

class ProcessWorld;

/// The worlds of this process: a child of fork must not use them.
struct Registry {
  std::mutex mutex;
  std::vector<ProcessWorld *> worlds;
  static Registry &get() {
    static auto *registry = new Registry; // outlives every other static
    return *registry;
  }
};

class ProcessWorld final : public World {
public:
  /// The first rank makes the block of a communicator of `controlRanks`, of which the ranks that
  /// meet here are `near`.
  static llvm::Expected<std::shared_ptr<ProcessWorld>>
  create(JoinOptions &options, int64_t controlRanks, const std::vector<int64_t> &near);
  ControlBlock *firstControl() const {
    return static_cast<ControlBlock *>(reach(0, firstBlock | arenaBit));
  }
  ~ProcessWorld() override;

  llvm::Expected<Block> allocate(size_t bytes) override;
  void release(Block block, bool mayBeInUse) override;

  uint64_t share(const void *address) const override {
    if (!address)
      return 0;
    if (isMapped(address))
      return uint64_t(static_cast<const char *>(address) - own()) | arenaBit;
    return uint64_t(reinterpret_cast<uintptr_t>(address)) | KernelArgs::remoteBit;
  }
  void *reach(int64_t rank, uint64_t shared) const override {
    if (shared & arenaBit)
      return mappings[size_t(rank)].data + (shared & ~arenaBit);
    return reinterpret_cast<void *>(uintptr_t(shared));
  }
  bool isMapped(const void *address) const override {
    const char *at = static_cast<const char *>(address);
    return at >= own() && at < own() + arenaBytes;
  }
  std::string read(int64_t rank, const void *address, void *to, size_t bytes) override;

  std::optional<std::string> gone(int64_t rank) const override;
  Milliseconds silence(int64_t rank) const override;
  std::string describe(int64_t rank) const override {
    return fmt::format("process {}", pids[size_t(rank)]);
  }
  const char *unusable() const override {
    return forked.load(std::memory_order_relaxed)
               ? "this communicator belongs to the parent process: a child of fork has to open "
                 "its own"
               : nullptr;
  }
  void listen(Listener *listener) override;
  void ignore(Listener *listener) override;

  /// Whether this process may read the memory of all others.
  bool probeAll();
  ArenaHeader &header(int64_t rank) const {
    return *reinterpret_cast<ArenaHeader *>(mappings[size_t(rank)].data);
  }
  const int64_t rank;

private:
  ProcessWorld(int64_t rank, int64_t ranks, uint64_t arenaBytes)
      : rank(rank), numRanks(ranks), arenaBytes(arenaBytes), arena(headerBytes, arenaBytes),
        mappings(size_t(ranks)), pids(size_t(ranks), 0) {}
  llvm::Error makeArena();
  llvm::Error startMonitor(Meeting &meeting);
  void onGone(int64_t who, const std::string &how);
  char *own() const { return mappings[size_t(rank)].data; }
  static void childOfFork();

  const int64_t numRanks;
  const uint64_t arenaBytes;
  mutable std::mutex mutex; ///< of the arena and of its pages
  Arena arena;
  Descriptor memory; ///< of the own arena, to give pages back
  std::vector<Mapping> mappings;
  std::vector<pid_t> pids;
  uint64_t probe = 0;
  std::atomic<bool> forked{false};

  mutable std::mutex listening;
  std::vector<Listener *> listeners;
  std::map<int64_t, std::string> goners;
  std::unique_ptr<Monitor> monitor; ///< first to go: it calls into all of this
  std::unique_ptr<faults::CloseHook> closeHook;
};

//===----------------------------------------------------------------------===//
// Making
//===----------------------------------------------------------------------===//

llvm::Error ProcessWorld::makeArena() {
  memory = Descriptor(memfd_create("ccl", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory)
    return makeFailure(Failure::Machine, "cannot make shared memory (memfd_create): {}",
                       std::strerror(errno));
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < arenaBytes)
    return makeFailure(
        Failure::Machine,
        "shared memory of {} GiB (sparse) is over the limit for files: `ulimit -f` is {} bytes",
        arenaBytes >> 30, limit.rlim_cur);
  if (ftruncate(memory.get(), off_t(arenaBytes)) != 0)
    return makeFailure(Failure::Machine, "cannot size shared memory (ftruncate): {}",
                       std::strerror(errno));
  if (fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return makeFailure(Failure::Machine, "cannot seal shared memory: {}", std::strerror(errno));
  if (fallocate(memory.get(), 0, 0, off_t(headerBytes)) != 0)
    return makeFailure(Failure::Machine, "no memory for {} bytes of shared memory: {}", headerBytes,
                       std::strerror(errno));
  llvm::Expected<Mapping> mapping = Mapping::map(memory.get(), arenaBytes, rank);
  if (!mapping)
    return mapping.takeError();
  mappings[size_t(rank)] = std::move(*mapping);
  auto *header = new (own()) ArenaHeader;
  if (getrandom(&probe, sizeof probe, 0) != ssize_t(sizeof probe))
    probe = uint64_t(nowNanoseconds()) * 0x9e3779b97f4a7c15ull;
  header->token = probe;
  header->probe = uint64_t(reinterpret_cast<uintptr_t>(&probe));
  header->heartbeat.store(nowNanoseconds());
  return llvm::Error::success();
}

llvm::Error ProcessWorld::startMonitor(Meeting &meeting) {
  auto started = Monitor::start(
      meeting, [this](int64_t who, const std::string &how) { onGone(who, how); },
      [this] { header(rank).heartbeat.store(nowNanoseconds(), std::memory_order_relaxed); });
  if (!started)
    return started.takeError();
  monitor = std::move(*started);
  closeHook = std::make_unique<faults::CloseHook>([this] { monitor->closeSockets(); });
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, &ProcessWorld::childOfFork); });
  std::lock_guard lock(Registry::get().mutex);
  Registry::get().worlds.push_back(this);
  return llvm::Error::success();
}

llvm::Expected<std::shared_ptr<ProcessWorld>>
ProcessWorld::create(JoinOptions &options, int64_t controlRanks, const std::vector<int64_t> &near) {
  const int64_t arenaBytes = arenaBytesFor(options.ranks);
  std::shared_ptr<ProcessWorld> world(
      new ProcessWorld(options.rank, options.ranks, uint64_t(arenaBytes)));
  if (llvm::Error e = world->makeArena())
    return e;
  if (options.rank == 0) {
    llvm::Expected<Block> block = world->allocate(ControlBlock::size(controlRanks));
    if (!block)
      return block.takeError();
    ControlBlock *control =
        ControlBlock::create(block->data, controlRanks, options.member.slotBytes, 0);
    control->owner = int32_t(near.front());
    control->nearRanks = int32_t(near.size());
  }
  Descriptor copy(fcntl(world->memory.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy)
    return makeFailure(Failure::Machine, "no descriptor for shared memory: {}",
                       std::strerror(errno));
  llvm::Expected<Meeting> meeting = meet(options, std::move(copy), arenaBytes);
  if (!meeting)
    return meeting.takeError();
  for (int64_t r = 0; r < options.ranks; ++r) {
    world->pids[size_t(r)] = r == options.rank ? getpid() : meeting->peers[size_t(r)].pid;
    if (r == options.rank)
      continue;
    llvm::Expected<Mapping> mapping =
        Mapping::map(meeting->peers[size_t(r)].arena.get(), size_t(arenaBytes), r);
    if (!mapping)
      return mapping.takeError();
    world->mappings[size_t(r)] = std::move(*mapping);
    meeting->peers[size_t(r)].arena.reset();
  }
  if (llvm::Error e = world->startMonitor(*meeting))
    return e;
  return world;
}

ProcessWorld::~ProcessWorld() {
  {
    std::lock_guard lock(Registry::get().mutex);
    std::erase(Registry::get().worlds, this);
  }
  if (forked.load())
    (void)monitor.release(); // its thread exists in the parent only
  monitor.reset();
}

/// Descriptors that a child keeps open would hide the end of its parent from others.
void ProcessWorld::childOfFork() {
  for (ProcessWorld *world : Registry::get().worlds) {
    world->forked.store(true);
    world->monitor->closeInChild();
    world->memory.reset();
  }
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

llvm::Expected<Block> ProcessWorld::allocate(size_t bytes) {
  std::lock_guard lock(mutex);
  std::optional<uint64_t> offset;
  if (bytes <= arenaBytes)
    offset = arena.allocate(bytes);
  if (!offset)
    return makeFailure(Failure::Machine, "no room for {} bytes in shared memory of {} GiB", bytes,
                       arenaBytes >> 30);
  // Now, not at the first touch: there an error would be a SIGBUS.
  const uint64_t extent = Arena::extent(bytes);
  if (const int error = takePages(memory.get(), *offset, extent, numRanks)) {
    if (extent >= Arena::pageBytes)
      (void)fallocate(memory.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(*offset),
                      off_t(extent));
    arena.release(*offset, bytes);
    return makeFailure(Failure::Machine, "no memory for {} bytes of shared memory: {}", bytes,
                       std::strerror(error));
  }
  return Block{own() + *offset, bytes};
}

void ProcessWorld::release(Block block, bool mayBeInUse) {
  if (forked.load())
    return;
  std::lock_guard lock(mutex);
  const auto offset = uint64_t(block.data - own());
  if (Arena::extent(block.bytes) >= Arena::pageBytes)
    (void)fallocate(memory.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(offset),
                    off_t(Arena::extent(block.bytes)));
  if (!mayBeInUse)
    arena.release(offset, block.bytes);
}

std::string ProcessWorld::read(int64_t who, const void *address, void *to, size_t bytes) {
  char *at = static_cast<char *>(to);
  const char *from =
      reinterpret_cast<const char *>(reinterpret_cast<uintptr_t>(address) & ~KernelArgs::remoteBit);
  while (bytes > 0) {
    iovec mine{at, bytes}, theirs{const_cast<char *>(from), bytes};
    const ssize_t got = process_vm_readv(pids[size_t(who)], &mine, 1, &theirs, 1, 0);
    if (got <= 0) {
      if (got < 0 && errno == EINTR)
        continue;
      return fmt::format("process_vm_readv of process {}: {}", pids[size_t(who)],
                         got < 0 ? std::strerror(errno) : "nothing there");
    }
    at += got;
    from += got;
    bytes -= size_t(got);
  }
  return "";
}

bool ProcessWorld::probeAll() {
  for (int64_t r = 0; r < numRanks; ++r) {
    if (r == rank)
      continue;
    uint64_t token = 0;
    const ArenaHeader &there = header(r);
    std::string why =
        pids[size_t(r)] <= 0
            ? "its process cannot be seen from this pid namespace"
            : read(r, reinterpret_cast<const void *>(uintptr_t(there.probe)), &token, sizeof token);
    if (why.empty() && token != there.token)
      why = "its process number means another process here";
    if (why.empty())
      continue;
    log::info(log::Subsystem::Init, rank, "rank {} cannot be read directly, so data is staged: {}",
              r, why);
    return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Peers
//===----------------------------------------------------------------------===//

void ProcessWorld::onGone(int64_t who, const std::string &how) {
  std::lock_guard lock(listening);
  goners.emplace(who, how);
  for (Listener *listener : listeners)
    listener->onGone(who, how);
}

std::optional<std::string> ProcessWorld::gone(int64_t who) const {
  std::lock_guard lock(listening);
  auto found = goners.find(who);
  return found == goners.end() ? std::nullopt : std::optional(found->second);
}

void ProcessWorld::listen(Listener *listener) {
  std::lock_guard lock(listening);
  listeners.push_back(listener);
  for (const auto &[who, how] : goners)
    listener->onGone(who, how);
}

void ProcessWorld::ignore(Listener *listener) {
  std::lock_guard lock(listening);
  std::erase(listeners, listener);
}

Milliseconds ProcessWorld::silence(int64_t who) const {
  const int64_t last = header(who).heartbeat.load(std::memory_order_relaxed);
  return Milliseconds(std::max<int64_t>(0, nowNanoseconds() - last) / 1'000'000);
}

} // namespace

llvm::Expected<NearProcesses> meetNear(JoinOptions options, int64_t ranks,
                                       const std::vector<int64_t> &near) {
  auto world = ProcessWorld::create(options, ranks, near);
  if (!world)
    return world.takeError();
  NearProcesses result{*world, (*world)->firstControl(), (*world)->probeAll()};
  return result;
}

llvm::Expected<std::unique_ptr<Member>> joinProcesses(JoinOptions options) {
  if (options.rank < 0 || options.rank >= options.ranks)
    return makeFailure(Failure::BadArgument, "rank {} of {} does not exist", options.rank,
                       options.ranks);
  std::vector<int64_t> everybody(size_t(options.ranks));
  std::iota(everybody.begin(), everybody.end(), 0);
  auto world = ProcessWorld::create(options, options.ranks, everybody);
  if (!world)
    return world.takeError();
  auto member =
      std::make_unique<RankMember>(*world, (*world)->firstControl(), options.rank,
                                   Recording::make(options.member.flightRecorder, options.rank));
  // All or nobody: programs are compiled for one way of moving data.
  auto answers = member->exchange({(*world)->probeAll()}, options.timeout);
  if (!answers)
    return answers.takeError();
  const bool all = std::all_of(answers->begin(), answers->end(),
                               [](const Member::Words &words) { return words[0] != 0; });
  (*world)->setCanRead(all);
  member->setDirect(all);
  log::info(log::Subsystem::Init, options.rank,
            "communicator of {} processes, slots of {} bytes, ordinary buffers {}", options.ranks,
            options.member.slotBytes, all ? "read by process_vm_readv" : "staged");
  return std::unique_ptr<Member>(std::move(member));
}

} // namespace ccl
