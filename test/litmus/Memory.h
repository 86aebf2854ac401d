//===- Memory.h - What threads may still read, and what they know ------------===//
//
// The memory of Machine.h: messages of atomic locations, values of plain ones, and the
// views of threads and messages.
//===----------------------------------------------------------------------===//
#pragma once

#include "test/litmus/Machine.h"

namespace ccl::litmus {

constexpr size_t maxThreads = 7; // a view has a byte for a plain location
constexpr size_t maxLocations = 64;

/// Of an atomic location: the oldest message that may be read. Of a plain one, bits: the
/// last write is known (1), the last read of thread t since is known (2 << t).
using View = std::array<uint8_t, maxLocations>;

struct Message {
  int value = 0;
  bool glued = false; ///< of a read-modify-write: nothing comes between it and the one before
  View view{};
};

struct Thread {
  enum Status : uint8_t { Running, Done, Dead } status = Running;
  int pc = 0;
  std::array<int, numRegisters> registers{};
  View view{};
};

struct Hash128 {
  uint64_t low, high;
  bool operator==(const Hash128 &) const = default;
};

struct State {
  explicit State(const Model &model);

  /// Thread t has read message number `message` of x.
  void observe(int t, Location x, size_t message, Order order);
  /// Thread t puts a message at index `at` of x. `read`: what it read, if that is a
  /// read-modify-write; it may lie in another state.
  void insert(int t, Location x, size_t at, int value, Order order, const Message *read);
  /// Thread t reads or writes a plain location. Returns what it does not know of, or "".
  std::string access(int t, Location x, bool writes);
  /// Drops what nobody can read any more, so that equal states look equal.
  void forget();
  Hash128 hash() const;
  bool isAtomic(size_t x) const { return !messages[x].empty(); }

  std::vector<Thread> threads;
  std::vector<std::vector<Message>> messages; ///< by location; of plain ones none
  std::vector<int> plain;                     ///< by location

private:
  void join(View &into, const View &from) const;
};

} // namespace ccl::litmus
