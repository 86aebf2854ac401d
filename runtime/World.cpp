//===- World.cpp - What all worlds do alike ---------------------------------===//
#include "runtime/World.h"

namespace ccl {

void World::depart(ControlBlock *control, bool owns, std::vector<Block> blocks) {
  std::lock_guard lock(departing);
  departed.push_back({control, owns, false, std::move(blocks)});
  std::erase_if(departed, [&](Departed &one) {
    if (!one.gaveBack &&
        one.control->leavers.load(std::memory_order_acquire) == one.control->ranks) {
      for (const Block &block : one.blocks)
        release(block, false);
      one.gaveBack = true;
      // The owner may free the control block at once: the last touch of all others.
      if (!one.owns)
        one.control->givers.fetch_add(1, std::memory_order_acq_rel);
    }
    if (!one.gaveBack || !one.owns)
      return one.gaveBack;
    if (one.control->givers.load(std::memory_order_acquire) < one.control->nearRanks - 1)
      return false;
    release({reinterpret_cast<char *>(one.control), one.control->bytes}, false);
    return true;
  });
}

} // namespace ccl
