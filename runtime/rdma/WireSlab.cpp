//===- WireSlab.cpp -----------------------------------------------------------===//
#include "runtime/rdma/WireSlab.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace ccl::rdma {

llvm::Expected<std::unique_ptr<WireSlab>> WireSlab::create(size_t bytes,
                                                           llvm::ArrayRef<Nic *> nics) {
  // Slots may be much larger than what goes through them.
  void *pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED)
    return makeFailure(Failure::Machine, "no memory for {} bytes of slots: {}", bytes,
                       std::strerror(errno));
  std::unique_ptr<WireSlab> slab(new WireSlab(static_cast<char *>(pages), bytes));
  for (Nic *nic : nics) {
    llvm::Expected<std::unique_ptr<Region>> region = nic->registerMemory(pages, bytes);
    if (!region)
      return region.takeError();
    slab->regions.push_back(std::move(*region));
  }
  return slab;
}

WireSlab::~WireSlab() {
  regions.clear();
  munmap(pages, bytes);
}

} // namespace ccl::rdma
