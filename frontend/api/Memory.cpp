//===- Memory.cpp - Symmetric memory, given out and back ------------------------------===//
#include "frontend/api/Border.h"
#include "frontend/api/State.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ccl {
inline namespace jit {

struct [[gnu::visibility("hidden")]] Memory::Impl {
  std::shared_ptr<Communicator::Impl> communicator;
  uint64_t number;
  SymmetricBuffer buffer;
  size_t bytes; ///< as asked for

  ~Impl() {
    if (!buffer.local)
      return; // nothing came of it
    std::lock_guard lock(communicator->blocksMutex);
    try {
      communicator->freeBlocks.push_back({number, std::move(buffer)});
    } catch (const std::bad_alloc &) {
      // It is handed out no more, and goes with the communicator.
    }
  }
};

Memory::Memory(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Memory::Memory(Memory &&) noexcept = default;
Memory &Memory::operator=(Memory &&) noexcept = default;
Memory::~Memory() = default;

void *Memory::data() const { return impl ? impl->buffer.local : nullptr; }
size_t Memory::size() const { return impl ? impl->bytes : 0; }
void *Memory::peer(int rank) const {
  if (!impl || rank < 0 || size_t(rank) >= impl->buffer.peers.size())
    return nullptr;
  return impl->buffer.peers[size_t(rank)];
}

namespace {

/// What one rank says before the ranks choose a block: how much it wants, and which of its
/// free blocks would do.
struct Offer {
  uint64_t bytes = 0;
  std::array<uint64_t, 5> numbers{}; ///< ascending; 0: no more

  Member::Words words() const {
    return {bytes, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]};
  }
  static Offer of(const Member::Words &words) {
    return {words[0], {words[1], words[2], words[3], words[4], words[5]}};
  }
  bool has(uint64_t number) const {
    return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
  }
};

Offer makeOffer(Communicator::Impl &communicator, uint64_t bytes) {
  Offer offer{bytes, {}};
  std::lock_guard lock(communicator.blocksMutex);
  auto &blocks = communicator.freeBlocks;
  std::sort(blocks.begin(), blocks.end(),
            [](const auto &a, const auto &b) { return a.number < b.number; });
  size_t count = 0;
  for (const auto &block : blocks)
    if (uint64_t(block.buffer.bytes) == bytes && count < offer.numbers.size())
      offer.numbers[count++] = block.number;
  return offer;
}

/// The first block that all can give, or 0. If they want different sizes, that is for
/// Member::allocate to tell.
uint64_t choose(const std::vector<Member::Words> &all) {
  const Offer first = Offer::of(all.front());
  for (uint64_t number : first.numbers)
    if (number && std::all_of(all.begin(), all.end(), [&](const Member::Words &words) {
          Offer other = Offer::of(words);
          return other.bytes == first.bytes && other.has(number);
        }))
      return number;
  return 0;
}

SymmetricBuffer take(Communicator::Impl &communicator, uint64_t number) {
  std::lock_guard lock(communicator.blocksMutex);
  auto &blocks = communicator.freeBlocks;
  auto found = std::find_if(blocks.begin(), blocks.end(),
                            [&](const auto &block) { return block.number == number; });
  SymmetricBuffer buffer = std::move(found->buffer);
  blocks.erase(found);
  return buffer;
}

} // namespace

Result<Memory> Communicator::allocate(size_t bytes, std::chrono::milliseconds timeout) {
  return guarded([&]() -> Result<Memory> {
    if (std::optional<Error> error = Impl::refuse(impl, timeout))
      return *error;
    constexpr size_t most = size_t(1) << 46, page = 4096;
    if (bytes > most)
      return argumentError(fmt::format("{} bytes of memory: the limit is {}", bytes, most));
    const Milliseconds limit = impl->limit(timeout);
    const size_t rounded = std::max(page, (bytes + page - 1) / page * page);
    // Before anything is agreed on: what could fail for lack of memory.
    std::unique_ptr<Memory::Impl> memory(new Memory::Impl{impl, 0, SymmetricBuffer(), bytes});
    Turn turn(impl->turns);
    auto offers = impl->member->exchange(makeOffer(*impl, rounded).words(), limit);
    if (!offers)
      return toError(offers.takeError());
    if (uint64_t number = choose(*offers)) {
      memory->number = number;
      memory->buffer = take(*impl, number);
      return Memory(std::move(memory));
    }
    auto buffer = impl->member->allocate(int64_t(rounded), limit);
    if (!buffer)
      return toError(buffer.takeError());
    memory->number = impl->nextBlock++;
    memory->buffer = std::move(*buffer);
    return Memory(std::move(memory));
  });
}

} // namespace jit
} // namespace ccl
