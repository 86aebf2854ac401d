//===- Embedded.h - The headers that generated kernels are compiled with --------===//
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace ccl {

struct EmbeddedHeader {
  std::string_view name; ///< "ccl.cuh"
  std::string_view text;
};
/// runtime/plan/CudaAbi.h and the files of codegen/cuda/device, as they were when the library was
/// built.
extern const llvm::ArrayRef<EmbeddedHeader> cudaHeaders;

enum class CudaDialect : uint8_t { Device, Shim };

/// `source` with the headers in place of its line `#include "ccl.cuh"` (or in front, if it has
/// none), so that it needs no other file: what `nvcc -cubin` and NVRTC take, or a C++ compiler
/// if it is for the shim. Messages name lines of "ccl.cuh" and the like, or of `name`.
std::string selfContained(std::string_view source, CudaDialect dialect,
                          std::string_view name = "program.cu");

} // namespace ccl
