//===- Detect.h - This machine ---------------------------------------------------===//
//
// By hwloc: NUMA domains, PCI Express, GPUs and NICs; by NVML and CUDA's driver, where they are
// there: NVLinks, and which GPUs this process sees. Ranks are the GPUs; of a machine without any,
// its NUMA domains with cores if there are several, else its cores.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/topology/Machine.h"

#include <chrono>

namespace ccl::topology {

struct DetectOptions {
  /// hwloc's XML (`lstopo x.xml`) of another machine, from a trusted source; empty: this one.
  std::string hwlocXml;
  /// GB/s that a core copies, for ranks that are cores or NUMA domains; 0: it is measured, which
  /// takes some ten milliseconds.
  double copySpeed = 0;
  Assume assume;
  /// Paths of the settings CCL_NVML_LIBRARY and CCL_CUDA_LIBRARY; "": the standard ones. Asked
  /// only of this machine, or of hwloc's XML that says to be of it (HWLOC_THISSYSTEM=1).
  std::string nvmlLibrary, cudaLibrary;
  /// How long each of them may take.
  std::chrono::milliseconds answerLimit = std::chrono::seconds(30);
};

/// `missing` says what could not be found out, `notes` what the ranks are. No device at all: hwloc
/// failed, and `missing` says at what. CUDA's driver is initialized in this process, so one that
/// it forks later cannot use it.
Machine detect(const DetectOptions &options = {});

/// GB/s at which one core copies memory that no cache holds: the best of some.
double measureCopySpeed();

} // namespace ccl::topology
