//===- GpuCut.cpp -----------------------------------------------------------===//
#include "runtime/cuda/GpuCut.h"

#include <bit>
#include <limits>

namespace ccl::cuda {

/// More instances than one only for slices of so many bytes: less is over before the waits of a
/// slice are.
constexpr int64_t leastInstanceSlice = 16 << 10;
/// So many blocks of a rank are enough for any link; more wait for each other's memory.
constexpr int64_t usualInstances = 32;

/// What strides are a multiple of, in bytes, and whether they must be.
struct Grain {
  int64_t bytes = 128;
  bool needed = false;
};
static Grain grainOf(const Plan &plan) {
  Grain grain;
  if (plan.maxCount <= 1)
    return grain;
  for (const KernelPlan &kernel : plan.kernels)
    for (const ChannelFamily &family : kernel.channels) {
      // A line of ll128 holds 120 bytes, and every chunk of a slot begins with one. 240 is a
      // multiple of 16, too.
      if (family.slots > 0 && family.protocol == 2)
        return {240, true};
      if (family.slots > 0 && (family.protocol == 1 || family.protocol == 3))
        grain = {16, true};
    }
  return grain;
}

llvm::Expected<GpuCut> chooseGpuCut(const Plan &plan, const RankFacts &facts, int64_t count,
                                    const GpuCutRules &rules) {
  const int64_t bytes = sizeOf(plan.type), chunks = std::max<int64_t>(plan.maxCount, 1);
  const int64_t longest = model::longestChunk(count, plan.contract.chunks);
  if (rules.instances != 0 && (rules.instances < 0 || rules.instances > mostInstances ||
                               !std::has_single_bit(uint64_t(rules.instances))))
    return makeFailure(Failure::BadArgument,
                       "a launch has a power of two of instances, at most {}, not {}",
                       mostInstances, rules.instances);
  GpuCut result;
  if (rules.instances > 0)
    result.instances = rules.instances;
  else
    while (2 * result.instances <= std::min({rules.resident, usualInstances, mostInstances}) &&
           longest * bytes / (2 * result.instances) >= leastInstanceSlice)
      result.instances *= 2;

  Grain grain = grainOf(plan);
  int64_t slotBytes = rules.slotBytes;
  if (facts.usesSlots) {
    while (!grain.needed && grain.bytes > bytes && chunks * grain.bytes > slotBytes)
      grain.bytes /= 2;
    // A slot that holds less than one unit of each chunk is chooseCut's to refuse.
    if (grain.needed && chunks * grain.bytes > slotBytes)
      return makeFailure(Failure::BadArgument,
                         "{} moves {} chunks through one slot, each a multiple of {} bytes: that "
                         "needs slots of at least {} bytes, not {} (CCL_SLOT_BYTES)",
                         plan.program, chunks, grain.bytes, chunks * grain.bytes, slotBytes);
    if (chunks * grain.bytes <= slotBytes)
      slotBytes = slotBytes / (chunks * grain.bytes) * (chunks * grain.bytes);
  }
  const int64_t part = (count + result.instances - 1) / result.instances;
  llvm::Expected<Cut> cut = chooseCut(plan, facts, part, slotBytes, 0);
  if (!cut)
    return cut.takeError();
  const int64_t wanted = std::max(cut->microBatches * result.instances, rules.atLeast);
  if (wanted > std::numeric_limits<int64_t>::max() / 4)
    return makeFailure(Failure::BadArgument, "{} micro-batches are too many", wanted);
  result.cut.microBatches = int64_t(std::bit_ceil(uint64_t(wanted)));
  result.batchShift = std::countr_zero(uint64_t(result.cut.microBatches));
  const int64_t slice = longest > 0 ? (longest - 1) / result.cut.microBatches + 1 : 1;
  result.cut.stride = roundUp(slice, std::max<int64_t>(grain.bytes / bytes, 1));
  return result;
}

} // namespace ccl::cuda
