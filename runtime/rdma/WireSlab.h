//===- WireSlab.h - Memory that peers write ---------------------------------------===//
#pragma once

#include "runtime/rdma/Nic.h"

#include "llvm/ADT/ArrayRef.h"

#include <functional>

namespace ccl::rdma {

/// Zeros, registered with some NICs as long as they are there.
class WireSlab {
public:
  using Memory = std::function<llvm::Expected<std::shared_ptr<void>>(size_t bytes)>;
  /// Errors (Failure::Machine): no memory, or what a NIC says. `memory`: see WireOptions.
  static llvm::Expected<std::unique_ptr<WireSlab>> create(size_t bytes, llvm::ArrayRef<Nic *> nics,
                                                          const Memory &memory);
  WireSlab(const WireSlab &) = delete;
  WireSlab &operator=(const WireSlab &) = delete;

  char *data() const { return static_cast<char *>(memory.get()); }
  /// By the order of `nics`.
  const Region &region(size_t nic) const { return *regions[nic]; }

private:
  explicit WireSlab(std::shared_ptr<void> memory) : memory(std::move(memory)) {}

  const std::shared_ptr<void> memory;
  std::vector<std::unique_ptr<Region>> regions;
};

} // namespace ccl::rdma
