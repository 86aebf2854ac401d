#include "dialect/model/Contract.h"

#include <algorithm>
#include <array>

namespace ccl::model {
namespace {

constexpr std::array<std::string_view, 12> collectiveNames = {
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",  "gather",
    "scatter",    "all_to_all", "all_to_allv",    "permute",   "barrier", "custom"};
constexpr std::array<std::string_view, 9> reductionNames = {"none", "sum",  "prod", "min", "max",
                                                            "avg",  "band", "bor",  "bxor"};
constexpr std::array<std::string_view, 4> roleNames = {"in", "out", "inout", "scratch"};

template <typename Enum, size_t n>
std::string_view nameIn(const std::array<std::string_view, n> &names, Enum value) {
  return size_t(value) < n ? names[size_t(value)] : "unknown";
}

template <typename Enum, size_t n>
std::optional<Enum> parseIn(const std::array<std::string_view, n> &names, std::string_view text) {
  auto it = std::find(names.begin(), names.end(), text);
  if (it == names.end())
    return std::nullopt;
  return Enum(it - names.begin());
}

} // namespace

std::string_view name(Collective c) { return nameIn(collectiveNames, c); }
std::string_view name(Reduction r) { return nameIn(reductionNames, r); }
std::string_view name(Role r) { return nameIn(roleNames, r); }

std::optional<Collective> parseCollective(std::string_view text) {
  return parseIn<Collective>(collectiveNames, text);
}
std::optional<Reduction> parseReduction(std::string_view text) {
  return parseIn<Reduction>(reductionNames, text);
}

bool reduces(Collective c) {
  return c == Collective::AllReduce || c == Collective::ReduceScatter || c == Collective::Reduce;
}

bool hasRoot(Collective c) {
  return c == Collective::Broadcast || c == Collective::Reduce || c == Collective::Gather ||
         c == Collective::Scatter;
}

bool isAllToAll(Collective c) { return c == Collective::AllToAll || c == Collective::AllToAllV; }

bool hasUnevenForm(Collective c) {
  switch (c) {
  case Collective::AllGather:
  case Collective::ReduceScatter:
  case Collective::Gather:
  case Collective::Scatter:
  case Collective::AllToAll:
  case Collective::AllToAllV: return true;
  default: return false;
  }
}

int64_t Contract::inShards() const {
  switch (collective) {
  case Collective::ReduceScatter:
  case Collective::Scatter:
  case Collective::AllToAll:
  case Collective::AllToAllV: return ranks;
  case Collective::Barrier: return 0;
  case Collective::Custom: return chunks > 0 ? customInChunks / chunks : 0;
  default: return 1;
  }
}

int64_t Contract::outShards() const {
  switch (collective) {
  case Collective::AllGather:
  case Collective::Gather:
  case Collective::AllToAll:
  case Collective::AllToAllV: return ranks;
  case Collective::Barrier: return 0;
  case Collective::Custom: return chunks > 0 ? customOutChunks / chunks : 0;
  default: return 1;
  }
}

int64_t Contract::inChunks() const {
  return collective == Collective::Custom ? customInChunks : inShards() * chunks;
}

int64_t Contract::outChunks() const {
  return collective == Collective::Custom ? customOutChunks : outShards() * chunks;
}

int64_t Contract::inOutChunks() const { return std::max(inChunks(), outChunks()); }

bool Contract::defines(int64_t rank, int64_t chunk) const {
  if (rank < 0 || rank >= ranks || chunk < 0 || chunk >= inChunks())
    return false;
  if (collective == Collective::Broadcast || collective == Collective::Scatter)
    return rank == root;
  return true;
}

std::optional<Atom> Contract::origin(int64_t rank, int64_t chunk) const {
  if (rank < 0 || rank >= ranks || chunk < 0 || chunk >= outChunks())
    return std::nullopt;
  switch (collective) {
  case Collective::AllReduce: return Atom{everyRank, chunk};
  case Collective::Reduce:
    return rank == root ? std::optional(Atom{everyRank, chunk}) : std::nullopt;
  case Collective::ReduceScatter: return Atom{everyRank, rank * chunks + chunk};
  case Collective::AllGather: return Atom{chunk / chunks, chunk % chunks};
  case Collective::Gather:
    return rank == root ? std::optional(Atom{chunk / chunks, chunk % chunks}) : std::nullopt;
  case Collective::Broadcast: return Atom{root, chunk};
  case Collective::Scatter: return Atom{root, rank * chunks + chunk};
  case Collective::AllToAll:
  case Collective::AllToAllV: return Atom{chunk / chunks, rank * chunks + chunk % chunks};
  case Collective::Permute: {
    auto it = std::find(targets.begin(), targets.end(), rank);
    if (it == targets.end())
      return std::nullopt;
    return Atom{it - targets.begin(), chunk};
  }
  case Collective::Barrier:
  case Collective::Custom: return std::nullopt;
  }
  return std::nullopt;
}

void Contract::expected(int64_t rank, int64_t chunk, std::vector<Atom> &out) const {
  out.clear();
  if (collective == Collective::Custom) {
    for (const Row &row : rows)
      if (row.outRank == rank && row.outChunk == chunk)
        out.push_back({row.inRank, row.inChunk});
    return;
  }
  std::optional<Atom> atom = origin(rank, chunk);
  if (!atom)
    return;
  if (atom->rank != everyRank) {
    out.push_back(*atom);
    return;
  }
  for (int64_t q = 0; q < ranks; ++q)
    out.push_back({q, atom->chunk});
}

int64_t Contract::inPosition(int64_t rank, int64_t chunk) const {
  bool gathers = collective == Collective::AllGather || collective == Collective::Gather;
  return gathers ? rank * chunks + chunk : chunk;
}

int64_t Contract::outPosition(int64_t rank, int64_t chunk) const {
  bool scatters = collective == Collective::ReduceScatter || collective == Collective::Scatter;
  return scatters ? rank * chunks + chunk : chunk;
}

/// The number of what goes from rank `from` to rank `to` in an all_to_all.
static int64_t pairOf(int64_t from, int64_t to, int64_t ranks, bool shared) {
  return shared && from > to ? to * ranks + from : from * ranks + to;
}

std::optional<int64_t> Contract::shardOf(const Atom &atom, bool shared) const {
  switch (collective) {
  case Collective::AllGather:
  case Collective::Gather: return std::max<int64_t>(atom.rank, -1);
  case Collective::ReduceScatter:
  case Collective::Scatter: return atom.chunk < 0 ? -1 : atom.chunk / chunks;
  case Collective::AllToAll:
  case Collective::AllToAllV:
    return atom.rank < 0 || atom.chunk < 0 ? -1
                                           : pairOf(atom.rank, atom.chunk / chunks, ranks, shared);
  default: return std::nullopt;
  }
}

std::optional<int64_t> Contract::shardOf(Role role, int64_t rank, int64_t chunk,
                                         bool shared) const {
  if (role == Role::Scratch || !hasUnevenForm(collective))
    return std::nullopt;
  switch (collective) {
  case Collective::AllToAll:
  case Collective::AllToAllV:
    return role == Role::Out ? pairOf(chunk / chunks, rank, ranks, shared)
                             : pairOf(rank, chunk / chunks, ranks, shared);
  default: break;
  }
  int64_t position = role == Role::In    ? inPosition(rank, chunk)
                     : role == Role::Out ? outPosition(rank, chunk)
                                         : chunk;
  return position / chunks;
}

std::optional<int64_t> Contract::chunksFor(Role role, int64_t bufferChunks) const {
  if (role == Role::Scratch || bufferChunks < 1)
    return std::nullopt;
  if (collective == Collective::Custom) {
    // The contract counts chunks itself: each is a shard of its own.
    int64_t stated = role == Role::In    ? customInChunks
                     : role == Role::Out ? customOutChunks
                                         : std::max(customInChunks, customOutChunks);
    return stated == 0 || stated == bufferChunks ? std::optional<int64_t>(1) : std::nullopt;
  }
  int64_t shards = role == Role::In    ? inShards()
                   : role == Role::Out ? outShards()
                                       : std::max(inShards(), outShards());
  if (shards < 1 || bufferChunks % shards != 0)
    return std::nullopt;
  return bufferChunks / shards;
}

std::string Contract::str() const {
  std::string text(name(collective));
  if (reduction != Reduction::None)
    text.append(" ").append(name(reduction));
  return text;
}

} // namespace ccl::model
