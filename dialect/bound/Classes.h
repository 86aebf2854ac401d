//===- Classes.h - Sets of numbers that are joined ------------------------===//
#pragma once

#include "dialect/bound/Fabric.h"

namespace ccl::model {

class Classes {
public:
  explicit Classes(size_t size);
  int32_t find(int32_t member);
  /// Whether they were apart.
  bool join(int32_t a, int32_t b);
  size_t count() const { return left; }
  /// Numbers them by first member. How many there are.
  int32_t number(std::vector<int32_t> &of);

private:
  std::vector<int32_t> parent;
  size_t left; ///< classes
};

/// What automorphisms that joined `nodes` and `arcs` make of the fabric.
Orbits makeOrbits(const Fabric &fabric, Classes &nodes, Classes &arcs,
                  std::vector<std::vector<int32_t>> generators);

} // namespace ccl::model
