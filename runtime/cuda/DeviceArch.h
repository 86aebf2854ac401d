//===- DeviceArch.h - Which code a GPU takes ----------------------------------===//
#pragma once

#include "runtime/cuda/Driver.h"

#include <optional>

namespace ccl::cuda {

/// CudaCode::arch for a device: "sm_90a", with what only its own generation has where there is
/// such a thing; "shim" for the stand-in's.
llvm::Expected<std::string> deviceArch(const Driver &driver, CUdevice device);
/// That of this machine's first GPU. Nothing if it has none, or no driver.
std::optional<std::string> firstDeviceArch(llvm::StringRef library);

} // namespace ccl::cuda
