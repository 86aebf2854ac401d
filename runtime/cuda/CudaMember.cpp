//===- CudaMember.cpp -------------------------------------------------------===//
#include "runtime/cuda/CudaMember.h"

namespace ccl::cuda {

llvm::Expected<std::unique_ptr<CudaMember>> CudaMember::join(const Driver &driver,
                                                             std::unique_ptr<Member> host,
                                                             int device, CudaGroupOptions options,
                                                             Milliseconds timeout) {
  auto group = CudaGroup::join(driver, std::move(host), device, options, timeout);
  if (!group)
    return group.takeError();
  return std::unique_ptr<CudaMember>(new CudaMember(std::move(*group)));
}

llvm::Error CudaMember::launch(const std::shared_ptr<LoadedCudaProgram> &program,
                               const CudaMemberLaunch &launch) {
  CudaLaunchOptions options;
  options.count = launch.count;
  if (launch.uneven)
    options.uneven = *launch.uneven;
  const CUstream stream = launch.stream.value_or(nullptr);
  if (launch.stream)
    options.streams = stream;
  options.timeout = launch.timeout;
  options.microBatches = launch.microBatches;
  options.instances = launch.instances;
  options.reason = launch.reason;
  const CudaLaunchArgs args{launch.in, launch.out};
  return group->launch(program, args, options);
}

} // namespace ccl::cuda
