#include "dialect/model/Execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace ccl::model {
namespace {

/// More places than this do not fit the memory of a usual machine.
constexpr int64_t placesLimit = int64_t(1) << 28;

std::string hint(const Contract &contract, Role role) {
  bool rooted =
      contract.collective == Collective::Broadcast || contract.collective == Collective::Scatter;
  if (!rooted || (role != Role::In && role != Role::InOut))
    return "";
  return fmt::format("; in {} only rank {} has input", name(contract.collective), contract.root);
}

std::string checkContract(const Contract &contract, int64_t ranks) {
  if (ranks < 1 || ranks > std::numeric_limits<int32_t>::max())
    return fmt::format("{} ranks are outside [1, 2147483647]", ranks);
  if (contract.ranks != ranks)
    return fmt::format("the contract is about {} ranks, the program has {}", contract.ranks, ranks);
  if (contract.chunks < 1 || contract.chunks > placesLimit)
    return fmt::format("{} chunks a shard are outside [1, {}]", contract.chunks, placesLimit);
  if (contract.root < 0 || contract.root >= ranks)
    return fmt::format("root {} is outside [0, {})", contract.root, ranks);
  if (contract.collective == Collective::Permute && int64_t(contract.targets.size()) != ranks)
    return fmt::format("permute has {} targets for {} ranks", contract.targets.size(), ranks);
  return "";
}

} // namespace

Execution::Execution(const std::vector<Buffer> &buffers, int64_t ranks, const Contract &contract,
                     bool inPlace, size_t maxFaults, Describe describe, int64_t kept)
    : buffers(buffers), ranks(ranks), kept(kept > 0 ? std::min(kept, ranks) : ranks),
      contract(contract), inPlace(inPlace), maxFaults(std::max<size_t>(maxFaults, 1)),
      describe(std::move(describe)), shared(inPlace || bufferWith(Role::InOut) >= 0),
      sets(std::max<int64_t>(ranks, 1), std::max<int64_t>(contract.chunks, 1)) {
  // Nothing promised: a sum may well take a contribution twice.
  if (contract.isUnchecked())
    mostTimesAllowed = std::numeric_limits<int64_t>::max();
}

int32_t Execution::bufferWith(Role role) const {
  for (size_t b = 0; b < buffers.size(); ++b)
    if (buffers[b].role == role)
      return int32_t(b);
  return -1;
}

std::string Execution::checkBuffer(const Buffer &buffer) const {
  if (buffer.chunks < 1)
    return fmt::format("{}: {} chunks, but a buffer has at least 1", buffer.name, buffer.chunks);
  if (buffer.role == Role::Scratch)
    return "";
  if (std::count_if(buffers.begin(), buffers.end(),
                    [&](const Buffer &b) { return b.role == buffer.role; }) > 1)
    return fmt::format("{}: there is more than one `{}` buffer", buffer.name, name(buffer.role));
  if (buffer.role != Role::InOut && bufferWith(Role::InOut) >= 0)
    return fmt::format("{}: `inout` excludes `{}`", buffer.name, name(buffer.role));
  int64_t chunks = buffer.role == Role::In    ? contract.inChunks()
                   : buffer.role == Role::Out ? contract.outChunks()
                                              : contract.inOutChunks();
  bool open = contract.collective == Collective::Custom && chunks == 0;
  if (!open && buffer.chunks != chunks)
    return fmt::format("{}: {} chunks, but `{}` of {} has {} ({} ranks, {} chunks a shard)",
                       buffer.name, buffer.chunks, name(buffer.role), contract.str(), chunks, ranks,
                       contract.chunks);
  return "";
}

std::string Execution::checkRows() const {
  if (contract.collective != Collective::Custom)
    return "";
  int32_t out = bufferWith(Role::Out), in = bufferWith(Role::In);
  int32_t inout = bufferWith(Role::InOut);
  auto chunksOf = [&](int32_t buffer, int64_t stated) {
    int32_t used = buffer >= 0 ? buffer : inout;
    return stated > 0 || used < 0 ? stated : buffers[size_t(used)].chunks;
  };
  int64_t outChunks = chunksOf(out, contract.customOutChunks);
  int64_t inChunks = chunksOf(in, contract.customInChunks);
  auto outside = [](int64_t value, int64_t limit) { return value < 0 || value >= limit; };
  for (size_t i = 0; i < contract.rows.size(); ++i) {
    const Contract::Row &row = contract.rows[i];
    if (outside(row.outRank, ranks) || outside(row.inRank, ranks))
      return fmt::format("row {} of the contract: rank {} is outside [0, {})", i,
                         outside(row.outRank, ranks) ? row.outRank : row.inRank, ranks);
    if (outside(row.outChunk, outChunks))
      return fmt::format("row {} of the contract: out chunk {} is outside [0, {})", i, row.outChunk,
                         outChunks);
    if (outside(row.inChunk, inChunks))
      return fmt::format("row {} of the contract: in chunk {} is outside [0, {})", i, row.inChunk,
                         inChunks);
  }
  return "";
}

std::string Execution::check() const {
  if (std::string error = checkContract(contract, ranks); !error.empty())
    return error;
  int64_t places = 0;
  for (const Buffer &buffer : buffers) {
    if (std::string error = checkBuffer(buffer); !error.empty())
      return error;
    if (buffer.chunks > (placesLimit - places) / kept)
      return fmt::format("{}: the buffers have more than {} places", buffer.name, placesLimit);
    places += kept * buffer.chunks;
  }
  bool whole = bufferWith(Role::InOut) >= 0;
  if (contract.inChunks() > 0 && !whole && bufferWith(Role::In) < 0)
    return fmt::format("{} needs an `in` or `inout` buffer", contract.str());
  if (contract.outChunks() > 0 && !whole && bufferWith(Role::Out) < 0)
    return fmt::format("{} needs an `out` or `inout` buffer", contract.str());
  return checkRows();
}

void Execution::enter(size_t events) {
  int32_t in = bufferWith(Role::In), out = bufferWith(Role::Out);
  int32_t inout = bufferWith(Role::InOut);
  bool shared = inPlace && in >= 0 && out >= 0;
  size_t places = 0, sharedBase = 0;
  int64_t sharedStride = shared ? std::max({buffers[size_t(in)].chunks, buffers[size_t(out)].chunks,
                                            contract.inOutChunks()})
                                : 0;
  if (shared)
    places += size_t(sharedStride * kept);
  for (const Buffer &buffer : buffers) {
    if (shared && (buffer.role == Role::In || buffer.role == Role::Out)) {
      layouts.push_back({sharedBase, sharedStride, buffer.role});
      continue;
    }
    layouts.push_back({places, buffer.chunks, Role::Scratch});
    places += size_t(buffer.chunks * kept);
  }
  contents.assign(places, Multisets::nothing);
  writers.assign(places, -1);
  causes.assign(events, {-1, -1});

  int32_t source = in >= 0 ? in : inout;
  if (source < 0)
    return;
  bool open = contract.collective == Collective::Custom && contract.inChunks() == 0;
  int64_t chunks = open ? buffers[size_t(source)].chunks : contract.inChunks();
  for (int32_t rank = 0; rank < kept; ++rank)
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      if (open || contract.defines(rank, chunk)) {
        int64_t position = source == inout ? contract.inPosition(rank, chunk) : chunk;
        contents[at({rank, source, position})] = sets.atom({rank, chunk});
      }
  if (!contract.rows.empty())
    forEachPromise([&](int64_t, int64_t, Contents want) {
      mostTimesAllowed = std::max(mostTimesAllowed, sets.mostTimes(want));
    });
}

size_t Execution::numPlaces() const { return contents.size(); }

size_t Execution::at(const Place &place) const {
  const Layout &layout = layouts[size_t(place.buffer)];
  int64_t chunk = place.chunk;
  if (layout.position == Role::In)
    chunk = contract.inPosition(place.rank, chunk);
  else if (layout.position == Role::Out)
    chunk = contract.outPosition(place.rank, chunk);
  return layout.base + size_t(place.rank * layout.stride + chunk);
}

std::string Execution::placeName(const Place &place) const {
  if (place.buffer < 0)
    return fmt::format("rank {}", place.rank);
  return fmt::format("rank {}, {}[{}]", place.rank, buffers[size_t(place.buffer)].name,
                     place.chunk);
}

Fault Execution::makeFault(FaultKind kind, const Place &place, const Site &site) const {
  Fault fault;
  fault.kind = kind;
  fault.rank = place.rank;
  fault.buffer = place.buffer;
  fault.chunk = place.buffer < 0 ? -1 : place.chunk;
  fault.agent = site.agent;
  fault.instruction = site.instruction;
  fault.loc = site.loc;
  return fault;
}

void Execution::report(Fault fault, uint64_t when) {
  if (isFull()) {
    size_t latest = size_t(std::max_element(ages.begin(), ages.end()) - ages.begin());
    if (ages[latest] <= when)
      return;
    faults.erase(faults.begin() + ptrdiff_t(latest));
    ages.erase(ages.begin() + ptrdiff_t(latest));
  }
  faults.push_back(std::move(fault));
  ages.push_back(when);
}

void Execution::sortFaults() {
  std::vector<size_t> by(faults.size());
  std::iota(by.begin(), by.end(), size_t(0));
  std::sort(by.begin(), by.end(),
            [&](size_t a, size_t b) { return std::pair(ages[a], a) < std::pair(ages[b], b); });
  std::vector<Fault> sorted;
  for (size_t i : by)
    sorted.push_back(std::move(faults[i]));
  faults = std::move(sorted);
  std::sort(ages.begin(), ages.end());
}

void Execution::retractUninitialized(const Place &place, const Site &reader) {
  for (size_t i = faults.size(); i-- > 0;) {
    const Fault &fault = faults[i];
    if (fault.kind != FaultKind::Uninitialized || fault.agent != reader.agent ||
        fault.instruction != reader.instruction ||
        at({int32_t(fault.rank), fault.buffer, fault.chunk}) != at(place))
      continue;
    faults.erase(faults.begin() + ptrdiff_t(i));
    ages.erase(ages.begin() + ptrdiff_t(i));
  }
}

bool Execution::isPlace(const Place &place, int64_t count) const {
  if (place.buffer < 0 || size_t(place.buffer) >= buffers.size())
    return false;
  int64_t chunks = buffers[size_t(place.buffer)].chunks;
  return place.rank >= 0 && place.rank < kept && place.chunk >= 0 && place.chunk < chunks &&
         count >= 1 && count <= chunks - place.chunk;
}

bool Execution::exists(const Place &place, int64_t count, const Site &site) {
  if (isPlace(place, count))
    return true;
  auto complain = [&](std::string have, std::string want, std::string message) {
    Fault fault = makeFault(FaultKind::OutOfRange, place, site);
    fault.have = std::move(have), fault.want = std::move(want);
    fault.message = std::move(message);
    report(std::move(fault));
    return false;
  };
  if (place.buffer < 0 || size_t(place.buffer) >= buffers.size())
    return complain(fmt::format("buffer {}", place.buffer), fmt::format("[0, {})", buffers.size()),
                    fmt::format("buffer {} is outside [0, {})", place.buffer, buffers.size()));
  const Buffer &buffer = buffers[size_t(place.buffer)];
  if (place.rank < 0 || place.rank >= kept)
    return complain(fmt::format("rank {}", place.rank), fmt::format("[0, {})", ranks),
                    fmt::format("{}: rank {} is outside [0, {})", buffer.name, place.rank, ranks));
  if (count < 1)
    return complain(fmt::format("{} chunks", count), "at least 1",
                    fmt::format("rank {}, {}: {} chunks are moved, but at least 1 must be",
                                place.rank, buffer.name, count));
  bool starts = place.chunk >= 0 && place.chunk < buffer.chunks;
  int64_t over = starts ? buffer.chunks : place.chunk;
  std::string range = fmt::format("[0, {})", buffer.chunks);
  std::string message =
      fmt::format("rank {}, {}: chunk {} is outside {}", place.rank, buffer.name, over, range);
  if (count > 1)
    message += fmt::format(" ({} chunks from chunk {} on)", count, place.chunk);
  return complain(fmt::format("chunk {}", over), range, message);
}

Contents Execution::read(const Place &place, const Site &site) {
  Contents value = contents[at(place)];
  if (value != Multisets::nothing)
    return value;
  Fault fault = makeFault(FaultKind::Uninitialized, place, site);
  fault.have = sets.str(value);
  fault.want = "what was written before";
  fault.message = fmt::format("{} is read, but holds nothing: it was never written{}",
                              placeName(place), hint(contract, buffers[size_t(place.buffer)].role));
  report(std::move(fault));
  return contents[at(place)] = Multisets::poison;
}

Contents Execution::combine(Contents a, Contents b, const Place &target, const Site &site) {
  if (a == Multisets::poison || b == Multisets::poison)
    return Multisets::poison;
  FaultKind kind = FaultKind::Mismatch;
  Contents both = sets.unite(a, b);
  if (sets.lengthClass(a) != sets.lengthClass(b)) {
    // Lengths come first: a sum over different chunks cannot be counted.
  } else if (sets.mostTimes(both) > mostTimesAllowed) {
    kind = FaultKind::DoubleCount;
  } else {
    leftShard |= shardOf(both) == Multisets::mixed;
    return both;
  }
  Fault fault = makeFault(kind, target, site);
  if (kind == FaultKind::Mismatch) {
    fault.have = fmt::format("{} and {}", sets.str(a), sets.str(b));
    fault.want = "chunks of one length";
    fault.message = fmt::format(
        "{}: {} is combined with {}, but these are chunks {} and {} of {} in their shards, "
        "whose lengths differ",
        placeName(target), sets.str(a), sets.str(b), sets.lengthClass(a), sets.lengthClass(b),
        contract.chunks);
  } else {
    Contents wanted = sets.distinct(both), twice = sets.minus(both, wanted);
    Atom atom = sets.front(twice);
    fault.have = sets.str(both);
    fault.want = sets.str(wanted);
    fault.message =
        fmt::format("{} would hold {}, wants {}; ", placeName(target), fault.have, fault.want);
    fault.message += sets.size(twice) == 1
                         ? fmt::format("the contribution of rank {} (chunk {}) is counted twice",
                                       atom.rank, atom.chunk)
                         : fmt::format("the contributions {} are counted twice", sets.str(twice));
  }
  if (target.buffer >= 0)
    addHistory(fault, target);
  report(std::move(fault));
  return Multisets::poison;
}

std::optional<int64_t> Execution::shardOf(Contents value) const {
  int64_t shard = sets.shard(value);
  int64_t chunk = shard == Multisets::mixed ? Multisets::mixed : shard * contract.chunks;
  return contract.shardOf(Atom{sets.rank(value), chunk}, shared);
}

void Execution::write(const Place &place, Contents value, const Site &site) {
  Role role = buffers[size_t(place.buffer)].role;
  size_t index = at(place);
  if (role == Role::In && !inPlace) {
    Fault fault = makeFault(FaultKind::ReadOnly, place, site);
    fault.have = "a write";
    fault.want = "only reads";
    fault.message = fmt::format("{} is written, but `in` is only read", placeName(place));
    report(std::move(fault));
    value = Multisets::poison;
  }
  if (role != Role::Scratch && value != Multisets::poison) {
    divisible |= sets.lengthClass(value) != place.chunk % contract.chunks;
    leftShard |= shardOf(value) != contract.shardOf(role, place.rank, place.chunk, shared);
  }
  contents[index] = value;
  writers[index] = site.event;
}

void Execution::addHistory(Fault &fault, const Place &place) const {
  int32_t event = writers[at(place)];
  if (event < 0)
    return;
  Event last = describe(event);
  fault.notes.push_back(
      {last.site.loc, fmt::format("{} was last written by {}", placeName(place), last.text)});
  auto follow = [&](int32_t cause) {
    if (cause < 0 || cause == event)
      return;
    Event used = describe(cause);
    fault.notes.push_back({used.site.loc, fmt::format("which used the result of {}", used.text)});
  };
  std::array<int32_t, 2> first = causes[size_t(event)];
  follow(first[0]);
  if (first[0] >= 0)
    follow(causes[size_t(first[0])][0]);
  if (first[1] != first[0])
    follow(first[1]);
}

} // namespace ccl::model
