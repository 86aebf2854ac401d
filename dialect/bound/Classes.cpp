//===- Classes.cpp - Sets of numbers that are joined ----------------------===//

#include "dialect/bound/Classes.h"

#include <algorithm>
#include <numeric>

namespace ccl::model {

Classes::Classes(size_t size) : parent(size), left(size) {
  std::iota(parent.begin(), parent.end(), 0);
}

int32_t Classes::find(int32_t member) {
  while (parent[size_t(member)] != member) {
    int32_t &up = parent[size_t(member)];
    member = up = parent[size_t(up)];
  }
  return member;
}

bool Classes::join(int32_t a, int32_t b) {
  a = find(a), b = find(b);
  if (a == b)
    return false;
  parent[size_t(std::max(a, b))] = std::min(a, b);
  --left;
  return true;
}

int32_t Classes::number(std::vector<int32_t> &of) {
  int32_t count = 0;
  of.resize(parent.size());
  for (size_t i = 0; i < parent.size(); ++i) {
    int32_t root = find(int32_t(i)); // the first member
    of[i] = root == int32_t(i) ? count++ : of[size_t(root)];
  }
  return count;
}

Orbits makeOrbits(const Fabric &fabric, Classes &nodes, Classes &arcs,
                  std::vector<std::vector<int32_t>> generators) {
  Orbits orbits;
  orbits.nodeOrbits = nodes.number(orbits.ofNode);
  orbits.arcOrbits = arcs.number(orbits.ofArc);
  orbits.transitive = true;
  for (int32_t rank = 1; rank < fabric.ranks; ++rank)
    orbits.transitive &= orbits.ofNode[size_t(rank)] == orbits.ofNode[0];
  orbits.generators = std::move(generators);
  return orbits;
}

} // namespace ccl::model
