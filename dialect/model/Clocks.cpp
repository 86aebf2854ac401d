#include "dialect/model/Clocks.h"

#include <algorithm>

namespace ccl::model {

Clocks::Clocks(int64_t chains) : nodes(1) { // node 0 stands for nothing
  for (int64_t reach = fanout; reach < chains; reach *= fanout)
    ++height;
}

uint32_t Clocks::allocate(const std::array<uint32_t, fanout> &slots) {
  uint32_t node = uint32_t(nodes.size());
  if (freeNodes.empty()) {
    nodes.emplace_back();
  } else {
    node = freeNodes.back();
    freeNodes.pop_back();
  }
  nodes[node] = {1, slots};
  return node;
}

void Clocks::release(int level, uint32_t node) {
  if (--nodes[node].references > 0)
    return;
  if (level > 0)
    for (uint32_t child : nodes[node].slots)
      if (child)
        release(level - 1, child);
  freeNodes.push_back(node);
}

uint32_t Clocks::at(const Clock &clock, int64_t chain) const {
  uint32_t node = clock.root;
  for (int level = height; level > 0 && node; --level)
    node = nodes[node].slots[size_t(chain >> (bits * unsigned(level))) % fanout];
  return node ? nodes[node].slots[size_t(chain) % fanout] : 0;
}

/// Takes the reference to `node`, gives one to the result.
uint32_t Clocks::set(int level, uint32_t node, int64_t chain, uint32_t time) {
  size_t slot = size_t(chain >> (bits * unsigned(level))) % fanout;
  if (!node) {
    node = allocate({});
  } else if (nodes[node].references > 1) { // others keep theirs
    std::array<uint32_t, fanout> slots = nodes[node].slots;
    if (level > 0)
      for (uint32_t child : slots)
        if (child)
          ++nodes[child].references;
    --nodes[node].references;
    node = allocate(slots);
  }
  if (level > 0) {
    uint32_t child = set(level - 1, nodes[node].slots[slot], chain, time);
    nodes[node].slots[slot] = child; // after the call, which may move all nodes
  } else {
    nodes[node].slots[slot] = std::max(nodes[node].slots[slot], time);
  }
  return node;
}

void Clocks::set(Clock &clock, int64_t chain, uint32_t time) {
  clock.all = this;
  clock.root = set(height, clock.root, chain, time);
}

/// Gives a reference to the result.
uint32_t Clocks::join(int level, uint32_t a, uint32_t b) {
  if (a == b || !a || !b) {
    uint32_t only = a ? a : b;
    if (only)
      ++nodes[only].references;
    return only;
  }
  std::array<uint32_t, fanout> slots;
  for (unsigned i = 0; i < fanout; ++i)
    slots[i] = level > 0 ? join(level - 1, nodes[a].slots[i], nodes[b].slots[i])
                         : std::max(nodes[a].slots[i], nodes[b].slots[i]);
  // Of equal ones b: more clocks come that share with it.
  for (uint32_t same : {b, a})
    if (nodes[same].slots == slots) {
      if (level > 0)
        for (uint32_t child : slots)
          if (child)
            release(level - 1, child);
      ++nodes[same].references;
      return same;
    }
  return allocate(slots);
}

void Clocks::join(Clock &clock, const Clock &other) {
  uint32_t joined = join(height, clock.root, other.root);
  clock = Clock(this, joined);
}

bool Clocks::any(int level, uint32_t node, int64_t first,
                 const std::function<bool(int64_t)> &visit) const {
  for (unsigned i = 0; node && i < fanout; ++i) {
    uint32_t slot = nodes[node].slots[i];
    int64_t chain = first + (int64_t(i) << (bits * unsigned(level)));
    if (slot && (level > 0 ? any(level - 1, slot, chain, visit) : visit(chain)))
      return true;
  }
  return false;
}

bool Clocks::any(const Clock &clock, const std::function<bool(int64_t)> &visit) const {
  return any(height, clock.root, 0, visit);
}

} // namespace ccl::model
