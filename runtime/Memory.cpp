//===- Memory.cpp -----------------------------------------------------------===//
#include "runtime/Memory.h"

#include "runtime/bootstrap/Descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace ccl {

uint64_t availableMemory() {
  char text[512] = {};
  Descriptor file(::open("/proc/meminfo", O_RDONLY | O_CLOEXEC));
  if (!file || ::read(file.get(), text, sizeof text - 1) <= 0)
    return UINT64_MAX;
  const char *line = std::strstr(text, "MemAvailable:");
  return line ? std::strtoull(line + std::strlen("MemAvailable:"), nullptr, 10) << 10 : UINT64_MAX;
}

} // namespace ccl
