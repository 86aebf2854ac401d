//===- ThreadWorld.cpp - Ranks as threads of one process ---------------------===//
#include "runtime/World.h"

#include <algorithm>
#include <new>
#include <unordered_set>

namespace ccl {
namespace {

/// Everything is mapped, nobody goes away: memory comes from the heap.
class ThreadWorld final : public World {
public:
  ThreadWorld() { setCanRead(true); }
  ~ThreadWorld() override {
    for (void *block : all)
      ::operator delete(block, std::align_val_t(cacheLine));
  }

  llvm::Expected<Block> allocate(size_t bytes) override {
    bytes = std::max<size_t>(bytes, 1);
    void *data = ::operator new(bytes, std::align_val_t(cacheLine), std::nothrow);
    if (!data)
      return makeFailure(Failure::Machine, "no memory for {} bytes", bytes);
    std::lock_guard lock(mutex);
    all.insert(data);
    return Block{static_cast<char *>(data), bytes};
  }
  void release(Block block, bool mayBeInUse) override {
    if (mayBeInUse)
      return; // when the world ends, no thread uses it any more
    std::lock_guard lock(mutex);
    all.erase(block.data);
    ::operator delete(block.data, std::align_val_t(cacheLine));
  }
  uint64_t share(const void *address) const override {
    return uint64_t(reinterpret_cast<uintptr_t>(address));
  }
  void *reach(int64_t, uint64_t shared) const override {
    return reinterpret_cast<void *>(uintptr_t(shared));
  }
  bool isMapped(const void *) const override { return true; }
  std::string read(int64_t, const void *, void *, size_t) override {
    return "threads share all memory";
  }

  std::optional<std::string> gone(int64_t) const override { return std::nullopt; }
  std::chrono::milliseconds silence(int64_t) const override { return {}; }
  std::string describe(int64_t) const override { return "thread"; }
  void listen(Listener *) override {}
  void ignore(Listener *) override {}

private:
  std::mutex mutex;
  std::unordered_set<void *> all; ///< what was not released
};

} // namespace

std::shared_ptr<World> createThreadWorld() { return std::make_shared<ThreadWorld>(); }

} // namespace ccl
