//===- WireChannel.cpp --------------------------------------------------------===//
#include "runtime/rdma/WireChannel.h"

#include <algorithm>

namespace ccl::rdma {

WireEnd::WireEnd(const ChannelKey &key, bool to, int64_t slotBytes, char *slots, uint64_t *counters)
    : key(key) {
  end.slots = slots;
  end.slotBytes = key.slots > 0 ? slotBytes : 0;
  end.numSlots = key.slots;
  end.tag = key.tag;
  end.arrive = counters;
  end.depart = counters + cacheLine / sizeof(uint64_t);
  end.peer = to ? key.destination : key.source;
  end.to = to;
}

bool OutEnd::publish(const std::vector<uint64_t> &done, bool &progress) {
  for (; sent != taken; ++sent) {
    const uint64_t *needed = lastsOf(sent);
    bool isDone = true;
    for (size_t stripe = 0; stripe < templates.size(); ++stripe)
      isDone &= int64_t(done[stripe] - needed[stripe]) >= 0;
    if (!isDone)
      break;
  }
  for (size_t word = 0; word < creditWords; ++word) {
    const uint64_t told = __atomic_load_n(freed + word, __ATOMIC_ACQUIRE);
    if (int64_t(told - credit) > 0)
      credit = told;
  }
  if (int64_t(credit - taken) > 0)
    return false;
  // By difference: what is freed and sent may be seen in either order.
  const uint64_t now = int64_t(credit - sent) < 0 ? credit : sent;
  if (now != free) {
    arrive(free = now);
    progress = true;
  }
  return true;
}

bool InEnd::receive(size_t stripe, uint32_t messages, bool part) {
  if (end.numSlots == 0) {
    if (stripe != 0 || part)
      return false;
    filled += messages;
    arrive(filled);
    return true;
  }
  if (messages != 1 || stripe >= parts.size() || (stripe > 0 && !part))
    return false;
  if (stripe > 0) {
    if (++parts[stripe] - cuts > uint64_t(end.numSlots))
      return false;
  } else {
    if (came - told >= uint64_t(end.numSlots))
      return false;
    isCut[size_t(came % uint64_t(end.numSlots))] = part;
    ++came;
  }
  advance();
  return true;
}

void InEnd::advance() {
  const uint64_t before = filled;
  for (; filled != came; ++filled) {
    if (!isCut[size_t(filled % uint64_t(end.numSlots))])
      continue;
    if (!std::all_of(parts.begin() + 1, parts.end(),
                     [&](uint64_t number) { return int64_t(number - cuts) > 0; }))
      break;
    ++cuts;
  }
  if (filled != before)
    arrive(filled);
}

} // namespace ccl::rdma
