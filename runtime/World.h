//===- World.h - Who the ranks are and which memory they reach ----------------===//
//
// All ranks that ever met, and the memory that each can hand out so that all others reach
// it. Communicators are groups of ranks of one world and share it. Two kinds: the threads
// of one process, and processes of one machine that map each other's arenas.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Control.h"
#include "runtime/Failure.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace ccl {

/// Memory that other ranks reach, on a cache line boundary; not initialized.
struct Block {
  char *data = nullptr;
  size_t bytes = 0;
  explicit operator bool() const { return data; }
};

class Hosts;

class World {
public:
  /// Of a communicator: hears of ranks that are gone.
  class Listener {
  public:
    virtual ~Listener() = default;
    /// On any thread.
    virtual void onGone(int64_t worldRank, const std::string &how) = 0;
  };

  virtual ~World() = default;

  /// From this rank's memory. Fails with Failure::Machine.
  virtual llvm::Expected<Block> allocate(size_t bytes) = 0;
  /// Gives it back. `mayBeInUse`: after a failure a peer might still write there, so the
  /// place is never used again (its pages are given back all the same).
  virtual void release(Block block, bool mayBeInUse) = 0;
  /// A rank has left a communicator. Its memory is given back once all have left, at this or
  /// a later call: others may still be looking something up there. The control block, if
  /// this rank `owns` it, once all have given back theirs.
  void depart(ControlBlock *control, bool owns, std::vector<Block> blocks);

  /// An address of this process as others can use it, and such a one of `rank` as this
  /// process can: mapped, or with KernelArgs::remoteBit if only `read` gets at it.
  virtual uint64_t share(const void *address) const = 0;
  virtual void *reach(int64_t rank, uint64_t shared) const = 0;
  /// Whether others reach it with plain loads and stores.
  virtual bool isMapped(const void *address) const = 0;
  /// Whether all ranks may read each other's ordinary memory, by plain loads or by `read`.
  bool canRead() const { return readable; }
  void setCanRead(bool can) { readable = can; }
  /// Copies from an unmapped address; "" or what went wrong.
  virtual std::string read(int64_t rank, const void *address, void *to, size_t bytes) = 0;

  /// How a rank is gone, if it is.
  virtual std::optional<std::string> gone(int64_t rank) const = 0;
  /// How long the process of `rank` has shown no sign of running; 0 if that is normal.
  virtual std::chrono::milliseconds silence(int64_t rank) const = 0;
  /// "process 4711", or "thread".
  virtual std::string describe(int64_t rank) const = 0;
  /// Not null: this world cannot be used (any more) and why, as after a fork.
  virtual const char *unusable() const { return nullptr; }

  /// Not null if some ranks are on other hosts: `reach` and `read` get at none of theirs.
  virtual Hosts *hosts() { return nullptr; }

  /// `listener` hears of ranks that go from now on, and now of those that went before.
  virtual void listen(Listener *listener) = 0;
  /// When it returns, the listener is not in use.
  virtual void ignore(Listener *listener) = 0;

private:
  struct Departed {
    ControlBlock *control;
    bool owns, gaveBack;
    std::vector<Block> blocks;
  };
  bool readable = false;
  std::mutex departing;
  std::vector<Departed> departed;
};

/// Threads of this process.
std::shared_ptr<World> createThreadWorld();

} // namespace ccl
