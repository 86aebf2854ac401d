//===- Programs.h - Programs written by hand over ccl.cuh -------------------------===//
#pragma once

#include "runtime/cuda/LoadedCudaProgram.h"

namespace ccl::test {

/// The stand-in for CUDA's driver: 3 GPUs of 16 multiprocessors, 128 blocks at once on each.
const cuda::Driver &shim();
inline constexpr int64_t residentBlocks = 128;

struct Variant {
  int64_t ranks = 1;
  const char *wire = "simple"; ///< or "ll", "ll128"
  /// This rank never sends.
  int silent = -1;
  bool unevenSafe = false, divisible = false;
  ElementType type = ElementType::I32;
};

// All of the elements' sum, or every rank's elements on every rank.
Plan ringAllReduce(const Variant &variant, model::Reduction reduction = model::Reduction::Sum);
/// What it receives goes through scratch, too.
Plan ringAllGather(const Variant &variant);
/// The same, executed from tables.
Plan tableAllGather(const Variant &variant);
/// Every rank reads the others' inputs, by two agents.
Plan directAllGather(const Variant &variant);
Plan ringReduceScatter(const Variant &variant);
/// The same without channels: every rank reads what it needs of the others.
Plan directReduceScatter(const Variant &variant);
/// With slots of its own, in both directions at once.
Plan pairwiseAllToAll(const Variant &variant);
Plan directAllToAll(const Variant &variant);

struct EngineVariant : Variant {
  bool tables = false; ///< blocks are executed from tables, too
  int mute = -1;       ///< this rank's block does nothing, so its copy engines wait for it
};
/// A block keeps what is its own and tells two proxies, which are copy engines and put it to every
/// other peer each.
Plan engineAllGather(const EngineVariant &variant);

using Program = std::shared_ptr<cuda::LoadedCudaProgram>;
Program load(Plan plan);

} // namespace ccl::test
