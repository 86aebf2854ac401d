//===- CudaAgree.cpp - What processes tell each other of launches ----------------------===//
//
// The first launch of its kind is compared, and buffers that peers use are found; every later
// one of that kind needs no other process: a kind says all that decides about memory. Kinds are
// met by all processes in the same order, so each knows alike which are known.
//===----------------------------------------------------------------------===//
#include "runtime/Agreement.h"
#include "runtime/cuda/CudaGroup.h"

#include <fmt/ranges.h>

namespace ccl::cuda {
namespace {

/// A region of a rank that does not use the buffer.
constexpr uint64_t anyRegion = ~uint64_t(0);
/// Kinds of one program that are remembered.
constexpr size_t mostKinds = 4096;

/// Of the last word of a key.
constexpr unsigned formBits = 2, capturedBits = 1, instanceBits = 16;

std::string describeRegion(uint64_t region) {
  if (region == 0)
    return "ordinary memory";
  return fmt::format("byte {} of symmetric memory {}", region & ((uint64_t(1) << 44) - 1),
                     region >> 44);
}

std::string nameOf(const Plan &plan) { return fmt::format("{} {}", plan.hash, plan.program); }

uint64_t fingerprintOf(const Plan &plan) {
  return fingerprint(
      fmt::format("{} {} {} {}", plan.hash, plan.program, plan.contract.str(), name(plan.type)));
}

} // namespace

/// `counts`: of an uneven launch.
static llvm::Error compareNames(CudaPeers &peers, const Plan &plan,
                                llvm::ArrayRef<CudaPeers::Facts> all,
                                llvm::ArrayRef<UnevenCounts> counts = {}) {
  bool same = true;
  for (const CudaPeers::Facts &facts : all)
    same &= facts[0] == all.front()[0];
  if (same)
    return llvm::Error::success();
  // All of them see that, so all come here.
  llvm::Expected<std::vector<std::string>> names = peers.tell(nameOf(plan));
  if (!names)
    return names.takeError();
  for (size_t r = 0; r < all.size(); ++r)
    if ((*names)[r] != names->front())
      return makeFailure(Failure::Mismatch, "ranks 0 and {} disagree on the program: {} and {}", r,
                         names->front(), (*names)[r]);
  llvm::Expected<std::vector<std::string>> texts = peers.tell(
      counts.empty() ? "all alike" : fmt::format("{}", fmt::join(counts.front().counts, ",")));
  if (!texts)
    return texts.takeError();
  for (size_t r = 0; r < all.size(); ++r)
    if (all[r][0] != all.front()[0])
      return makeFailure(Failure::Mismatch,
                         "ranks 0 and {} disagree on the counts of {} (hash {}): {} and {}", r,
                         plan.program, plan.hash, texts->front(), (*texts)[r]);
  return llvm::Error::success();
}

llvm::Error CudaGroup::agreeOnProgram(Prepared &prepared) {
  const Plan &plan = prepared.program->plan();
  prepared.fingerprint = fingerprintOf(plan);
  prepared.seenByAll = llvm::all_of(prepared.ranks, [](const RankProgram &rank) {
    return rank.facts.needsIn && rank.facts.needsOut;
  });
  llvm::Expected<std::vector<CudaPeers::Facts>> all =
      peers->meet(CudaPeers::Topic::Program, {prepared.fingerprint, uint64_t(prepared.resident)});
  if (!all)
    return all.takeError();
  if (llvm::Error e = compareNames(*peers, plan, *all))
    return e;
  for (const CudaPeers::Facts &facts : *all)
    prepared.resident = std::min(prepared.resident, int64_t(facts[1]));
  return llvm::Error::success();
}

llvm::Error CudaGroup::gatherCounts(const Launching &launching, std::vector<UnevenCounts> &counts) {
  const Plan &plan = launching.prepared.program->plan();
  llvm::Expected<std::vector<CudaPeers::Facts>> all =
      peers->meet(CudaPeers::Topic::Counts, {launching.prepared.fingerprint});
  if (!all)
    return all.takeError();
  if (llvm::Error e = compareNames(*peers, plan, *all))
    return e;
  std::vector<uint64_t> mine;
  for (const std::vector<int64_t> *list : {&counts.front().counts, &counts.front().receives})
    mine.insert(mine.end(), list->begin(), list->end());
  llvm::Expected<std::vector<std::vector<uint64_t>>> words = peers->gather(mine);
  if (!words)
    return words.takeError();
  counts.assign(size_t(theRanks), {});
  for (size_t r = 0; r < counts.size(); ++r) {
    const std::vector<uint64_t> &there = (*words)[r];
    counts[r].counts.assign(there.begin(), there.begin() + theRanks);
    counts[r].receives.assign(there.begin() + theRanks, there.end());
  }
  return llvm::Error::success();
}

llvm::Error CudaGroup::compareLaunches(const Launching &launching,
                                       llvm::ArrayRef<CudaPeers::Facts> all) const {
  const Plan &plan = launching.prepared.program->plan();
  if (llvm::Error e = compareNames(*peers, plan, all, launching.options.uneven))
    return e;
  auto differ = [&](size_t a, size_t b, std::string_view what, auto &&first, auto &&second) {
    return makeFailure(Failure::Mismatch,
                       "ranks {} and {} disagree on {} of {} (hash {}): {} and {}", a, b, what,
                       plan.program, plan.hash, first, second);
  };
  constexpr uint64_t formMask = (1 << formBits) - 1, capturedMask = uint64_t(1) << formBits;
  std::array<size_t, 3> owner{all.size(), all.size(), all.size()}; // of form and regions
  for (size_t r = 0; r < all.size(); ++r) {
    const CudaPeers::Facts &zero = all.front(), &facts = all[r];
    if (facts[1] != zero[1])
      return differ(0, r, "the count", int64_t(zero[1]), int64_t(facts[1]));
    if ((facts[4] & capturedMask) != (zero[4] & capturedMask))
      return differ(0, r, "whether a graph captures the launch", (zero[4] & capturedMask) != 0,
                    (facts[4] & capturedMask) != 0);
    if (facts[4] >> formBits != zero[4] >> formBits)
      return differ(0, r, "instances and micro-batches",
                    fmt::format("{:#x}", zero[4] >> (formBits + capturedBits)),
                    fmt::format("{:#x}", facts[4] >> (formBits + capturedBits)));
    if (const auto form = Form(facts[4] & formMask); form != Form::Either) {
      if (owner[0] == all.size())
        owner[0] = r;
      if (const auto first = Form(all[owner[0]][4] & formMask); first != form)
        return differ(owner[0], r, "the form", name(first), name(form));
    }
    for (size_t b = 0; b < 2; ++b) {
      if (facts[2 + b] == anyRegion)
        continue;
      size_t &first = owner[1 + b];
      if (first == all.size())
        first = r;
      if (all[first][2 + b] != facts[2 + b])
        return differ(first, r,
                      b == 0 ? "where `in` is, which peers use,"
                             : "where `out` is, which peers use,",
                      describeRegion(all[first][2 + b]), describeRegion(facts[2 + b]));
    }
  }
  return llvm::Error::success();
}

CudaPeers::Facts CudaGroup::factsOf(const Launching &launching) const {
  const Prepared &prepared = launching.prepared;
  const int64_t me = peers->host().rank();
  const RankFacts &facts = prepared.ranks[size_t(me)].facts;
  const LaunchShape &shape = launching.shapes[size_t(me)];
  const LaunchArgs args = launching.argsOf(me);
  // In place ranks have parts of one row, each its own; the row is at the same place.
  int64_t inOffset = 0, outOffset = 0;
  if (shape.form == Form::InPlace && launching.shards) {
    const CallerRows rows = launching.shards->callerRows(me);
    inOffset = rows.inOffset;
    outOffset = rows.outOffset;
  } else if (shape.form == Form::InPlace) {
    inOffset = facts.inPosition * shape.count;
    outOffset = facts.outPosition * shape.count;
  }
  const int64_t bytes = sizeOf(prepared.program->plan().type);
  auto region = [&](const void *address, int64_t offset, bool used, bool needed) {
    if (!used)
      return uint64_t(0); // by peers: it may be anywhere
    if (!needed || !address || shape.count == 0)
      return anyRegion;
    return peers->regionOf(static_cast<const char *>(address) - offset * bytes, 1);
  };
  return {prepared.fingerprint + launching.countsPrint, uint64_t(shape.count),
          region(args.in, inOffset, facts.inRead || facts.inWritten, facts.needsIn),
          region(args.out, outOffset, facts.outRead || facts.outWritten, facts.needsOut),
          uint64_t(shape.form) | uint64_t(launching.capturing) << formBits |
              uint64_t(launching.options.instances) << (formBits + capturedBits) |
              uint64_t(launching.options.microBatches) << (formBits + capturedBits + instanceBits)};
}

llvm::Error CudaGroup::agree(Launching &launching) {
  Prepared &prepared = launching.prepared;
  if (const int64_t most = (int64_t(1) << instanceBits) - 1;
      launching.options.instances < 0 || launching.options.instances > most)
    return makeFailure(Failure::BadArgument, "a launch of {} instances: 0 to {} are possible",
                       launching.options.instances, most);
  // What a rank without input or output cannot tell must not decide whether a kind is known: the
  // others' buffers. If peers use them, such a launch is compared always; else each rank's form
  // is its own matter.
  const Plan &plan = prepared.program->plan();
  const bool seenByAll = prepared.seenByAll && !launching.shards;
  const CudaPeers::Facts told = launching.told = factsOf(launching);
  launching.key = told;
  if (!plan.direct)
    launching.key.back() &= ~((uint64_t(1) << formBits) - 1);
  launching.isNew =
      options.checked || (plan.direct && !seenByAll) || !prepared.agreed.count(launching.key);
  if (!launching.isNew)
    return llvm::Error::success();
  llvm::Expected<std::vector<CudaPeers::Facts>> all = peers->meet(CudaPeers::Topic::Launch, told);
  if (!all)
    return all.takeError();
  if (llvm::Error e = compareLaunches(launching, *all))
    return e;
  if (prepared.agreed.size() >= mostKinds) {
    prepared.agreed.clear();
    prepared.kinds.clear();
  }
  prepared.agreed[launching.key];
  return llvm::Error::success();
}

/// Finds the buffers of all ranks, of a program that uses those of peers.
llvm::Error CudaGroup::exchangePlaces(Launching &launching, bool moved) {
  Prepared &prepared = launching.prepared;
  const auto me = size_t(peers->host().rank());
  if (!launching.isNew) {
    if (moved)
      return makeFailure(Failure::Machine,
                         "rank {} needed other memory for a launch like one before", me);
    const AllPointers &known = prepared.agreed[launching.key];
    for (size_t r = 0; r < known.size(); ++r)
      if (r != me)
        launching.pointers[r] = known[r];
    return llvm::Error::success();
  }
  llvm::Expected<std::vector<CudaPeers::Facts>> all =
      peers->meet(CudaPeers::Topic::Place, {uint64_t(moved)});
  if (!all)
    return all.takeError();
  bool anyMoved = false;
  for (const CudaPeers::Facts &facts : *all)
    anyMoved |= facts[0] != 0;
  if (anyMoved) // places that were told may be old ones
    for (auto &[program, other] : programs) {
      other.agreed.clear();
      other.kinds.clear();
    }
  if (llvm::Error e = peers->share())
    return e;
  std::vector<uint64_t> places;
  for (const void *pointer : launching.pointers[me])
    places.push_back(peers->placeOf(pointer));
  llvm::Expected<std::vector<std::vector<uint64_t>>> told = peers->gather(places);
  if (!told)
    return told.takeError();
  AllPointers found;
  for (size_t r = 0; r < told->size(); ++r) {
    std::vector<void *> &pointers = found.emplace_back();
    for (const uint64_t place : (*told)[r])
      pointers.push_back(peers->reach(int64_t(r), place));
    if (r != me)
      launching.pointers[r] = pointers;
  }
  prepared.agreed[launching.key] = std::move(found);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Memory of the user
//===----------------------------------------------------------------------===//

llvm::Expected<SymmetricBuffer>
CudaGroup::makeShared(Milliseconds timeout,
                      llvm::function_ref<llvm::Expected<SymmetricBuffer>()> body) {
  if (!peers)
    return makeFailure(Failure::BadArgument,
                       "all ranks are in this process: they reach each other's memory");
  if (llvm::Error e = firstFailure())
    return e;
  if (timeout.count() <= 0)
    return fail(makeFailure(Failure::BadArgument, "a time-out of {} ms", timeout.count()));
  const RelaxedCapture relaxed(driver);
  peers->setTimeout(timeout);
  llvm::Expected<SymmetricBuffer> buffer = body();
  if (!buffer)
    return fail(buffer.takeError());
  return buffer;
}

llvm::Expected<SymmetricBuffer> CudaGroup::allocate(int64_t bytes, Milliseconds timeout) {
  return makeShared(timeout, [&] { return peers->allocate(bytes); });
}

llvm::Expected<SymmetricBuffer> CudaGroup::registerBuffer(void *address, int64_t bytes,
                                                          Milliseconds timeout) {
  return makeShared(timeout, [&] { return peers->registerMemory(address, bytes); });
}

} // namespace ccl::cuda
