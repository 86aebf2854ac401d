//===- DeviceArch.cpp -------------------------------------------------------===//
#include "runtime/cuda/DeviceArch.h"

namespace ccl::cuda {

llvm::Expected<std::string> deviceArch(const Driver &driver, CUdevice device) {
  if (driver.isShim())
    return "shim";
  int major = 0, minor = 0;
  for (auto [value, attribute] : {std::pair(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                                  std::pair(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)})
    if (llvm::Error e = driver.check(driver.cuDeviceGetAttribute(value, attribute, device),
                                     "ask GPU {} for its compute capability", device))
      return e;
  return fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : "");
}

std::optional<std::string> firstDeviceArch(llvm::StringRef library) {
  llvm::Expected<const Driver *> driver = Driver::get(library);
  if (!driver) {
    llvm::consumeError(driver.takeError());
    return std::nullopt;
  }
  CUdevice device = 0;
  if ((*driver)->cuDeviceGet(&device, 0) != CUDA_SUCCESS)
    return std::nullopt;
  llvm::Expected<std::string> arch = deviceArch(**driver, device);
  if (arch)
    return std::move(*arch);
  llvm::consumeError(arch.takeError());
  return std::nullopt;
}

} // namespace ccl::cuda
