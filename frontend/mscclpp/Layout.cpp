//===- Layout.cpp ---------------------------------------------------------===//
#include "frontend/mscclpp/Layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace ccl::mscclpp {

using model::Collective;
using model::Contract;
using model::Reduction;
using model::Role;

int64_t Layout::chunks(const Plan &plan, BufferType type, int32_t rank) const {
  switch (type) {
  case BufferType::Input: return contract.inChunks() / factor;
  case BufferType::Output: return contract.outChunks() / factor;
  case BufferType::Scratch: return plan.gpus[size_t(rank)].scratchChunks;
  }
  return 0;
}

int64_t Layout::position(BufferType type, int32_t rank, int64_t chunk) const {
  if (type == BufferType::Scratch || input != output)
    return chunk;
  return type == BufferType::Input ? contract.inPosition(rank, chunk)
                                   : contract.outPosition(rank, chunk);
}

namespace {

class LayoutMaker {
public:
  LayoutMaker(const Plan &plan, Log &log)
      : plan(plan), log(log), ranks(int64_t(plan.gpus.size())) {}
  Layout make();

private:
  Collective collectiveOf();
  Reduction reductionOf(Collective collective);
  void countChunks();
  void countCustomChunks();
  void expect(const Gpu &gpu, int64_t in, int64_t out);
  void findTargets();
  void findRoot();
  void findFactor();
  void refine();
  void addBuffers();
  bool writesInput() const;
  /// Calls `f(from, to)` for each pair of ranks between which an op moves data.
  template <typename F>
  void forEachFlow(const F &f) const;

  const Plan &plan;
  Log &log;
  int64_t ranks;
  Layout layout;
};

} // namespace

template <typename F>
void LayoutMaker::forEachFlow(const F &f) const {
  forEachOp(plan, [&](const Gpu &gpu, const Op &op) {
    auto forEachRank = [&](const BufferUse &use, auto &&visit) {
      if (use.kind == BufferUse::Kind::Remote)
        visit(use.remote);
      else if (use.kind == BufferUse::Kind::Switch)
        for (int32_t member : gpu.switches[size_t(use.switchChannel)].ranks)
          visit(member);
    };
    int32_t rank = int32_t(&gpu - plan.gpus.data());
    for (const BufferUse &use : op.src)
      forEachRank(use, [&](int32_t peer) { f(peer, rank); });
    for (const BufferUse &use : op.dst)
      forEachRank(use, [&](int32_t peer) { f(rank, peer); });
  });
}

//===----------------------------------------------------------------------===//
// The collective
//===----------------------------------------------------------------------===//

Collective LayoutMaker::collectiveOf() {
  std::string name = plan.collective;
  std::erase(name, '_');
  if (name == "sendrecv")
    return Collective::Permute;
  if (name == "test" || name == "custom")
    return Collective::Custom;
  for (Collective c : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
                       Collective::Broadcast, Collective::Reduce, Collective::Gather,
                       Collective::Scatter, Collective::AllToAll, Collective::AllToAllV}) {
    std::string ours(model::name(c));
    std::erase(ours, '_');
    if (name == ours)
      return c;
  }
  log.warn(plan.collectivePlace,
           fmt::format("\"{}\" is no collective that is known here: only safety is proved",
                       shortened(plan.collective)));
  return Collective::Custom;
}

Reduction LayoutMaker::reductionOf(Collective collective) {
  const Op *first = nullptr;
  Reduction reduction = Reduction::None;
  forEachOp(plan, [&](const Gpu &, const Op &op) {
    bool combines = op.kind == OpKind::Glre || op.kind == OpKind::Glres ||
                    (op.src.size() > 1 && !movesPairs(op.kind));
    if (!combines || log.failed())
      return;
    std::optional<Reduction> stated =
        model::parseReduction(op.reduction.empty() ? "sum" : std::string_view(op.reduction));
    if (!stated || *stated == Reduction::None) {
      log.unsupported(op.place, fmt::format("\"{}\" is no reduction that is known here",
                                            shortened(op.reduction)));
    } else if (first && *stated != reduction) {
      log.unsupported(op.place, "the ops of one plan combine in two ways")
          .notes.push_back({first->place, -1, "another one"});
    } else if (!first) {
      first = &op;
      reduction = *stated;
    }
  });
  if (collective != Collective::Custom && !model::reduces(collective)) {
    if (first)
      log.unsupported(first->place, fmt::format("{} combines chunks, but {} only moves them",
                                                name(first->kind), shortened(plan.collective)));
    return Reduction::None;
  }
  return model::reduces(collective) && !first ? Reduction::Sum : reduction;
}

//===----------------------------------------------------------------------===//
// Chunks
//===----------------------------------------------------------------------===//

// In place, a file may leave the smaller or the second buffer out.
void LayoutMaker::expect(const Gpu &gpu, int64_t in, int64_t out) {
  size_t rank = size_t(&gpu - plan.gpus.data());
  auto check = [&](int64_t have, int64_t want, std::string_view key, interchange::TextPlace place) {
    if (have == want || (have == 0 && plan.inPlace) || log.failed())
      return;
    log.malformed(place, fmt::format("rank {} has {} {}, and {} of {} ranks asks for {}", rank,
                                     have, key, shortened(plan.collective), ranks, want));
  };
  check(gpu.inputChunks, in, "input chunks", gpu.inputPlace);
  check(gpu.outputChunks, out, "output chunks", gpu.outputPlace);
}

void LayoutMaker::countChunks() {
  Contract &contract = layout.contract;
  const Gpu &first = plan.gpus.front();
  int64_t inShards = contract.inShards(), outShards = contract.outShards();
  bool byInput = first.inputChunks > 0;
  int64_t all = byInput ? first.inputChunks : first.outputChunks;
  int64_t shards = byInput ? inShards : outShards;
  if (all == 0 || all % shards != 0) {
    log.malformed(byInput ? first.inputPlace : first.outputPlace,
                  fmt::format("{} chunks are not {} equal shards, as {} of {} ranks asks for", all,
                              shards, shortened(plan.collective), ranks));
    return;
  }
  contract.chunks = all / shards;
  for (const Gpu &gpu : plan.gpus)
    expect(gpu, contract.inChunks(), contract.outChunks());
}

void LayoutMaker::countCustomChunks() {
  int64_t in = 0, out = 0;
  for (const Gpu &gpu : plan.gpus) {
    in = std::max(in, gpu.inputChunks);
    out = std::max(out, gpu.outputChunks);
  }
  if (plan.inPlace && (in == 0 || out == 0))
    in = out = std::max(in, out);
  layout.contract.chunks = 1;
  layout.contract.customInChunks = in;
  layout.contract.customOutChunks = out;
}

bool LayoutMaker::writesInput() const {
  bool writes = false;
  forEachOp(plan, [&](const Gpu &gpu, const Op &op) {
    for (const BufferUse &use : op.dst)
      writes |= typeOf(gpu, use) == BufferType::Input;
  });
  return writes;
}

//===----------------------------------------------------------------------===//
// What files do not say
//===----------------------------------------------------------------------===//

// Who sends to whom is whoever some data goes to.
void LayoutMaker::findTargets() {
  Contract &contract = layout.contract;
  std::vector<int64_t> to(size_t(ranks), -1);
  bool unique = true;
  forEachFlow([&](int32_t from, int32_t dst) {
    unique &= to[size_t(from)] < 0 || to[size_t(from)] == dst;
    to[size_t(from)] = dst;
  });
  if (ranks == 2 && to[0] != 0 && to[1] != 1)
    to = {1, 0}; // the one thing that two can exchange
  std::vector<int64_t> sorted = to;
  std::sort(sorted.begin(), sorted.end());
  for (int64_t rank = 0; rank < ranks; ++rank)
    unique &= sorted[size_t(rank)] == rank;
  if (unique) {
    contract.targets = std::move(to);
    return;
  }
  log.warn(plan.collectivePlace, "a sendrecv does not say who sends to whom, and its ops do not "
                                 "show it: only safety is proved");
  contract.collective = Collective::Custom;
}

void LayoutMaker::findRoot() {
  Contract &contract = layout.contract;
  bool rootSends =
      contract.collective == Collective::Broadcast || contract.collective == Collective::Scatter;
  std::vector<bool> other(size_t(ranks), false); // takes from (gives to) somebody
  forEachFlow([&](int32_t from, int32_t to) {
    if (from != to)
      other[size_t(rootSends ? to : from)] = true;
  });
  if (std::count(other.begin(), other.end(), false) == 1) {
    contract.root = std::find(other.begin(), other.end(), false) - other.begin();
    return;
  }
  log.warn(plan.collectivePlace, "the plan does not say which rank is the root, and its ops do "
                                 "not show it: rank 0 is taken");
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

void LayoutMaker::findFactor() {
  int64_t touched = 0, ops = 0;
  forEachOp(plan, [&](const Gpu &, const Op &) { ++ops; });
  const int64_t most = interchange::mostChunks(ops);
  auto ranksOf = [](const Gpu &gpu, const BufferUse &use) {
    return use.kind == BufferUse::Kind::Switch
               ? int64_t(gpu.switches[size_t(use.switchChannel)].ranks.size())
               : 1;
  };
  forEachOp(plan, [&](const Gpu &gpu, const Op &op) {
    for (const BufferUse &use : op.dst) // sources are as large
      layout.factor =
          std::lcm(layout.factor, op.groupSize / std::gcd(use.size, int64_t(op.groupSize)));
    if (layout.factor > maxGroupSize && !log.failed())
      log.unsupported(op.place, fmt::format("the thread block groups of this plan divide a "
                                            "chunk into more than {} parts",
                                            maxGroupSize));
    // Both are small enough to be multiplied below.
    layout.factor = std::min(layout.factor, maxGroupSize);
    for (const std::vector<BufferUse> *side : {&op.src, &op.dst})
      for (const BufferUse &use : *side)
        touched += (use.size / op.groupSize + 1) * ranksOf(gpu, use);
    touched = std::min(touched, most + 1);
  });
  if (!log.failed() && touched > most / layout.factor)
    log.unsupported({},
                    fmt::format("the {} ops of this plan touch more than {} chunks", ops, most));
  int64_t chunks = 0;
  for (const Gpu &gpu : plan.gpus)
    chunks += gpu.inputChunks + gpu.outputChunks + gpu.scratchChunks;
  chunks = std::max(chunks, ranks * (layout.contract.inChunks() + layout.contract.outChunks()));
  if (!log.failed() && chunks > most / layout.factor)
    log.unsupported(
        plan.gpus.front().place,
        fmt::format("the buffers of this plan have more than {} chunks; it has {} ops", most, ops));
  if (!log.failed() && int64_t(layout.contract.rows.size()) > most / layout.factor)
    log.unsupported({}, fmt::format("the contract of this plan has more than {} rows, one for each "
                                    "part of a chunk; it has {} ops",
                                    most, ops));
}

void LayoutMaker::addBuffers() {
  const Contract &contract = layout.contract;
  auto add = [&](std::string_view name, Role role, int64_t chunks, int32_t loc) {
    if (chunks == 0)
      return -1;
    layout.buffers.push_back({std::string(name), role, chunks, loc});
    return int32_t(layout.buffers.size()) - 1;
  };
  // A custom plan that has no output leaves its results in the input.
  bool onlyInput =
      contract.collective == Collective::Custom && contract.customOutChunks == 0 && writesInput();
  if (onlyInput)
    layout.contract.customOutChunks = contract.customInChunks;
  if (plan.inPlace || onlyInput) {
    layout.input = layout.output = add("x", Role::InOut, contract.inOutChunks(), 0);
    layout.disjoint = false;
    layout.inPlace = true;
  } else {
    layout.input = add("in", Role::In, contract.inChunks(), 0);
    layout.output = add("out", Role::Out, contract.outChunks(), 1);
  }
  int64_t scratch = 0;
  for (const Gpu &gpu : plan.gpus)
    scratch = std::max(scratch, gpu.scratchChunks * layout.factor);
  if (layout.buffers.empty())
    scratch = std::max<int64_t>(scratch, 1); // a program has some buffer
  layout.scratch = add("scratch", Role::Scratch, scratch, 2);
}

void LayoutMaker::refine() {
  Contract &contract = layout.contract;
  int64_t factor = layout.factor;
  contract.customInChunks *= factor;
  contract.customOutChunks *= factor;
  if (contract.collective != Collective::Custom) {
    contract.chunks *= factor;
    return;
  }
  std::vector<Contract::Row> rows;
  for (const Contract::Row &row : contract.rows)
    for (int64_t part = 0; part < factor; ++part)
      rows.push_back(
          {row.outRank, row.outChunk * factor + part, row.inRank, row.inChunk * factor + part});
  contract.rows = std::move(rows);
}

Layout LayoutMaker::make() {
  Contract &contract = layout.contract;
  contract.ranks = ranks;
  if (plan.own) {
    contract = plan.own->contract;
    for (const Gpu &gpu : plan.gpus)
      expect(gpu, contract.inChunks(), contract.outChunks());
  } else {
    contract.collective = collectiveOf();
    contract.reduction = reductionOf(contract.collective);
    if (contract.collective == Collective::Permute)
      findTargets();
    if (model::hasRoot(contract.collective))
      findRoot();
    if (contract.collective == Collective::Custom)
      countCustomChunks();
    else
      countChunks();
  }
  if (log.failed())
    return layout;
  findFactor();
  if (log.failed())
    return layout;
  refine();
  addBuffers();
  if (plan.own && layout.disjoint)
    layout.inPlace = plan.own->inPlace;
  return layout;
}

Layout makeLayout(const Plan &plan, Log &log) { return LayoutMaker(plan, log).make(); }

} // namespace ccl::mscclpp
