//===- Text.cpp - Random algorithms as MLIR text -----------------------------------===//
#include "test/random/Algorithms.h"

#include <fmt/format.h>

using namespace ccl::model;

namespace ccl::random {
namespace {

/// One index of a move as a function of a loop's variable.
struct Index {
  int64_t start = 0, step = 0, mod = 0; ///< mod 0: none
  int64_t at(int64_t i) const { return mod ? (start + step * i) % mod : start + step * i; }
  std::string str() const {
    if (step == 0)
      return std::to_string(start);
    std::string sum = step == 1 ? "%i" : fmt::format("%i * {}", step);
    if (start != 0)
      sum += fmt::format(" + {}", start);
    return mod ? fmt::format("({}) mod {}", sum, mod) : sum;
  }
};

class Writer {
public:
  explicit Writer(const Algorithm &algorithm)
      : contract(algorithm.contract), moves(algorithm.moves), seed(algorithm.seed) {}
  std::string write();

private:
  static constexpr int numIndices = 4;
  int64_t value(const Move &move, int index) const {
    const int64_t values[] = {move.src.rank, move.src.chunk, move.dst.rank, move.dst.chunk};
    return values[index];
  }
  /// Fits all of moves [begin, end), or not.
  bool fit(size_t begin, size_t end, Index indices[numIndices]) const;
  size_t endOfStep(size_t begin) const;
  void move(const Move &move, const Index indices[numIndices], int indent);
  void plain(const Move &m, int indent);
  void step(size_t begin, size_t end);
  size_t sequence(size_t begin);
  std::string contractText() const;
  void line(int indent, const std::string &text) {
    out += std::string(size_t(indent), ' ') + text + "\n";
  }

  const Contract &contract;
  const Moves &moves;
  uint64_t seed;
  std::string out;
};

} // namespace

std::string Writer::contractText() const {
  std::string text(name(contract.collective));
  if (contract.reduction != Reduction::None)
    text += fmt::format(", {}", name(contract.reduction));
  if (hasRoot(contract.collective))
    text += fmt::format(", root = {}", contract.root);
  if (contract.collective == Collective::Permute)
    text += fmt::format(", to = [{}]", fmt::join(contract.targets, ", "));
  if (contract.collective != Collective::Custom)
    return text;
  std::vector<std::string> rows;
  for (const Contract::Row &row : contract.rows)
    rows.push_back(
        fmt::format("{}, {}, {}, {}", row.outRank, row.outChunk, row.inRank, row.inChunk));
  return fmt::format("{}, in = {}, out = {}, rows = [{}]", text, contract.customInChunks,
                     contract.customOutChunks, fmt::join(rows, ", "));
}

bool Writer::fit(size_t begin, size_t end, Index indices[numIndices]) const {
  const Move &first = moves.moves[begin];
  for (size_t i = begin; i < end; ++i) {
    const Move &m = moves.moves[i];
    if (m.kind != first.kind || m.count != first.count || m.src.buffer != first.src.buffer ||
        m.dst.buffer != first.dst.buffer)
      return false;
  }
  const int64_t mods[] = {moves.ranks, moves.buffers[size_t(first.src.buffer)].chunks, moves.ranks,
                          moves.buffers[size_t(first.dst.buffer)].chunks};
  for (int k = 0; k < numIndices; ++k) {
    Index &index = indices[k];
    const int64_t start = value(first, k), second = value(moves.moves[begin + 1], k);
    bool fits = false;
    for (int64_t mod : {int64_t(0), mods[k]}) {
      index = {start, second - start, mod};
      if (mod && index.step < 0)
        index.step += mod;
      fits = true;
      for (size_t i = begin; i < end && fits; ++i)
        fits = index.at(int64_t(i - begin)) == value(moves.moves[i], k);
      if (fits)
        break;
    }
    if (!fits)
      return false;
  }
  return true;
}

void Writer::move(const Move &move, const Index indices[numIndices], int indent) {
  line(indent,
       fmt::format("ccl.{} %{}[{}, {}] into %{}[{}, {}]{}",
                   move.kind == MoveKind::Copy ? "copy" : "reduce",
                   moves.buffers[size_t(move.src.buffer)].name, indices[0].str(), indices[1].str(),
                   moves.buffers[size_t(move.dst.buffer)].name, indices[2].str(), indices[3].str(),
                   move.count > 1 ? fmt::format(" x {}", move.count) : ""));
}

void Writer::plain(const Move &m, int indent) {
  Index indices[numIndices];
  for (int k = 0; k < numIndices; ++k)
    indices[k].start = value(m, k);
  move(m, indices, indent);
}

size_t Writer::endOfStep(size_t begin) const {
  size_t end = begin;
  while (end < moves.moves.size() && moves.moves[end].step == moves.moves[begin].step)
    ++end;
  return end;
}

void Writer::step(size_t begin, size_t end) {
  Index indices[numIndices];
  if (fit(begin, end, indices)) {
    line(2, fmt::format("affine.parallel (%i) = (0) to ({}) {{", end - begin));
    move(moves.moves[begin], indices, 4);
  } else {
    line(2, "affine.parallel (%i) = (0) to (1) {");
    for (size_t i = begin; i < end; ++i)
      plain(moves.moves[i], 4);
  }
  line(2, "}");
}

/// The longest loop of single moves from `begin` on; returns where it ends.
size_t Writer::sequence(size_t begin) {
  size_t end = begin + 1;
  Index indices[numIndices], longer[numIndices];
  while (end < moves.moves.size() && endOfStep(end) == end + 1 && fit(begin, end + 1, longer)) {
    std::copy(std::begin(longer), std::end(longer), indices);
    ++end;
  }
  if (end - begin < 3) { // two always fit
    plain(moves.moves[begin], 2);
    return begin + 1;
  }
  line(2, fmt::format("affine.for %i = 0 to {} {{", end - begin));
  move(moves.moves[begin], indices, 4);
  line(2, "}");
  return end;
}

std::string Writer::write() {
  line(0, fmt::format("ccl.algorithm @a{} implements #ccl.contract<{}> {{", seed, contractText()));
  for (const Buffer &buffer : moves.buffers)
    line(2, fmt::format("%{} = ccl.buffer {} ranks({}) chunks({})", buffer.name, name(buffer.role),
                        moves.ranks, buffer.chunks));
  for (size_t i = 0; i < moves.moves.size();) {
    size_t end = endOfStep(i);
    if (end > i + 1)
      step(i, end);
    else
      end = sequence(i);
    i = end;
  }
  line(0, "}");
  return std::move(out);
}

std::string text(const Algorithm &algorithm) { return Writer(algorithm).write(); }

} // namespace ccl::random
