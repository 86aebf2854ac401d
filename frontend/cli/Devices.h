//===- Devices.h - What ranks can live on here ----------------------------------===//
#pragma once

#include "runtime/Settings.h"
#include "runtime/cuda/DeviceList.h"
#include "runtime/rdma/Nic.h"

#include <optional>
#include <string>
#include <vector>

namespace ccl::cli {

/// A row of `ccl info -d`.
struct DeviceRow {
  std::string name;
  bool isUsable = false;
  std::string text = {}; ///< what it is, or why it cannot be used and what to do
  std::optional<cuda::DeviceFacts> gpu = std::nullopt;
  std::optional<rdma::NicFacts> nic = std::nullopt;
};

/// Threads, processes, the GPUs of CUDA's driver, its stand-in, NVRTC and ports of RDMA NICs.
/// Initializes the driver, but makes no context.
std::vector<DeviceRow> findDevices(const Settings &settings);

/// Of a row of a GPU that cannot be used, too: "NVIDIA H100 80GB HBM3, 79.2 GiB, compute
/// capability 9.0 (sm_90a), 132 multiprocessors".
std::string describe(const cuda::DeviceFacts &gpu);

} // namespace ccl::cli
