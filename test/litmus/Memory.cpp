//===- Memory.cpp -------------------------------------------------------------===//
#include "test/litmus/Memory.h"

#include <algorithm>
#include <cassert>

namespace ccl::litmus {
namespace {

bool acquires(Order order) { return order == Order::Acquire || order == Order::AcqRel; }
bool releases(Order order) { return order == Order::Release || order == Order::AcqRel; }

/// Two independent multiply-and-rotate hashes over the same words.
class Hasher {
public:
  void add(uint64_t word) {
    low = mix(low ^ word, 0x9e3779b97f4a7c15u);
    high = mix(high ^ word, 0xd6e8feb86659fd93u);
  }
  Hash128 get() const { return {low, high}; }

private:
  static uint64_t mix(uint64_t x, uint64_t factor) {
    x *= factor;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 32);
  }
  uint64_t low = 1, high = 2;
};

} // namespace

State::State(const Model &model) {
  assert(model.locations.size() <= maxLocations && model.threads.size() <= maxThreads);
  threads.resize(model.threads.size());
  messages.resize(model.locations.size());
  plain.resize(model.locations.size());
  for (size_t x = 0; x < plain.size(); ++x) {
    if (model.locations[x].isAtomic)
      messages[x].push_back({model.locations[x].initial, false, {}});
    else
      plain[x] = model.locations[x].initial;
    for (Thread &thread : threads)
      thread.view[x] = model.locations[x].isAtomic ? 0 : 0xff;
  }
}

void State::join(View &into, const View &from) const {
  for (size_t x = 0; x < plain.size(); ++x)
    into[x] = isAtomic(x) ? std::max(into[x], from[x]) : uint8_t(into[x] | from[x]);
}

void State::observe(int t, Location x, size_t message, Order order) {
  View &view = threads[size_t(t)].view;
  view[size_t(x)] = uint8_t(message);
  if (acquires(order))
    join(view, messages[size_t(x)][message].view);
}

void State::insert(int t, Location x, size_t at, int value, Order order, const Message *read) {
  Message message{value, read != nullptr, {}};
  if (read)
    message.view = read->view;
  auto shift = [&](View &view) {
    if (view[size_t(x)] >= at)
      ++view[size_t(x)];
  };
  for (Thread &thread : threads)
    shift(thread.view);
  for (auto &others : messages)
    for (Message &other : others)
      shift(other.view);
  shift(message.view);
  View &view = threads[size_t(t)].view;
  view[size_t(x)] = uint8_t(at);
  if (releases(order))
    join(message.view, view);
  message.view[size_t(x)] = uint8_t(at);
  auto &list = messages[size_t(x)];
  list.insert(list.begin() + long(at), message);
}

std::string State::access(int t, Location x, bool writes) {
  View &view = threads[size_t(t)].view;
  const uint8_t own = uint8_t(2u << t), known = view[size_t(x)];
  if (!(known & 1))
    return "the last write of it";
  if (writes && known != 0xff)
    return "a read of it";
  // A new event, which nobody else knows of. After a write the reads before it are history.
  auto happen = [&](View &other) {
    uint8_t &bits = other[size_t(x)];
    bits = writes ? uint8_t(0xfe) : uint8_t(bits & ~own);
  };
  for (Thread &other : threads)
    happen(other.view);
  for (auto &list : messages)
    for (Message &message : list)
      happen(message.view);
  view[size_t(x)] = writes ? uint8_t(0xff) : uint8_t(known | own);
  return "";
}

void State::forget() {
  for (Thread &thread : threads)
    if (thread.status != Thread::Running)
      thread.view = {};
  for (size_t x = 0; x < plain.size(); ++x) {
    if (!isAtomic(x))
      continue;
    auto &list = messages[x];
    size_t oldest = list.size() - 1;
    for (const Thread &thread : threads)
      if (thread.status == Thread::Running)
        oldest = std::min(oldest, size_t(thread.view[x]));
    if (oldest == 0)
      continue;
    list.erase(list.begin(), list.begin() + long(oldest));
    list.front().glued = false;
    auto rebase = [&](View &view) {
      view[x] = uint8_t(std::max(size_t(view[x]), oldest) - oldest);
    };
    for (Thread &thread : threads)
      rebase(thread.view);
    for (auto &others : messages)
      for (Message &other : others)
        rebase(other.view);
  }
}

Hash128 State::hash() const {
  Hasher hasher;
  auto addView = [&](const View &view) {
    for (size_t x = 0; x < plain.size(); x += 8) {
      uint64_t word = 0;
      for (size_t y = x; y < std::min(x + 8, plain.size()); ++y)
        word = word << 8 | view[y];
      hasher.add(word);
    }
  };
  for (const Thread &thread : threads) {
    hasher.add(uint64_t(thread.status) << 32 | uint64_t(thread.pc));
    for (int value : thread.registers)
      hasher.add(uint64_t(value));
    addView(thread.view);
  }
  for (size_t x = 0; x < plain.size(); ++x) {
    hasher.add(messages[x].size() << 32 ^ uint64_t(uint32_t(plain[x])));
    for (const Message &message : messages[x]) {
      hasher.add(uint64_t(uint32_t(message.value)) << 1 | message.glued);
      addView(message.view);
    }
  }
  return hasher.get();
}

} // namespace ccl::litmus
