//===- CudaRest.cpp - Functions of CUDA's driver that refuse ------------------------===//
//
// All that Cuda.cpp does not define: these give way to it.
//===----------------------------------------------------------------------===//
#include "runtime/cuda/DriverApi.h"

namespace ccl::cuda {

#define REFUSE(name, parameters)                                                                   \
  extern "C" __attribute__((visibility("default"), weak)) CUresult name parameters {               \
    return CUDA_ERROR_NOT_SUPPORTED;                                                               \
  }
CCL_CUDA_DRIVER_FUNCTIONS(REFUSE)

} // namespace ccl::cuda
