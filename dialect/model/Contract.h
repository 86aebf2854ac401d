//===- Contract.h - What a collective promises, per rank and chunk --------===//
//
// A contract is the pre- and post-condition of a collective. Every rank owns an
// `in` and an `out` buffer. Both are rows of *shards*; a shard is the unit that
// the user counts (nccl-tests' `count`), and is cut into `chunks` chunks. The
// linear chunk index k of a buffer means shard k / chunks, chunk k % chunks.
//
//   collective      in shards   out shards   out chunk k of rank r holds
//   all_reduce      1           1            sum over q of in[q][k]
//   all_gather      1           R            in[k / C][k % C]
//   reduce_scatter  R           1            sum over q of in[q][r C + k]
//   broadcast       1 (root)    1            in[root][k]
//   reduce          1           1 (root)     sum over q of in[q][k]
//   gather          1           R (root)     in[k / C][k % C]
//   scatter         R (root)    1            in[root][r C + k]
//   all_to_all      R           R            in[k / C][r C + k % C]
//   permute         1           1            in[p][k] where targets[p] == r
//   barrier         0           0            nothing
//
// (R = ranks, C = chunks.) No MLIR here.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ccl::model {

enum class Collective : uint32_t {
  AllReduce,
  AllGather,
  ReduceScatter,
  Broadcast,
  Reduce,
  Gather,
  Scatter,
  AllToAll,
  AllToAllV,
  Permute,
  Barrier,
  Custom
};
enum class Reduction : uint32_t { None, Sum, Prod, Min, Max, Avg, Band, Bor, Bxor };
enum class Role : uint32_t { In, Out, InOut, Scratch };

/// The names are those of the assembly: "all_reduce", "sum", "inout".
std::string_view name(Collective c);
std::string_view name(Reduction r);
std::string_view name(Role r);
std::optional<Collective> parseCollective(std::string_view text);
std::optional<Reduction> parseReduction(std::string_view text);
/// Whether the collective combines contributions (and so needs a reduction).
bool reduces(Collective c);
/// Whether one rank is special.
bool hasRoot(Collective c);
/// all_to_all under either name.
bool isAllToAll(Collective c);
/// Whether a launch may give every shard a length of its own (all_to_all: every shard of
/// every rank). The other collectives have one shard, or none.
bool hasUnevenForm(Collective c);

/// One contribution: chunk `chunk` of the input of rank `rank`.
struct Atom {
  int64_t rank;
  int64_t chunk;
  friend bool operator==(const Atom &, const Atom &) = default;
};

class Contract {
public:
  Collective collective = Collective::AllReduce;
  Reduction reduction = Reduction::None;
  int64_t ranks = 1;
  int64_t chunks = 1; ///< chunks per shard
  int64_t root = 0;
  std::vector<int64_t> targets; ///< permute: rank p sends to targets[p]

  /// Custom: rows (out rank, out chunk, in rank, in chunk); rows with the same
  /// out place add up. Without rows nothing is promised (`isUnchecked`).
  struct Row {
    int64_t outRank, outChunk, inRank, inChunk;
  };
  std::vector<Row> rows;
  /// Linear chunks, each a shard of its own (`chunks` is 1). 0: as the buffers are.
  int64_t customInChunks = 0, customOutChunks = 0;

  bool isUnchecked() const { return collective == Collective::Custom && rows.empty(); }

  int64_t inShards() const;
  int64_t outShards() const;
  /// Linear chunks of every rank's `in` and `out`.
  int64_t inChunks() const;
  int64_t outChunks() const;
  /// Chunks of an `inout` buffer: the larger of both.
  int64_t inOutChunks() const;

  /// Whether `in[chunk]` of `rank` holds data at entry.
  bool defines(int64_t rank, int64_t chunk) const;
  /// What `out[chunk]` of `rank` must hold at exit: every contribution exactly
  /// once. Empty: nothing is promised about this place. `out` is overwritten.
  void expected(int64_t rank, int64_t chunk, std::vector<Atom> &out) const;
  /// The same in one word, of every collective but custom: the one contribution, or
  /// with rank `everyRank` that of each rank. Nothing: nothing is promised.
  std::optional<Atom> origin(int64_t rank, int64_t chunk) const;
  static constexpr int64_t everyRank = -1;

  /// In place, and for `inout` buffers: the place in the larger buffer that
  /// `in[chunk]` and `out[chunk]` of `rank` occupy.
  int64_t inPosition(int64_t rank, int64_t chunk) const;
  int64_t outPosition(int64_t rank, int64_t chunk) const;

  /// What the length of a shard belongs to in an uneven launch: of gathers and scatters the
  /// number of the shard, the same on every rank; of all_to_all the pair of ranks that it
  /// goes between. Numbers are in [0, ranks * ranks); chunks of equal number and equal place
  /// in their shard are of equal length, whatever the launch. Nothing: there is no uneven form.
  /// -1: the atom's rank or chunk is negative (unknown), and would tell.
  /// `shared`: `in` and `out` are one memory, or `inout`; then a launch of all_to_all sends as
  /// much from q to p as from p to q, and both have one number.
  std::optional<int64_t> shardOf(const Atom &atom, bool shared = false) const;
  /// The same of a place of a buffer with this role; nothing of scratch.
  std::optional<int64_t> shardOf(Role role, int64_t rank, int64_t chunk, bool shared = false) const;

  /// Chunks per shard that follow from the size of a buffer with this role, or
  /// nothing if `bufferChunks` is no multiple of the number of shards.
  std::optional<int64_t> chunksFor(Role role, int64_t bufferChunks) const;

  /// "all_reduce sum", for messages.
  std::string str() const;
};

/// Start of chunk `c` when `count` elements are cut into `chunks` chunks.
constexpr int64_t chunkStart(int64_t c, int64_t count, int64_t chunks) {
  return c * count / chunks;
}
/// Start of linear chunk k: its shard begins at (k / chunks) * count.
constexpr int64_t linearStart(int64_t k, int64_t count, int64_t chunks) {
  return k / chunks * count + chunkStart(k % chunks, count, chunks);
}
/// The longest chunk.
constexpr int64_t longestChunk(int64_t count, int64_t chunks) {
  return (count + chunks - 1) / chunks;
}
} // namespace ccl::model
