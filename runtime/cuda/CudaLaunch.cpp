//===- CudaLaunch.cpp - Launches of all ranks ------------------------------------===//
#include "runtime/Log.h"
#include "runtime/cuda/CudaGroup.h"

#include <cstring>

namespace ccl::cuda {
namespace {

/// Whether it says that the call was wrong, not that something broke.
bool isRefusal(Failure category) {
  return category == Failure::BadArgument || category == Failure::Mismatch ||
         category == Failure::Unproved;
}

} // namespace

llvm::Error CudaGroup::launch(const std::shared_ptr<LoadedCudaProgram> &program,
                              llvm::ArrayRef<CudaLaunchArgs> args,
                              const CudaLaunchOptions &launchOptions) {
  if (llvm::Error e = firstFailure())
    return e;
  llvm::Error error = [&]() -> llvm::Error {
    if (!program)
      return makeFailure(Failure::BadArgument, "no program to launch");
    if (const int64_t here = peers ? 1 : theRanks; int64_t(args.size()) != here)
      return makeFailure(Failure::BadArgument, "a launch on {} ranks has buffers of {}", here,
                         args.size());
    if (launchOptions.timeout.count() <= 0)
      return makeFailure(Failure::BadArgument, "the time-out of a launch is {} ms",
                         launchOptions.timeout.count());
    if (peers)
      peers->setTimeout(launchOptions.timeout);
    // With one GPU it is current for all that follows.
    llvm::Expected<ContextScope> scope = parts.front().device->enter();
    if (!scope)
      return scope.takeError();
    if (Launching *kind = findAlike(program.get(), args, launchOptions)) {
      llvm::Expected<bool> done = repeat(*kind, launchOptions);
      if (!done || *done)
        return done ? llvm::Error::success() : done.takeError();
    }
    return launchNew(program, args, launchOptions);
  }();
  if (!error)
    return error;
  bool refused = false;
  error = llvm::handleErrors(std::move(error), [&](std::unique_ptr<RuntimeError> e) -> llvm::Error {
    refused = isRefusal(e->category);
    return llvm::Error(std::move(e));
  });
  // What one process refuses, others may have begun.
  return refused && !peers ? std::move(error) : fail(std::move(error));
}

llvm::Error CudaGroup::launchNew(const std::shared_ptr<LoadedCudaProgram> &program,
                                 llvm::ArrayRef<CudaLaunchArgs> args,
                                 const CudaLaunchOptions &launchOptions) {
  const RelaxedCapture relaxed(driver);
  llvm::Expected<Prepared *> prepared = prepare(program);
  if (!prepared)
    return prepared.takeError();
  auto launching = std::make_unique<Launching>(Launching{launchOptions, args, **prepared});
  if (llvm::Error e = run(*launching))
    return e;
  keep(std::move(launching));
  return llvm::Error::success();
}

llvm::Error CudaGroup::run(Launching &launching) {
  if (llvm::Error e = findStreams(launching))
    return e;
  if (llvm::Error e = findShapes(launching))
    return e;
  if (peers)
    if (llvm::Error e = agree(launching))
      return e;
  // A barrier moves no data, so a count says nothing about it.
  if (launching.shapes.front().count == 0 && launching.prepared.ranks.front().facts.places > 0)
    return llvm::Error::success();
  if (llvm::Error e = cut(launching))
    return e;
  if (!launching.capturing)
    if (llvm::Error e = reclaim(/*now=*/false))
      return e;
  if (log::tracesCollectives() && isLocal(0))
    trace(launching);
  if (llvm::Error e = follow(launching))
    return e;
  if (llvm::Error e = place(launching))
    return e;
  if (llvm::Error e = openChannels(launching.prepared, launching.shapes.front().instances))
    return e;
  return startAll(launching);
}

void CudaGroup::trace(const Launching &launching) const {
  const Plan &plan = launching.prepared.program->plan();
  const LaunchShape &shape = launching.shapes.front();
  log::write(log::Level::Info, 0,
             fmt::format("COLL #{} {} {} {} bytes {} n {}: {} hash {} m {} i {} on {} GPUs{}{}{}",
                         launches + 1, plan.contract.str(), name(plan.type),
                         shape.count * sizeOf(plan.type),
                         shape.form == Form::InPlace ? "in-place" : "out-of-place", theRanks,
                         plan.program, plan.hash, shape.cut.microBatches, shape.instances,
                         parts.size(), launching.capturing ? ", captured" : "",
                         launching.options.reason.empty() ? "" : " by ", launching.options.reason));
}

/// Launches of one communicator must not run at once.
llvm::Error CudaGroup::follow(Launching &launching) {
  if (launching.capturing) {
    everCaptured = launching.prepared.captured = true;
    return llvm::Error::success(); // the order of replays is the user's
  }
  for (size_t d = 0; d < parts.size(); ++d) {
    const Part &part = parts[d];
    if (!part.launched || part.lastStream == launching.streams[d])
      continue;
    llvm::Expected<ContextScope> scope = enter(part);
    if (!scope)
      return scope.takeError();
    if (llvm::Error e =
            driver.check(driver.cuStreamWaitEvent(launching.streams[d], part.last.get(), 0),
                         "let a stream of GPU {} wait for the last launch", part.device->ordinal()))
      return e;
  }
  return llvm::Error::success();
}

llvm::Error CudaGroup::placeRank(Launching &launching, int64_t rank) {
  const Plan &plan = launching.prepared.program->plan();
  const LaunchArgs args = launching.argsOf(rank);
  RankPart &part = rankParts[size_t(rank)];
  part.source->setStream(launching.streams[deviceOf(rank)]);
  if (part.sharedSource)
    part.sharedSource->setStream(launching.streams[deviceOf(rank)]);
  return memoryOf(plan, rank)
      .place(plan, launching.prepared.ranks[size_t(rank)].facts, launching.shapes[size_t(rank)],
             args, rank, launching.pointers[size_t(rank)]);
}

llvm::Error CudaGroup::place(Launching &launching) {
  launching.pointers.resize(size_t(theRanks));
  const bool shares = peers && launching.prepared.program->plan().direct;
  const size_t segments = shares ? peers->segments() : 0;
  for (int64_t r = 0; r < theRanks; ++r) {
    if (!isLocal(r))
      continue;
    llvm::Error error = placeRank(launching, r);
    if (error && !everCaptured) {
      // What was given back lately may be what is missing.
      llvm::consumeError(std::move(error));
      if (llvm::Error e = wait())
        return e;
      for (const RankPart &part : rankParts)
        if (part.source)
          part.source->reclaim();
      error = placeRank(launching, r);
    }
    if (error)
      return error;
  }
  return shares ? exchangePlaces(launching, peers->segments() != segments) : llvm::Error::success();
}

llvm::Error CudaGroup::start(Launching &launching, size_t d) {
  const Plan &plan = launching.prepared.program->plan();
  const Grid &grid = launching.prepared.grids[d];
  const Part &part = parts[d];
  llvm::Expected<ContextScope> scope = enter(part);
  if (!scope)
    return scope.takeError();
  launching.heads.resize(parts.size());
  Heads &heads = launching.heads[d];
  if (!launching.capturing) {
    llvm::Expected<uint64_t> turn = part.uploads->begin(launching.streams[d]);
    if (!turn)
      return turn.takeError();
    if (std::exchange(heads.turn, *turn) != *turn)
      heads = {.turn = *turn};
  }
  if (heads.bytes.empty())
    if (llvm::Error e = makeHeads(launching, d))
      return e;
  if (llvm::Error e = fillBuffers(launching, d))
    return e;
  // A rank that is alone on its GPU is a parameter, several are a table.
  const int64_t blocks = grid.blocks * launching.shapes.front().instances;
  auto blocksPerRank = int(blocks);
  void *parameters[] = {heads.bytes.data(), &heads.table, &blocksPerRank};
  if (llvm::Error e = forkEngines(launching, d))
    return e;
  const CUresult result = driver.cuLaunchCooperativeKernel(
      grid.code->kernel.function, unsigned(blocks * int64_t(part.ranks.size())), 1, 1,
      unsigned(plan.cuda.threads), 1, 1, 0, launching.streams[d], parameters);
  return driver.check(result, "launch {} (hash {}) on GPU {}", plan.program, plan.hash,
                      part.device->ordinal());
}

llvm::Error CudaGroup::finish(Launching &launching, int64_t rank) {
  const Prepared &prepared = launching.prepared;
  const Plan &plan = prepared.program->plan();
  const size_t d = deviceOf(rank);
  const Kernel &kernel = prepared.grids[d].code->finish;
  const LaunchArgs args = launching.argsOf(rank);
  auto finishRow = [&](char *to, const char *from, int64_t n) -> llvm::Error {
    if (n == 0)
      return llvm::Error::success();
    constexpr int64_t elementsOfThread = 8;
    const int64_t wanted = (n - 1) / (elementsOfThread * plan.cuda.threads) + 1;
    const int64_t blocks = std::min<int64_t>(wanted, 2 * parts[d].device->multiprocessors());
    long long elements = n, ranks = theRanks;
    void *parameters[] = {&to, &from, &elements, &ranks};
    llvm::Expected<ContextScope> scope = enter(parts[d]);
    if (!scope)
      return scope.takeError();
    return driver.check(
        driver.cuLaunchKernel(kernel.function, unsigned(blocks), 1, 1, unsigned(plan.cuda.threads),
                              1, 1, 0, launching.streams[d], parameters, nullptr),
        "launch {} of {} on GPU {}", plan.cuda.finish, plan.program, parts[d].device->ordinal());
  };
  return memoryOf(plan, rank)
      .finish(plan, prepared.ranks[size_t(rank)].facts, launching.shapes[size_t(rank)], args,
              kernel.function ? FinishRow(finishRow) : FinishRow());
}

/// All grids before anything else: each waits for the others.
llvm::Error CudaGroup::startAll(Launching &launching) {
  ++launches;
  llvm::Error error = llvm::Error::success();
  for (size_t d = 0; d < parts.size() && !error; ++d)
    error = start(launching, d);
  if (!error)
    error = startEngines(launching);
  error = llvm::joinErrors(std::move(error), joinEngines(launching));
  for (int64_t r = 0; r < theRanks && !error; ++r)
    if (isLocal(r))
      error = finish(launching, r);
  if (launching.capturing)
    return error;
  // If something was not queued, the rest was all the same, and is waited for.
  for (size_t d = 0; d < parts.size(); ++d) {
    Part &part = parts[d];
    llvm::Expected<ContextScope> scope = enter(part);
    llvm::Error marked =
        scope ? driver.check(driver.cuEventRecord(part.last.get(), launching.streams[d]),
                             "mark the end of a launch on GPU {}", part.device->ordinal())
              : scope.takeError();
    part.launched |= !marked;
    part.lastStream = launching.streams[d];
    error = llvm::joinErrors(std::move(error), std::move(marked));
  }
  return error;
}

} // namespace ccl::cuda
