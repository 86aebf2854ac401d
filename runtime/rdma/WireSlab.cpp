//===- WireSlab.cpp -----------------------------------------------------------===//
#include "runtime/rdma/WireSlab.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace ccl::rdma {

static llvm::Expected<std::shared_ptr<void>> mapPages(size_t bytes) {
  // Slots may be much larger than what goes through them.
  void *pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED)
    return makeFailure(Failure::Machine, "no memory for {} bytes of slots: {}", bytes,
                       std::strerror(errno));
  return std::shared_ptr<void>(pages, [bytes](void *mapped) { munmap(mapped, bytes); });
}

llvm::Expected<std::unique_ptr<WireSlab>> WireSlab::create(size_t bytes, llvm::ArrayRef<Nic *> nics,
                                                           const Memory &memory) {
  llvm::Expected<std::shared_ptr<void>> pages = memory ? memory(bytes) : mapPages(bytes);
  if (!pages)
    return pages.takeError();
  std::unique_ptr<WireSlab> slab(new WireSlab(std::move(*pages)));
  for (Nic *nic : nics) {
    llvm::Expected<std::unique_ptr<Region>> region = nic->registerMemory(slab->data(), bytes);
    if (!region)
      return region.takeError();
    slab->regions.push_back(std::move(*region));
  }
  return slab;
}

} // namespace ccl::rdma
