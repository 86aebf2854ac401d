//===- Cautions.cpp - Where MSCCL++'s executor does something else --------===//
//
// Sizes of its arrays are from src/core/include/execution_common.hpp, what its ops do from
// execution_kernel.hpp beside it, both of August 2026. None of this limits anything here.
//===----------------------------------------------------------------------===//
#include "frontend/mscclpp/Trace.h"

#include <fmt/format.h>

#include <algorithm>

namespace ccl::mscclpp {

namespace {

constexpr int64_t maxChannelsOfBlock = 16, maxBuffersOfOp = 2 + 8;
constexpr int64_t maxOpsOfBlock = 64, maxBarriers = 16, maxSemaphores = 16;
constexpr int64_t maxOffset = int64_t(1) << 32;

class Cautions {
public:
  Cautions(const Plan &plan, Log &log) : plan(plan), log(log) {}
  void run();

private:
  void tellGpu(const Gpu &gpu);
  void tellBlock(const ThreadBlock &block);
  void tellOpLimits(const Op &op);
  void tellOp(const Op &op);
  void tellPipeline(const Op &pipeline);
  void limit(interchange::TextPlace place, int64_t have, int64_t limit, std::string_view of,
             std::string_view what);

  const Plan &plan;
  Log &log;
  bool packetsTold = false;
};

} // namespace

void Cautions::limit(interchange::TextPlace place, int64_t have, int64_t limit, std::string_view of,
                     std::string_view what) {
  if (have > limit)
    log.warn(place, fmt::format("{} has {} {}; MSCCL++ has room for {} and does not check it", of,
                                have, what, limit));
}

void Cautions::tellOpLimits(const Op &op) {
  std::string_view kind = name(op.kind);
  limit(op.place, int64_t(op.channels.size()), int64_t(maxChannelsOfOp), kind, "channels");
  limit(op.place, int64_t(op.src.size()), maxBuffersOfOp, kind, "sources");
  limit(op.place, int64_t(op.dst.size()), maxBuffersOfOp, kind, "destinations");
  limit(op.place, int64_t(op.semaphores.size()), maxSemaphores, kind, "semaphores");
  if (op.kind == OpKind::Barrier && op.barrier >= maxBarriers)
    log.warn(op.place, fmt::format("barrier {}; MSCCL++ has {} and does not check it", op.barrier,
                                   maxBarriers));
}

void Cautions::tellOp(const Op &op) {
  bool byPort = op.channelType == ChannelType::Port;
  if (op.kind == OpKind::Glre || op.kind == OpKind::Gstorepkt)
    log.warn(op.place,
             fmt::format("MSCCL++ does not know {} and refuses this plan", name(op.kind)));
  if (op.kind == OpKind::Flush && byPort)
    log.warn(op.place, "MSCCL++ does nothing at a flush");
  if (op.kind == OpKind::Pwsf && byPort)
    log.warn(op.place, "MSCCL++ sends from a wrong place at pwsf: it takes the address of its "
                       "table of offsets for the offset");
  if ((op.kind == OpKind::Pws || op.kind == OpKind::Pwsf) && !byPort)
    log.warn(op.place,
             fmt::format("MSCCL++ sends no signal at {} on a memory channel", name(op.kind)));
  if (op.kind == OpKind::Ppkt && byPort)
    log.warn(op.place, "MSCCL++ takes the source of ppkt on a port channel from the first plan "
                       "that was loaded");
  if (!op.reduction.empty() && op.reduction != "sum")
    log.warn(op.place, fmt::format("MSCCL++ adds here: it ignores \"{}\"", op.reduction));
  if (op.kind == OpKind::Get)
    for (size_t i = 0; i < op.dst.size(); ++i)
      if (op.src[op.src.size() == 1 ? 0 : i].index != op.dst[i].index) {
        log.warn(op.dst[i].place, "MSCCL++ exchanges the offsets of source and destination of get");
        break;
      }
  if ((op.kind == OpKind::Put || op.kind == OpKind::Ppkt) && !byPort)
    for (const BufferUse &use : op.src)
      if (use.type != op.src.front().type) {
        log.warn(use.place, fmt::format("MSCCL++ takes all sources of {} from the buffer of the "
                                        "first",
                                        name(op.kind)));
        break;
      }
  if (usesPackets(op.kind) && !plan.packets && !packetsTold) {
    packetsTold = true;
    log.warn(op.place, "packets in a plan whose protocol is not \"LL\": MSCCL++ makes its scratch "
                       "half as large as they need");
  }
}

// A pipeline takes `numChunks` chunks piece by piece, whatever its ops say.
void Cautions::tellPipeline(const Op &pipeline) {
  for (const Op &op : pipeline.body) {
    if (op.dst.empty())
      continue;
    int64_t size = op.dst.front().size;
    if (size != pipeline.numChunks)
      log.warn(op.place, fmt::format("{} of {} chunks in a pipeline over {}: MSCCL++ {}",
                                     name(op.kind), size, pipeline.numChunks,
                                     size > pipeline.numChunks ? "leaves the rest out"
                                                               : "goes beyond its end"));
    bool reduces = op.kind == OpKind::Re || op.kind == OpKind::Res;
    for (size_t i = 1; reduces && plan.reuseResources && i < op.src.size(); ++i)
      if ((op.src[i].type == BufferType::Scratch) != (op.dst.front().type == BufferType::Scratch)) {
        log.warn(op.src[i].place, fmt::format("MSCCL++ finds this source of {} in a pipeline as "
                                              "if it were in the buffer of the destination",
                                              name(op.kind)));
        break;
      }
  }
}

void Cautions::tellBlock(const ThreadBlock &block) {
  std::string of = fmt::format("thread block {}", block.id);
  limit(block.place, block.memoryChannels, maxChannelsOfBlock, of, "memory channels");
  limit(block.place, block.portChannels, maxChannelsOfBlock, of, "port channels");
  limit(block.place, block.memoryBuffers, maxChannelsOfBlock, of,
        "remote buffers by memory channels");
  limit(block.place, block.portBuffers, maxChannelsOfBlock, of, "remote buffers by port channels");
  int64_t ops = 0;
  forEachOp(block.ops, [&](const Op &op) {
    ++ops;
    tellOpLimits(op);
    tellOp(op);
    if (op.kind == OpKind::Pipeline)
      tellPipeline(op);
  });
  limit(block.place, ops, maxOpsOfBlock, of, "ops");
}

void Cautions::tellGpu(const Gpu &gpu) {
  if (gpu.inputChunks == 0 || gpu.outputChunks == 0)
    log.warn(gpu.inputChunks == 0 ? gpu.inputPlace : gpu.outputPlace,
             fmt::format("MSCCL++ divides by the number of {} chunks, which is 0",
                         gpu.inputChunks == 0 ? "input" : "output"));
  for (const ThreadBlock &block : gpu.blocks)
    tellBlock(block);
}

void Cautions::run() {
  if (plan.generation != 2)
    return; // it reads no other
  int64_t bytes = std::max(plan.minBytes.value_or(0), plan.maxBytes.value_or(0));
  if (bytes > maxOffset)
    log.warn(plan.maxBytesPlace, "messages of more than 4 GiB; MSCCL++ counts bytes in 32 bits "
                                 "and does not check it");
  for (const Gpu &gpu : plan.gpus)
    tellGpu(gpu);
}

void tellCautions(const Plan &plan, Log &log) { Cautions(plan, log).run(); }

} // namespace ccl::mscclpp
