//===- Algorithm.cpp - Records what loops write --------------------------------===//
//
// Recording only takes notes. What can be judged at once (a buffer of another algorithm) is
// kept as a problem of its line; everything else is left to the verifiers and the proof.
//===----------------------------------------------------------------------===//
#include "frontend/builder/Algorithm.h"

#include <fmt/format.h>

#include <atomic>
#include <new>

namespace ccl {
inline namespace jit {

//===----------------------------------------------------------------------===//
// Contract
//===----------------------------------------------------------------------===//

static Contract make(Collective collective, std::optional<Op> op = {}, int root = 0) {
  Contract contract;
  contract.collective = collective;
  contract.op = op;
  contract.root = root;
  return contract;
}

Contract Contract::allReduce(Op op) { return make(Collective::allReduce, op); }
Contract Contract::allGather() { return make(Collective::allGather); }
Contract Contract::reduceScatter(Op op) { return make(Collective::reduceScatter, op); }
Contract Contract::broadcast(int root) { return make(Collective::broadcast, {}, root); }
Contract Contract::reduce(Op op, int root) { return make(Collective::reduce, op, root); }
Contract Contract::gather(int root) { return make(Collective::gather, {}, root); }
Contract Contract::scatter(int root) { return make(Collective::scatter, {}, root); }
Contract Contract::allToAll() { return make(Collective::allToAll); }
Contract Contract::barrier() { return make(Collective::barrier); }

Contract Contract::permute(std::vector<int> targets) {
  Contract contract = make(Collective::permute);
  contract.targets = std::move(targets);
  return contract;
}

Contract Contract::custom(std::vector<Row> rows, std::optional<Op> op) {
  Contract contract = make(Collective::custom, op);
  contract.rows = std::move(rows);
  return contract;
}

//===----------------------------------------------------------------------===//
// Notes
//===----------------------------------------------------------------------===//

uint32_t Algorithm::Impl::lineOf(const Where &where) {
  auto file = fileNumbers.find(where.file);
  if (file == fileNumbers.end()) {
    files.emplace_back(where.file);
    file = fileNumbers.emplace(where.file, uint32_t(files.size() - 1)).first;
  }
  auto [line, isNew] = lineNumbers.try_emplace(std::tuple(file->second, where.line, where.column),
                                               uint32_t(lines.size()));
  if (isNew)
    lines.push_back({file->second, where.line, where.column});
  return line->second;
}

void Algorithm::Impl::complain(uint32_t line, std::string message) {
  constexpr size_t most = 8; // as many as the proof tells of
  if (problems.size() < most)
    problems.push_back({line, std::move(message)});
}

std::optional<uint32_t> Algorithm::Impl::find(const Place &place, std::string_view side,
                                              uint32_t line) {
  if (place.algorithm == id && place.buffer < buffers.size())
    return place.buffer;
  complain(line, fmt::format("the {} is in a buffer of another algorithm than '{}'", side, name));
  return std::nullopt;
}

/// Runs `body`; if there is no memory, that is noted instead.
template <typename Body>
static void record(std::unique_ptr<Algorithm::Impl> &impl, Body body) {
  if (!impl)
    return; // moved from, or not even made: `compile` says so
  try {
    body(*impl);
  } catch (const std::bad_alloc &) {
    impl->outOfMemory = true;
  }
}

//===----------------------------------------------------------------------===//
// Algorithm
//===----------------------------------------------------------------------===//

static std::atomic<uint64_t> nextId = 1;

Algorithm::Algorithm(std::string_view name, Contract contract, int ranks, Where where)
    : impl(new(std::nothrow) Impl) {
  record(impl, [&](Impl &notes) {
    notes.id = nextId++;
    notes.ranks = ranks;
    notes.contract = std::move(contract);
    notes.line = notes.lineOf(where);
    notes.name = name;
  });
}

Algorithm::Algorithm(const Algorithm &other) {
  try {
    impl = other.impl ? std::make_unique<Impl>(*other.impl) : nullptr;
  } catch (const std::bad_alloc &) {
    impl = nullptr;
  }
}

Algorithm::Algorithm(Algorithm &&) noexcept = default;
Algorithm &Algorithm::operator=(Algorithm other) noexcept {
  impl.swap(other.impl);
  return *this;
}
Algorithm::~Algorithm() = default;

static uint32_t add(std::unique_ptr<Algorithm::Impl> &impl, model::Role role, int64_t chunks,
                    std::string_view name, std::string_view usual, const Where &where) {
  uint32_t index = UINT32_MAX; // of no buffer: moves with it are refused
  record(impl, [&](Algorithm::Impl &notes) {
    uint32_t line = notes.lineOf(where);
    notes.buffers.push_back({role, std::string(name.empty() ? usual : name), chunks, line});
    index = uint32_t(notes.buffers.size() - 1);
  });
  return index;
}

static uint64_t idOf(const std::unique_ptr<Algorithm::Impl> &impl) { return impl ? impl->id : 0; }

Buffer Algorithm::in(int64_t chunks, std::string_view name, Where where) {
  return Buffer(idOf(impl), add(impl, model::Role::In, chunks, name, "in", where));
}
Buffer Algorithm::out(int64_t chunks, std::string_view name, Where where) {
  return Buffer(idOf(impl), add(impl, model::Role::Out, chunks, name, "out", where));
}
Buffer Algorithm::inout(int64_t chunks, std::string_view name, Where where) {
  return Buffer(idOf(impl), add(impl, model::Role::InOut, chunks, name, "x", where));
}
Buffer Algorithm::scratch(int64_t chunks, std::string_view name, Where where) {
  return Buffer(idOf(impl), add(impl, model::Role::Scratch, chunks, name, "t", where));
}

static void move(std::unique_ptr<Algorithm::Impl> &impl, bool reduce, const Place &from,
                 const Place &into, int64_t count, const Where &where) {
  record(impl, [&](Algorithm::Impl &notes) {
    uint32_t line = notes.lineOf(where);
    std::optional<uint32_t> source = notes.find(from, "source", line);
    std::optional<uint32_t> destination = notes.find(into, "destination", line);
    if (!source || !destination)
      return;
    if (notes.depth == 0)
      ++notes.step;
    notes.moves.push_back({{*source, from.rank, from.chunk},
                           {*destination, into.rank, into.chunk},
                           count,
                           notes.step,
                           line,
                           reduce});
  });
}

void Algorithm::copy(Place from, Place into, int64_t count, Where where) {
  move(impl, false, from, into, count, where);
}
void Algorithm::reduce(Place from, Place into, int64_t count, Where where) {
  move(impl, true, from, into, count, where);
}

void Algorithm::beginStep() {
  if (impl && impl->depth++ == 0)
    ++impl->step;
}

void Algorithm::endStep() {
  if (!impl)
    return;
  if (impl->depth == 0)
    impl->unmatchedEnd = true;
  else
    --impl->depth;
}

Step Algorithm::step() {
  beginStep();
  return Step(this);
}

void Step::end() {
  if (Algorithm *open = std::exchange(algorithm, nullptr))
    open->endStep();
}

const std::string &Algorithm::name() const {
  static const std::string none;
  return impl ? impl->name : none;
}
const Contract &Algorithm::contract() const {
  static const Contract none;
  return impl ? impl->contract : none;
}
int Algorithm::ranks() const { return impl ? impl->ranks : 0; }
size_t Algorithm::moves() const { return impl ? impl->moves.size() : 0; }

} // namespace jit
} // namespace ccl
