//===- CopyEngines.cpp ------------------------------------------------------===//
#include "runtime/cuda/CopyEngines.h"

#include <bit>
#include <cstdlib>
#include <limits>

namespace ccl::cuda {

//===----------------------------------------------------------------------===//
// What is there
//===----------------------------------------------------------------------===//

/// How many waits, or signals, from instruction i of an agent on name different channels.
static int countTogether(const RankAgents &table, uint32_t i, uint32_t end) {
  constexpr int most = CudaCode::stepThreads;
  const int32_t kind = table.instructions[i].pattern;
  std::vector<int64_t> seen;
  for (; i < end && int(seen.size()) < most; ++i) {
    if (table.instructions[i].pattern != kind)
      break;
    const int64_t channel = table.operands[table.instructions[i].operands].chunk;
    if (llvm::is_contained(seen, channel))
      break;
    seen.push_back(channel);
  }
  return int(seen.size());
}

llvm::Expected<Tables> uploadTables(const RankAgents &table, Device &home) {
  std::vector<TableInstruction> instructions;
  for (const AgentInstruction &i : table.instructions)
    instructions.push_back({i.pattern, i.count, i.operands});
  std::vector<TableAgent> agents;
  for (const AgentCode &agent : table.agents) {
    agents.push_back({agent.begin, agent.end});
    for (uint32_t i = agent.begin; i < agent.end; ++i)
      if (instructions[i].pattern < 0)
        instructions[i].count = countTogether(table, i, agent.end);
  }
  if (agents.empty()) // a block that only takes part in barriers
    agents.emplace_back();
  std::vector<Operand> operands;
  for (const AgentOperand &o : table.operands)
    operands.push_back({o.peer, o.buffer, int(o.chunk)});
  llvm::Expected<CUdeviceptr> first = home.upload(agents);
  if (!first)
    return first.takeError();
  llvm::Expected<CUdeviceptr> second = home.upload(instructions);
  if (!second)
    return second.takeError();
  llvm::Expected<CUdeviceptr> third = home.upload(operands);
  if (!third)
    return third.takeError();
  return Tables{pointerTo<const TableAgent>(*first), pointerTo<const TableInstruction>(*second),
                pointerTo<const Operand>(*third)};
}

int64_t queuesOf(const Driver &driver) {
  constexpr int64_t usual = 8, most = 32;
  const char *text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  int64_t number = 0;
  if (text && !llvm::StringRef(text).trim().getAsInteger(10, number) && number > 0)
    return std::min(number, most);
  return driver.isShim() ? std::numeric_limits<int64_t>::max() : usual;
}

//===----------------------------------------------------------------------===//
// Where operands lie
//===----------------------------------------------------------------------===//

ShardRange EnginePlaces::slice(int64_t chunk, int64_t row, int64_t microBatch) const {
  const int64_t chunks = plan.contract.chunks, shard = chunk / chunks, c = chunk % chunks;
  const ShardRange whole = shards ? shards[row][shard] : ShardRange{shard * count, count};
  const int64_t begin = model::chunkStart(c, whole.length, chunks);
  const int64_t length = model::chunkStart(c + 1, whole.length, chunks) - begin;
  const int shift = std::countr_zero(uint64_t(cut.microBatches));
  const int64_t from = microBatch * length >> shift, to = (microBatch + 1) * length >> shift;
  return {whole.start + begin + from, to - from};
}

EnginePlaces::Place EnginePlaces::locate(const AgentOperand &operand, int64_t chunk,
                                         int64_t instance, int64_t microBatch) const {
  const int64_t owner = operand.peer == AgentOperand::own ? rank : operand.peer;
  const int64_t bytes = sizeOf(plan.type);
  auto *base = static_cast<char *>(pointers[size_t(owner)][size_t(operand.buffer)]);
  const model::Role role = plan.buffers[size_t(operand.buffer)].role;
  if (role == model::Role::Scratch)
    return {base + instance * scratchPitch + (operand.chunk + chunk) * cut.stride * bytes, -1,
            false};
  const ShardRange part =
      slice(operand.chunk + chunk, 2 * owner + (role == model::Role::Out), microBatch);
  return {base + part.start * bytes, part.length, owner == rank};
}

/// Whether both can be one: not if the second takes what the first brings.
static bool continues(const EngineCopy &first, const EngineCopy &second) {
  return first.to + first.bytes == second.to && first.from + first.bytes == second.from &&
         std::abs(second.to - second.from) >= first.bytes + second.bytes;
}

void EnginePlaces::addCopies(const RankAgents &table, const AgentInstruction &transfer,
                             int64_t instance, int64_t microBatch,
                             std::vector<EngineCopy> &copies) const {
  const int32_t destinations = plan.transfers[size_t(transfer.pattern)].destinations;
  const AgentOperand *operands = table.operands.data() + transfer.operands;
  int64_t pieces = transfer.count;
  for (int64_t j = 0; j < pieces; ++j) {
    std::vector<Place> places;
    int64_t length = -1;
    bool isOwn = false;
    for (int32_t o = 0; o <= destinations; ++o) {
      const Place &place = places.emplace_back(locate(operands[o], j, instance, microBatch));
      if (place.length >= 0 && (length < 0 || (place.isOwn && !isOwn))) {
        length = place.length;
        isOwn = place.isOwn;
      }
    }
    if (length < 0) { // equal strides on all sides: adjacent chunks are one piece
      length = pieces * cut.stride;
      pieces = 1;
    }
    const int64_t bytes = length * sizeOf(plan.type);
    for (int32_t o = 1; o <= destinations; ++o) {
      if (bytes == 0 || places[size_t(o)].data == places[0].data)
        continue;
      const EngineCopy one{places[size_t(o)].data, places[0].data, bytes};
      if (copies.empty() || !continues(copies.back(), one))
        copies.push_back(one);
      else
        copies.back().bytes += bytes;
    }
  }
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

/// Whether a line is in no capture, or in that one: until a capture ends, its streams stay in it.
llvm::Expected<bool> EngineStreams::isFree(const Driver &driver, const Line &line,
                                           std::optional<unsigned long> capture) const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  unsigned long id = 0;
  if (llvm::Error e = driver.check(driver.cuStreamGetCaptureInfo_v2(line.stream.get(), &status, &id,
                                                                    nullptr, nullptr, nullptr),
                                   "ask whether a stream of copies is captured"))
    return e;
  return status == CU_STREAM_CAPTURE_STATUS_NONE ||
         (status == CU_STREAM_CAPTURE_STATUS_ACTIVE && capture == id);
}

llvm::Expected<std::vector<CUstream>> EngineStreams::fork(const Driver &driver, CUstream from,
                                                          bool capturing, size_t streams) {
  forked.clear();
  std::vector<CUstream> result;
  if (streams == 0)
    return result;
  std::optional<unsigned long> capture;
  if (capturing) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (llvm::Error e =
            driver.check(driver.cuStreamGetCaptureInfo_v2(from, &status, &capture.emplace(),
                                                          nullptr, nullptr, nullptr),
                         "ask which capture a stream is in"))
      return e;
  }
  std::vector<size_t> taken;
  for (size_t i = 0; taken.size() < streams; ++i) {
    if (i < lines.size()) {
      llvm::Expected<bool> free = isFree(driver, lines[i], capture);
      if (!free)
        return free.takeError();
      if (*free)
        taken.push_back(i);
      continue;
    }
    llvm::Expected<Stream> stream = makeStream(driver);
    if (!stream)
      return stream.takeError();
    llvm::Expected<Event> done = makeEvent(driver);
    if (!done)
      return done.takeError();
    lines.push_back({std::move(*stream), std::move(*done)});
    taken.push_back(i);
  }
  if (!begun) {
    llvm::Expected<Event> event = makeEvent(driver);
    if (!event)
      return event.takeError();
    begun = std::move(*event);
  }
  if (llvm::Error e =
          driver.check(driver.cuEventRecord(begun.get(), from), "mark where copy engines begin"))
    return e;
  for (size_t i : taken) {
    const CUstream stream = lines[i].stream.get();
    if (llvm::Error e = driver.check(driver.cuStreamWaitEvent(stream, begun.get(), 0),
                                     "let copy engines begin where a launch does"))
      return e;
    forked.push_back(i);
    result.push_back(stream);
  }
  return result;
}

llvm::Error EngineStreams::join(const Driver &driver, CUstream to) {
  llvm::Error error = llvm::Error::success();
  for (size_t i : forked) {
    const Line &line = lines[i];
    llvm::Error one = driver.check(driver.cuEventRecord(line.done.get(), line.stream.get()),
                                   "mark where a copy engine ends");
    if (!one)
      one = driver.check(driver.cuStreamWaitEvent(to, line.done.get(), 0),
                         "let a launch end where its copy engines do");
    error = llvm::joinErrors(std::move(error), std::move(one));
  }
  forked.clear();
  return error;
}

//===----------------------------------------------------------------------===//
// Agents
//===----------------------------------------------------------------------===//

llvm::Error EngineAgent::step(int64_t begin, int64_t end, int64_t microBatch, int what) const {
  Step step = common;
  step.begin = begin;
  step.end = end;
  step.first = code.begin;
  step.microBatch = microBatch;
  step.what = what;
  // The driver only reads it.
  void *parameters[] = {const_cast<char *>(launch.data()), &step};
  return driver.check(driver.cuLaunchKernel(kernel, 1, 1, 1, CudaCode::stepThreads, 1, 1, 0, stream,
                                            parameters, nullptr),
                      "launch a step of {} on rank {}", agentName(code.number()), places.rank);
}

llvm::Error EngineAgent::copy(int64_t begin, int64_t end, int64_t microBatch) {
  copies.clear();
  for (int64_t i = begin; i < end; ++i)
    places.addCopies(table, table.instructions[size_t(i)], common.instance, microBatch, copies);
  for (const EngineCopy &one : copies)
    if (llvm::Error e = driver.check(
            driver.cuMemcpyAsync(addressOf(one.to), addressOf(one.from), size_t(one.bytes), stream),
            "copy {} bytes for {} of rank {}", one.bytes, agentName(code.number()), places.rank))
      return e;
  return llvm::Error::success();
}

llvm::Error EngineAgent::enqueue(int64_t microBatch, bool isFirst, bool isLast) {
  auto behind = [&](int64_t i, bool signals) {
    while (i < code.end && (table.instructions[size_t(i)].pattern < 0) == signals)
      ++i;
    return i;
  };
  int what = isFirst ? common.what : 0;
  for (int64_t i = code.begin;;) {
    const int64_t steps = behind(i, true);
    if (steps == code.end)
      what |= isLast ? endsLaunch : endsBatch;
    if (steps > i || what)
      if (llvm::Error e = step(i, steps, microBatch, what))
        return e;
    if (steps == code.end)
      return llvm::Error::success();
    what = 0;
    i = behind(steps, false);
    if (llvm::Error e = copy(steps, i, microBatch))
      return e;
  }
}

} // namespace ccl::cuda
