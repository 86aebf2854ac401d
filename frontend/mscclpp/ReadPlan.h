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
/// The name of an op; `generation` 1: `cpkt` means what `upkt` means now.
OpKind readOpKind(Log &log, JsonValue value, int generation);
/// The ids of a plan's thread blocks are 0, 1, ..., each once.
void checkBlockIds(Log &log, const std::vector<ThreadBlock> &blocks);
SwitchChannel readRankGroup(Log &log, JsonValue group, BufferType type, int64_t ranks, int32_t me);
void readSemaphores(Log &log, const Fields &fields, Gpu &gpu);
/// That the op has as many sources and destinations, of such kinds, as its name asks for.
void checkOperands(Log &log, const Gpu &gpu, const Op &op);

} // namespace ccl::mscclpp
