//===- WireSlab.h - Memory that peers write ---------------------------------------===//
#pragma once

#include "runtime/rdma/Nic.h"

#include "llvm/ADT/ArrayRef.h"

namespace ccl::rdma {

/// Pages of zeros, registered with some NICs as long as they are there.
class WireSlab {
public:
  /// Errors (Failure::Machine): no memory, or what a NIC says.
  static llvm::Expected<std::unique_ptr<WireSlab>> create(size_t bytes, llvm::ArrayRef<Nic *> nics);
  ~WireSlab();
  WireSlab(const WireSlab &) = delete;
  WireSlab &operator=(const WireSlab &) = delete;

  char *data() const { return pages; }
  /// By the order of `nics`.
  const Region &region(size_t nic) const { return *regions[nic]; }

private:
  WireSlab(char *pages, size_t bytes) : pages(pages), bytes(bytes) {}

  char *const pages;
  const size_t bytes;
  std::vector<std::unique_ptr<Region>> regions;
};

} // namespace ccl::rdma
