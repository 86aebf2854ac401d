//===- Detect.h - This machine ---------------------------------------------------===//
//
// By hwloc: NUMA domains, PCI Express, GPUs and NICs. Ranks are the GPUs; of a machine without
// any, its NUMA domains with cores if there are several, else its cores.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/topology/Machine.h"

namespace ccl::topology {

struct DetectOptions {
  /// hwloc's XML (`lstopo x.xml`) of another machine, from a trusted source; empty: this one.
  std::string hwlocXml;
  /// GB/s that a core copies, for ranks that are cores or NUMA domains; 0: it is measured, which
  /// takes some ten milliseconds.
  double copySpeed = 0;
  Assume assume;
};

/// `missing` says what could not be found out, `notes` what the ranks are. No device at all: hwloc
/// failed, and `missing` says at what.
Machine detect(const DetectOptions &options = {});

/// GB/s at which one core copies memory that no cache holds: the best of some.
double measureCopySpeed();

} // namespace ccl::topology
