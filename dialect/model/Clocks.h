//===- Clocks.h - How much of every chain is known to have happened -------------===//
//
// A vector clock (Mattern, Fidge) maps chains of events to how many of their events are known to
// have happened. One array for each agent would cost agents x agents; here a clock is a persistent
// tree, whose parts clocks share as long as they agree. Telling somebody costs a reference, a join
// only what differs, and a clock that is let go frees what nobody else has.
//===----------------------------------------------------------------------===//
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace ccl::model {

class Clocks {
public:
  /// Of chains [0, `chains`).
  explicit Clocks(int64_t chains);
  Clocks(const Clocks &) = delete;
  Clocks &operator=(const Clocks &) = delete;

  /// A value; must not outlive its `Clocks`. Knows nothing to begin with.
  class Clock {
  public:
    Clock() = default;
    Clock(const Clock &other) : all(other.all), root(other.root) { retain(); }
    Clock(Clock &&other) noexcept : all(other.all), root(std::exchange(other.root, 0)) {}
    Clock &operator=(Clock other) noexcept {
      std::swap(all, other.all);
      std::swap(root, other.root);
      return *this;
    }
    ~Clock() {
      if (root)
        all->release(all->height, root);
    }

  private:
    friend class Clocks;
    Clock(Clocks *all, uint32_t root) : all(all), root(root) {}
    void retain() const {
      if (root)
        ++all->nodes[root].references;
    }
    Clocks *all = nullptr;
    uint32_t root = 0; ///< 0: nothing is known
  };

  /// How many events of `chain` are known.
  uint32_t at(const Clock &clock, int64_t chain) const;
  /// Of `chain`, `time` events are known from now on. Time does not go back.
  void set(Clock &clock, int64_t chain, uint32_t time);
  /// What either knows.
  void join(Clock &clock, const Clock &other);
  /// Calls `visit(chain)` for every chain of which something is known, until it is true;
  /// whether it was.
  bool any(const Clock &clock, const std::function<bool(int64_t chain)> &visit) const;
  /// Memory in use, for tests: nodes that are not free.
  size_t numNodes() const { return nodes.size() - 1 - freeNodes.size(); }

private:
  static constexpr unsigned fanout = 8, bits = 3;
  /// On level 0 a node has times, above children.
  struct Node {
    uint32_t references = 0;
    std::array<uint32_t, fanout> slots{};
  };

  uint32_t allocate(const std::array<uint32_t, fanout> &slots);
  void release(int level, uint32_t node);
  uint32_t join(int level, uint32_t a, uint32_t b);
  uint32_t set(int level, uint32_t node, int64_t chain, uint32_t time);
  bool any(int level, uint32_t node, int64_t first,
           const std::function<bool(int64_t)> &visit) const;

  int height = 0; ///< level of the roots
  std::vector<Node> nodes;
  std::vector<uint32_t> freeNodes;
};

} // namespace ccl::model
