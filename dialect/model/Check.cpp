#include "dialect/model/Check.h"

#include "dialect/model/Execution.h"

#include <fmt/format.h>

#include <cstdlib>
#include <limits>

namespace ccl::model {

std::string_view name(FaultKind k) {
  switch (k) {
  case FaultKind::Wrong: return "wrong";
  case FaultKind::DoubleCount: return "double_count";
  case FaultKind::Uninitialized: return "uninitialized";
  case FaultKind::Conflict: return "conflict";
  case FaultKind::OutOfRange: return "out_of_range";
  case FaultKind::Mismatch: return "mismatch";
  case FaultKind::ReadOnly: return "read_only";
  case FaultKind::Deadlock: return "deadlock";
  case FaultKind::Unpaired: return "unpaired";
  }
  return "unknown";
}

std::string_view verdict(const std::vector<Fault> &faults, const Contract &contract) {
  if (faults.empty())
    return contract.isUnchecked() ? "unchecked" : "ok";
  switch (faults.front().kind) {
  case FaultKind::Wrong:
  case FaultKind::DoubleCount:
  case FaultKind::Mismatch:
  case FaultKind::ReadOnly: return "wrong";
  case FaultKind::Uninitialized: return "uninitialized";
  case FaultKind::Conflict: return "race";
  case FaultKind::Deadlock:
  case FaultKind::Unpaired: return "deadlock";
  case FaultKind::OutOfRange: return "malformed";
  }
  return "wrong";
}

namespace {

/// Executes the moves in order.
class AlgorithmCheck {
public:
  AlgorithmCheck(const Moves &moves, const Contract &contract, bool inPlace, size_t maxFaults)
      : moves(moves), execution(moves.buffers, moves.ranks, contract, inPlace, maxFaults,
                                [this](int32_t event) { return describe(event); }) {}

  void run();

  const Moves &moves;
  Execution execution;

private:
  Event describe(int32_t event) const;
  void execute(int32_t event);
  bool overlapsItself(const Move &move, const Site &site);
  void executeChunk(const Move &move, Place src, Place dst, const Site &site);
  /// Whether another move of the step has touched a place of this one.
  bool conflicts(const Move &move, const Place &src, const Place &dst, const Site &site);
  void reportConflict(const Place &place, int32_t other, std::string_view here,
                      std::string_view there, const Site &site);

  std::vector<int32_t> readers; ///< the move that read a place last, or -1
};

Event AlgorithmCheck::describe(int32_t event) const {
  const Move &move = moves.moves[size_t(event)];
  std::string_view verb = move.kind == MoveKind::Copy ? "the copy" : "the reduce";
  std::string text = fmt::format("{} of {} into {}", verb, execution.placeName(move.src),
                                 execution.placeName(move.dst));
  if (move.count > 1)
    text += fmt::format(" x {}", move.count);
  return {{event, -1, event, move.loc}, -1, std::move(text)};
}

void AlgorithmCheck::run() {
  std::string error = execution.check();
  if (error.empty() && moves.moves.size() > size_t(std::numeric_limits<int32_t>::max()))
    error = "more than 2147483647 moves";
  if (!error.empty()) {
    Fault fault;
    fault.kind = FaultKind::OutOfRange;
    fault.message = std::move(error);
    execution.report(std::move(fault));
    return;
  }
  execution.enter(moves.moves.size());
  readers.assign(execution.numPlaces(), -1);
  for (size_t i = 0; i < moves.moves.size() && !execution.isFull(); ++i)
    execute(int32_t(i));
  execution.leave();
}

void AlgorithmCheck::execute(int32_t event) {
  const Move &move = moves.moves[size_t(event)];
  Site site{event, -1, event, move.loc};
  if (!execution.exists(move.dst, move.count, site))
    return;
  if (!execution.exists(move.src, move.count, site) || overlapsItself(move, site)) {
    for (int32_t i = 0; i < move.count; ++i)
      execution.spoil({move.dst.rank, move.dst.buffer, move.dst.chunk + i});
    return;
  }
  for (int32_t i = 0; i < move.count; ++i)
    executeChunk(move, {move.src.rank, move.src.buffer, move.src.chunk + i},
                 {move.dst.rank, move.dst.buffer, move.dst.chunk + i}, site);
}

// A move becomes one instruction, which does not promise to go chunk by chunk.
bool AlgorithmCheck::overlapsItself(const Move &move, const Site &site) {
  int64_t distance = int64_t(execution.at(move.src)) - int64_t(execution.at(move.dst));
  if (distance == 0 || std::abs(distance) >= move.count)
    return false;
  Fault fault = execution.makeFault(FaultKind::Conflict, move.dst, site);
  fault.have = "a read and a write by one move";
  fault.want = "separate chunks";
  fault.message = fmt::format("{}: source and destination of {} chunks overlap",
                              execution.placeName(move.dst), move.count);
  execution.report(std::move(fault));
  return true;
}

void AlgorithmCheck::executeChunk(const Move &move, Place src, Place dst, const Site &site) {
  bool reduce = move.kind == MoveKind::Reduce;
  bool conflicted = conflicts(move, src, dst, site);
  execution.setCauses(site.event, execution.writer(src), reduce ? execution.writer(dst) : -1);
  Contents value = execution.read(src, site);
  if (reduce)
    value = execution.combine(execution.read(dst, site), value, dst, site);
  execution.write(dst, conflicted ? Multisets::poison : value, site);
  readers[execution.at(src)] = site.event;
}

bool AlgorithmCheck::conflicts(const Move &move, const Place &src, const Place &dst,
                               const Site &site) {
  auto concurrent = [&](int32_t other) {
    return other >= 0 && other != site.event && moves.moves[size_t(other)].step == move.step;
  };
  auto verb = [](MoveKind kind) { return kind == MoveKind::Reduce ? "reduced into" : "written"; };
  auto kindOf = [&](int32_t event) { return moves.moves[size_t(event)].kind; };
  if (int32_t other = execution.writer(src); concurrent(other)) {
    reportConflict(src, other, "read", verb(kindOf(other)), site);
    return true;
  }
  if (int32_t other = readers[execution.at(dst)]; concurrent(other)) {
    reportConflict(dst, other, verb(move.kind), "read", site);
    return true;
  }
  int32_t other = execution.writer(dst);
  bool commute =
      concurrent(other) && move.kind == MoveKind::Reduce && kindOf(other) == MoveKind::Reduce;
  if (!concurrent(other) || commute)
    return false;
  reportConflict(dst, other, verb(move.kind), verb(kindOf(other)), site);
  return true;
}

void AlgorithmCheck::reportConflict(const Place &place, int32_t other, std::string_view here,
                                    std::string_view there, const Site &site) {
  Event event = describe(other);
  Fault fault = execution.makeFault(FaultKind::Conflict, place, site);
  fault.have = fmt::format("{} and {} in one step", there, here);
  fault.want = "only reads, only reduces, or one write";
  fault.message = fmt::format("{} is {} here and {} by {} of the same parallel step",
                              execution.placeName(place), here, there, event.text);
  fault.notes.push_back({event.site.loc, fmt::format("{} there", there)});
  execution.report(std::move(fault));
}

} // namespace

AlgorithmReport check(const Moves &moves, const Contract &contract, const CheckOptions &options) {
  AlgorithmReport report;
  report.moves = moves.moves.size();
  AlgorithmCheck disjoint(moves, contract, /*inPlace=*/false, options.maxFaults);
  disjoint.run();
  report.faults = std::move(disjoint.execution.faults);
  report.divisible = disjoint.execution.divisible;
  report.unevenSafe = report.ok() && disjoint.execution.isUnevenSafe();

  bool whole = false, in = false, out = false;
  for (const Buffer &buffer : moves.buffers) {
    whole |= buffer.role == Role::InOut;
    in |= buffer.role == Role::In;
    out |= buffer.role == Role::Out;
  }
  bool aliases = contract.collective != Collective::Custom;
  if (whole || contract.collective == Collective::Barrier) { // one form, or no data at all
    report.inPlace = report.ok();
    report.inPlaceFaults = report.faults;
  } else if (in && out && aliases) {
    AlgorithmCheck inPlace(moves, contract, /*inPlace=*/true, options.maxFaults);
    inPlace.run();
    report.inPlaceFaults = std::move(inPlace.execution.faults);
    report.inPlace = report.inPlaceFaults.empty();
    if (report.inPlace)
      report.unevenSafe = (report.unevenSafe || !report.ok()) && inPlace.execution.isUnevenSafe();
  }
  return report;
}

} // namespace ccl::model
