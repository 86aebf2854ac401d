// The end of an execution: what the outputs hold against what the contract promises.

#include "dialect/model/Execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace ccl::model {

void Execution::forEachCustomPromise(const std::function<void(int64_t, int64_t, Contents)> &f) {
  std::vector<Contract::Row> rows = contract.rows;
  auto key = [](const Contract::Row &row) {
    return std::tuple(row.outRank, row.outChunk, row.inChunk, row.inRank);
  };
  std::sort(rows.begin(), rows.end(),
            [&](const auto &a, const auto &b) { return key(a) < key(b); });
  for (size_t i = 0; i < rows.size();) {
    const Contract::Row &first = rows[i];
    Contents want = Multisets::nothing;
    for (;
         i < rows.size() && rows[i].outRank == first.outRank && rows[i].outChunk == first.outChunk;
         ++i)
      want = sets.unite(want, sets.atom({rows[i].inRank, rows[i].inChunk}));
    if (first.outRank < kept)
      f(first.outRank, first.outChunk, want);
  }
}

void Execution::forEachPromise(const std::function<void(int64_t, int64_t, Contents)> &f) {
  if (contract.collective == Collective::Custom)
    return forEachCustomPromise(f);
  for (int64_t rank = 0; rank < kept; ++rank)
    for (int64_t chunk = 0; chunk < contract.outChunks(); ++chunk) {
      std::optional<Atom> atom = contract.origin(rank, chunk);
      if (!atom)
        continue;
      bool every = atom->rank == Contract::everyRank;
      f(rank, chunk, every ? sets.ofEveryRank(atom->chunk) : sets.atom(*atom));
    }
}

void Execution::leave() {
  int32_t out = bufferWith(Role::Out), inout = bufferWith(Role::InOut);
  int32_t target = out >= 0 ? out : inout;
  // A move that leads nowhere was reported; what is missing for its sake would be noise.
  bool malformed = std::any_of(faults.begin(), faults.end(), [](const Fault &fault) {
    return fault.kind == FaultKind::OutOfRange;
  });
  if (target < 0 || malformed || isFull())
    return;
  std::vector<WrongPlace> wrong;
  forEachPromise([&](int64_t rank, int64_t chunk, Contents want) {
    int64_t position = target == inout ? contract.outPosition(rank, chunk) : chunk;
    Place place{int32_t(rank), target, position};
    Contents have = contents[at(place)];
    if (have == want || have == Multisets::poison)
      return;
    wrong.push_back({writers[at(place)], place, want});
    if (wrong.size() == size_t(1) << 16) // there may be millions
      keepFirst(wrong);
  });
  keepFirst(wrong);
  for (const WrongPlace &place : wrong)
    reportWrong(place);
}

// What was written first cannot come of the others: most upstream first.
void Execution::keepFirst(std::vector<WrongPlace> &wrong) const {
  size_t kept = std::min(wrong.size(), maxFaults - faults.size());
  std::partial_sort(wrong.begin(), wrong.begin() + ptrdiff_t(kept), wrong.end(),
                    [](const WrongPlace &a, const WrongPlace &b) {
                      return std::tuple(a.writer, a.place.rank, a.place.chunk) <
                             std::tuple(b.writer, b.place.rank, b.place.chunk);
                    });
  wrong.resize(kept);
}

std::string Execution::difference(Contents have, Contents want) {
  auto list = [&](Contents set, std::string_view one, std::string_view many) {
    if (sets.size(set) > 1)
      return fmt::format("the contributions {} {}", sets.str(set), many);
    Atom atom = sets.front(set);
    return fmt::format("the contribution of rank {} (chunk {}) {}", atom.rank, atom.chunk, one);
  };
  Contents missing = sets.minus(want, have), extra = sets.minus(have, want);
  std::string text;
  if (missing != Multisets::nothing)
    text = list(missing, "is missing", "are missing");
  if (extra != Multisets::nothing) {
    text += text.empty() ? "" : ", ";
    text += list(extra, "should not be there", "should not be there");
  }
  return text;
}

void Execution::reportWrong(const WrongPlace &wrong) {
  const Place &place = wrong.place;
  Contents have = contents[at(place)];
  Fault fault = makeFault(FaultKind::Wrong, place, Site());
  fault.have = sets.str(have);
  fault.want = sets.str(wrong.want);
  fault.message =
      fmt::format("{} is not met: {} holds {}, wants {}; {}", contract.str(), placeName(place),
                  fault.have, fault.want, difference(have, wrong.want));
  addHistory(fault, place);
  fault.loc = buffers[size_t(place.buffer)].loc;
  if (wrong.writer >= 0) {
    Event last = describe(wrong.writer);
    fault.loc = last.site.loc;
    if (last.rank < 0 || last.rank == place.rank) {
      fault.agent = last.site.agent;
      fault.instruction = last.site.instruction;
    }
  }
  report(std::move(fault));
}

} // namespace ccl::model
