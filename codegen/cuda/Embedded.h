//===- Embedded.h - The headers that generated kernels are compiled with --------===//
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ccl {

/// runtime/plan/CudaAbi.h, codegen/cuda/device/ccl.cuh and device/shim.h, as they were when the
/// library was built.
extern const std::string_view cudaAbiText, cudaHeaderText, cudaShimText;

enum class CudaDialect : uint8_t { Device, Shim };

/// `source` with the headers in place of its line `#include "ccl.cuh"` (or in front, if it has
/// none), so that it needs no other file: what `nvcc -cubin` and NVRTC take, or a C++ compiler
/// if it is for the shim. Messages name lines of "ccl.cuh" and the like, or of `name`.
std::string selfContained(std::string_view source, CudaDialect dialect,
                          std::string_view name = "program.cu");

} // namespace ccl
