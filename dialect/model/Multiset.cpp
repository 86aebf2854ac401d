#include "dialect/model/Multiset.h"

#include <fmt/format.h>

#include <algorithm>

namespace ccl::model {
namespace {

uint64_t mix(uint64_t x) { // the finalizer of MurmurHash3
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

/// Multiplicities of unchecked programs can double with every move.
constexpr int64_t timesLimit = int64_t(1) << 40;

} // namespace

Multisets::Multisets(int64_t ranks, int64_t chunksPerShard)
    : ranks(ranks), chunksPerShard(chunksPerShard), index(1 << 10), unions(1 << 10) {
  sets.push_back({0, 0, 0, 0, mixed, mixed, mixed}); // nothing
  sets.push_back({0, 0, 0, 0, mixed, mixed, mixed}); // poison
}

Contents Multisets::atom(Atom atom) {
  int64_t linear = atom.chunk * ranks + atom.rank;
  built.assign(1, {linear, linear + 1, 1});
  return intern(atom.chunk % chunksPerShard);
}

Contents Multisets::ofEveryRank(int64_t chunk) {
  built.assign(1, {chunk * ranks, (chunk + 1) * ranks, 1});
  return intern(chunk % chunksPerShard);
}

Contents Multisets::unite(Contents a, Contents b) {
  if (a == poison || b == poison)
    return poison;
  if (a == nothing || b == nothing)
    return std::max(a, b);
  if (a > b)
    std::swap(a, b);
  if (numUnions * 2 >= unions.size())
    growUnions();
  uint64_t key = uint64_t(a) << 32 | b;
  size_t mask = unions.size() - 1, slot = mix(key) & mask;
  for (; unions[slot].key; slot = (slot + 1) & mask)
    if (unions[slot].key == key)
      return unions[slot].result;
  combine(a, b, 1);
  bool same = lengthClass(a) == lengthClass(b);
  Contents result = intern(same ? lengthClass(a) : mixed);
  unions[slot] = {key, result};
  ++numUnions;
  return result;
}

Contents Multisets::minus(Contents a, Contents b) {
  if (a == poison || b == poison)
    return poison;
  combine(a, b, -1);
  return intern(lengthClass(a));
}

Contents Multisets::distinct(Contents a) {
  built.clear();
  for (size_t i = 0; i < sets[a].count; ++i)
    append(runs[sets[a].first + i].begin, runs[sets[a].first + i].end, 1);
  return intern(lengthClass(a));
}

Contents Multisets::renamed(Contents a, const ChunkMap &chunkOf, const RankMap &ranksOf) {
  if (a == nothing || a == poison)
    return a;
  std::vector<Run> moved;
  Intervals intervals;
  int64_t first = -1;
  for (size_t i = 0; i < sets[a].count; ++i) {
    const Run run = runs[sets[a].first + i];
    for (int64_t begin = run.begin; begin < run.end;) {
      int64_t chunk = begin / ranks, base = chunk * ranks;
      int64_t end = std::min(run.end, base + ranks), to = chunkOf(chunk);
      first = first < 0 ? to : first;
      intervals.clear();
      ranksOf(begin - base, end - base, intervals);
      for (auto [low, high] : intervals)
        moved.push_back({to * ranks + low, to * ranks + high, run.times});
      begin = end;
    }
  }
  std::sort(moved.begin(), moved.end(),
            [](const Run &x, const Run &y) { return x.begin < y.begin; });
  built.clear();
  for (const Run &run : moved)
    append(run.begin, run.end, run.times);
  return intern(lengthClass(a) == mixed ? mixed : first % chunksPerShard);
}

int64_t Multisets::size(Contents a) const {
  int64_t total = 0;
  for (size_t i = 0; i < sets[a].count; ++i)
    total += runs[sets[a].first + i].end - runs[sets[a].first + i].begin;
  return total;
}

Atom Multisets::front(Contents a) const {
  int64_t linear = runs[sets[a].first].begin;
  return {linear % ranks, linear / ranks};
}

std::string Multisets::atomName(int64_t linear, int64_t times) const {
  std::string text = fmt::format("{}.{}", linear % ranks, linear / ranks);
  return times == 1 ? text : fmt::format("{} x{}", text, times);
}

std::string Multisets::str(Contents a) const {
  constexpr int64_t shown = 8; // more than so many: the first two and the last
  if (sets[a].count == 0)
    return "nothing";
  int64_t total = size(a), limit = total > shown ? 2 : total, done = 0;
  std::string text = "{";
  for (size_t i = 0; i < sets[a].count && done < limit; ++i) {
    const Run &run = runs[sets[a].first + i];
    for (int64_t atom = run.begin; atom < run.end && done < limit; ++atom, ++done)
      text.append(done ? ", " : "").append(atomName(atom, run.times));
  }
  if (limit == total)
    return text + "}";
  const Run &last = runs[sets[a].first + sets[a].count - 1];
  return fmt::format("{}, ... {}}} ({})", text, atomName(last.end - 1, last.times), total);
}

void Multisets::append(int64_t begin, int64_t end, int64_t times) {
  if (times <= 0)
    return;
  times = std::min(times, timesLimit);
  if (!built.empty() && built.back().end == begin && built.back().times == times)
    built.back().end = end;
  else
    built.push_back({begin, end, times});
}

/// Leaves a + b (sign 1) or the positive part of a - b (sign -1) in `built`.
void Multisets::combine(Contents a, Contents b, int64_t sign) {
  built.clear();
  size_t i = sets[a].first, endA = i + sets[a].count;
  size_t j = sets[b].first, endB = j + sets[b].count;
  Run left = i < endA ? runs[i] : Run{}, right = j < endB ? runs[j] : Run{};
  auto nextLeft = [&] { left = ++i < endA ? runs[i] : Run{}; };
  auto nextRight = [&] { right = ++j < endB ? runs[j] : Run{}; };
  while (i < endA || j < endB) {
    if (j == endB || (i < endA && left.end <= right.begin)) {
      append(left.begin, left.end, left.times);
      nextLeft();
    } else if (i == endA || right.end <= left.begin) {
      append(right.begin, right.end, sign * right.times);
      nextRight();
    } else if (left.begin < right.begin) {
      append(left.begin, right.begin, left.times);
      left.begin = right.begin;
    } else if (right.begin < left.begin) {
      append(right.begin, left.begin, sign * right.times);
      right.begin = left.begin;
    } else {
      int64_t end = std::min(left.end, right.end);
      append(left.begin, end, left.times + sign * right.times);
      left.begin = right.begin = end;
      if (left.end == end)
        nextLeft();
      if (right.end == end)
        nextRight();
    }
  }
}

/// The number of what is in `built`.
Contents Multisets::intern(int64_t lengthClass) {
  if (built.empty())
    return nothing;
  uint64_t hash = built.size();
  int64_t mostTimes = 0;
  for (const Run &run : built) {
    hash = mix(hash * 31 + uint64_t(run.begin));
    hash = mix(hash ^ (uint64_t(run.end) << 8) ^ uint64_t(run.times));
    mostTimes = std::max(mostTimes, run.times);
  }
  if (sets.size() * 2 >= index.size())
    growIndex();
  size_t mask = index.size() - 1, slot = hash & mask;
  for (; index[slot]; slot = (slot + 1) & mask) {
    const Set &set = sets[index[slot]];
    if (set.hash == hash && set.count == built.size() &&
        std::equal(built.begin(), built.end(), runs.begin() + ptrdiff_t(set.first)))
      return index[slot];
  }
  index[slot] = Contents(sets.size());
  const int64_t row = ranks * chunksPerShard;
  int64_t rank = built.front().begin % ranks, shard = built.front().begin / row;
  for (const Run &run : built) {
    if (run.begin % ranks != rank || (run.end - run.begin > 1 && ranks > 1))
      rank = mixed;
    if (run.begin / row != shard || (run.end - 1) / row != shard)
      shard = mixed;
  }
  sets.push_back({runs.size(), built.size(), hash, mostTimes, lengthClass, rank, shard});
  runs.insert(runs.end(), built.begin(), built.end());
  return index[slot];
}

void Multisets::growIndex() {
  index.assign(index.size() * 4, 0);
  size_t mask = index.size() - 1;
  for (size_t id = poison + 1; id < sets.size(); ++id) {
    size_t slot = sets[id].hash & mask;
    while (index[slot])
      slot = (slot + 1) & mask;
    index[slot] = Contents(id);
  }
}

void Multisets::growUnions() {
  std::vector<Union> old(unions.size() * 4);
  old.swap(unions);
  size_t mask = unions.size() - 1;
  for (const Union &entry : old) {
    if (!entry.key)
      continue;
    size_t slot = mix(entry.key) & mask;
    while (unions[slot].key)
      slot = (slot + 1) & mask;
    unions[slot] = entry;
  }
}

} // namespace ccl::model
