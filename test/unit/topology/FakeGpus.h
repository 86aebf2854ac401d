//===- FakeGpus.h - Detection of machines that a text describes ----------------------===//
#pragma once

#include "frontend/topology/Detect.h"
#include "test/unit/topology/Files.h"

namespace ccl::test {

inline const std::string gpuLibrary = CCL_TEST_GPUS "/test-gpus.so";
inline const std::string oldGpuLibrary = CCL_TEST_GPUS "/test-gpus-old.so";

/// hwloc's XML of one socket whose host bridge has a GPU on each of these buses. Their slots are
/// those of idle GPUs: 2.5 GT/s.
std::string gpuXml(const std::vector<int> &buses);

/// What is found of a machine that hwloc sees as `xml`, and the libraries as `text`
/// (test/gpus/Machine.h). `visible`: CUDA_VISIBLE_DEVICES, if not null.
topology::Machine detectFake(const std::string &xml, const std::string &text,
                             const char *visible = nullptr,
                             topology::DetectOptions options = {"", 5, {}, gpuLibrary, gpuLibrary});

/// "gpu0", "gpu1", ...: which PCI buses the ranks are at, in order.
std::vector<int> rankBuses(const topology::Machine &machine);

} // namespace ccl::test
