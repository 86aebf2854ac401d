//===- Machine.h - GPUs that only a text knows ------------------------------------===//
//
// For tests: a library that is both NVML and CUDA's driver, of a machine that the file in the
// variable TEST_GPUS describes, line by line:
//
//     driver 570.86.15
//     gpu 0000:1b:00 name=NVIDIA_H100 sm=90 gen=5 lanes=16 most=16 speed=26562
//     link 0-17 switch             of the GPU before; a number, or from-to
//     link 0-3 gpu 0000:1c:00      also: npu, unknown; without an address it is refused
//     link 4 inactive
//     fail nvmlDeviceGetName 999   of the GPU before; before the first, of the library
//     hang nvmlDeviceGetName       the same: it returns when the file is gone
//     apart 0 1                    CUDA's first GPU cannot use memory of the second
//
// Of a GPU: `mig`, `alone` (no cooperative launches). CUDA shows all, or those whose numbers
// CUDA_VISIBLE_DEVICES has.
//===----------------------------------------------------------------------===//
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ccl::test {

struct FakeLink {
  bool isActive = true, hasAddress = false;
  unsigned type = 255, domain = 0, bus = 0, device = 0;
};

struct FakeGpu {
  unsigned domain = 0, bus = 0, device = 0;
  std::map<std::string, std::string> facts;
  std::map<unsigned, FakeLink> links;
  std::map<std::string, unsigned> failures; ///< what they return
  std::set<std::string> hangs{};

  unsigned number(const std::string &key, unsigned otherwise) const;
};

struct FakeMachine {
  std::string driver;
  std::vector<FakeGpu> gpus;
  std::vector<size_t> visible; ///< CUDA's, by place in `gpus`
  std::map<std::string, unsigned> failures;
  std::set<std::string> hangs{};
  std::set<std::pair<int, int>> apart;
};

/// The file's. `again`: it is read once more, so that one process can have several.
const FakeMachine &fakeMachine(bool again = false);
/// Does not return before the file is gone.
void hangUntilFileIsGone();

} // namespace ccl::test
