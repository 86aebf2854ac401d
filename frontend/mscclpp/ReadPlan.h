//===- ReadPlan.h - From JSON to Plan -------------------------------------===//
#pragma once

#include "frontend/mscclpp/Fields.h"
#include "frontend/mscclpp/Plan.h"

namespace ccl::mscclpp {

/// Reads the top of a document and hands its GPUs to the reader of its generation. What is
/// wrong goes to `log`; then the result means nothing.
Plan readDocument(Log &log, JsonValue root);

/// The GPUs of generation 2 and its drafts, also of late drafts that still say
/// `inputChunks` (`plan.generation` 1: with the op names of that time).
void readGpus(Log &log, const std::vector<JsonValue> &gpus, Plan &plan);
/// The GPUs of generation 1: ops name channels of (source buffer, destination buffer, type).
void readGpusOfGeneration1(Log &log, const std::vector<JsonValue> &gpus, Plan &plan);

/// What both have in common.
BufferType readBufferType(Log &log, JsonValue value);
/// Of either generation: "sm" is memory, "proxy" port, "nvls" switch.
ChannelType readChannelType(Log &log, JsonValue value);
/// The same for what has to be some channel.
ChannelType readConnectionType(Log &log, JsonValue value);
/// The name of an op; `generation` 1: `cpkt` means what `upkt` means now.
OpKind readOpKind(Log &log, JsonValue value, int generation);
/// The place, id and chunk counts of a GPU; its id is its position.
void readGpuHead(const Fields &fields, int32_t rank, int generation, Gpu &gpu);
/// Which of `size` things a number names, or none: then `describe()`, "rank 0 has 1
/// semaphores", is part of the message.
template <typename F>
std::optional<int32_t> readIndex(Log &log, JsonValue value, std::string_view what, size_t size,
                                 const F &describe) {
  size_t errors = log.numErrors();
  int64_t number = readNumber(log, value, what, 0, maxChunkNumber);
  if (log.numErrors() > errors)
    return std::nullopt;
  if (size_t(number) < size)
    return int32_t(number);
  log.malformed(value.place(), describe() + ", there is no number " + std::to_string(number));
  return std::nullopt;
}
/// The ids of a plan's thread blocks are 0, 1, ..., each once.
void checkBlockIds(Log &log, const std::vector<ThreadBlock> &blocks);
SwitchChannel readRankGroup(Log &log, JsonValue group, BufferType type, int64_t ranks, int32_t me);
void readSemaphores(Log &log, const Fields &fields, Gpu &gpu);
/// That the op has as many sources and destinations, of such kinds, as its name asks for.
void checkOperands(Log &log, const Gpu &gpu, const Op &op);

} // namespace ccl::mscclpp
