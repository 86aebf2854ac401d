//===- Emitter.cpp ----------------------------------------------------------------===//
#include "test/random/Emitter.h"

#include <algorithm>

using namespace ccl::model;

namespace ccl::random {

void Emitter::emit(MoveKind kind, Place src, Place dst, int32_t count) {
  while (count > 0) {
    int32_t part = count > 1 && dice.chance(30) ? 1 + int32_t(dice.below(count)) : count;
    add(kind, src, dst, part);
    src.chunk += part;
    dst.chunk += part;
    count -= part;
  }
}

void Emitter::add(MoveKind kind, Place src, Place dst, int32_t count) {
  size_t self = moves.moves.size();
  std::set<size_t> &first = after.emplace_back();
  auto join = [&](const std::vector<size_t> &others) {
    first.insert(others.begin(), others.end());
  };
  for (int32_t i = 0; i < count; ++i) {
    History &read = at(src, i);
    join(read.copies);
    join(read.reductions);
    read.reads.push_back(self);
  }
  for (int32_t i = 0; i < count; ++i) {
    History &written = at(dst, i);
    join(written.copies);
    join(written.reads);
    if (kind == MoveKind::Copy) {
      join(written.reductions);
      written = History();
      written.copies.push_back(self);
    } else {
      written.reductions.push_back(self); // reductions commute
    }
  }
  first.erase(self);
  moves.moves.push_back({kind, src, dst, count, int32_t(self), -1});
}

void Emitter::reorder() {
  const size_t size = moves.moves.size();
  const bool shuffles = dice.chance(60), local = dice.chance(50), joins = dice.chance(50);
  std::vector<size_t> missing(size);
  std::vector<std::vector<size_t>> before(size);
  std::vector<size_t> ready;
  for (size_t i = 0; i < size; ++i) {
    missing[i] = after[i].size();
    for (size_t j : after[i])
      before[j].push_back(i);
    if (missing[i] == 0)
      ready.push_back(i);
  }
  std::vector<Move> ordered;
  for (int32_t step = 0; !ready.empty(); ++step) {
    if (shuffles)
      dice.shuffle(ready);
    // Near each other in the sequence: the moves of one unit stay together.
    if (!shuffles || local)
      std::sort(ready.begin(), ready.end());
    size_t take = joins ? 1 + size_t(dice.below(int64_t(ready.size()))) : 1;
    std::vector<size_t> taken(ready.begin(), ready.begin() + ptrdiff_t(take));
    ready.erase(ready.begin(), ready.begin() + ptrdiff_t(take));
    for (size_t i : taken) {
      ordered.push_back(moves.moves[i]);
      ordered.back().step = step;
      for (size_t j : before[i])
        if (--missing[j] == 0)
          ready.push_back(j);
    }
  }
  moves.moves = std::move(ordered);
}

} // namespace ccl::random
