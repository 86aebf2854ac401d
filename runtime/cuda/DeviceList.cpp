//===- DeviceList.cpp -------------------------------------------------------===//
#include "runtime/cuda/DeviceList.h"

#include "runtime/Deadline.h"
#include "runtime/cuda/DeviceArch.h"

namespace ccl::cuda {

std::string DeviceFacts::unusable() const {
  if (isCooperative)
    return "";
  return "it has no cooperative launches: blocks that wait for each other would wait for ever";
}

static llvm::Expected<DeviceFacts> factsOf(const Driver &driver, int ordinal) {
  DeviceFacts facts;
  facts.ordinal = ordinal;
  CUdevice device = 0;
  if (llvm::Error e = driver.check(driver.cuDeviceGet(&device, ordinal), "find GPU {}", ordinal))
    return e;
  char name[256] = {};
  if (llvm::Error e = driver.check(driver.cuDeviceGetName(name, sizeof name - 1, device),
                                   "ask GPU {} for its name", ordinal))
    return e;
  facts.name = name;
  if (llvm::Error e = driver.check(driver.cuDeviceTotalMem_v2(&facts.memoryBytes, device),
                                   "ask GPU {} for its memory", ordinal))
    return e;
  int cooperative = 0, domain = 0, bus = 0, slot = 0;
  const std::pair<CUdevice_attribute, int *> values[] = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &facts.major},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &facts.minor},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &facts.multiprocessors},
      {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, &cooperative},
      {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, &domain},
      {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, &bus},
      {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, &slot}};
  for (const auto &[attribute, value] : values)
    if (llvm::Error e = driver.check(driver.cuDeviceGetAttribute(value, attribute, device),
                                     "ask GPU {} for attribute {}", ordinal, unsigned(attribute)))
      return e;
  facts.isCooperative = cooperative != 0;
  facts.pciDomain = unsigned(domain);
  facts.pciBus = unsigned(bus);
  facts.pciDevice = unsigned(slot);
  llvm::Expected<std::string> arch = deviceArch(driver, device);
  if (!arch)
    return arch.takeError();
  facts.arch = std::move(*arch);
  return facts;
}

llvm::Expected<std::vector<DeviceFacts>> listDevices(const Driver &driver) {
  int count = 0;
  if (llvm::Error e = driver.check(driver.cuDeviceGetCount(&count), "count the GPUs"))
    return e;
  std::vector<DeviceFacts> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    llvm::Expected<DeviceFacts> facts = factsOf(driver, ordinal);
    if (!facts)
      return facts.takeError();
    devices.push_back(std::move(*facts));
  }
  return devices;
}

llvm::Expected<std::vector<std::pair<int, int>>> peersApart(const Driver &driver, int devices) {
  std::vector<CUdevice> handles;
  for (int ordinal = 0; ordinal < devices; ++ordinal) {
    handles.push_back(0);
    if (llvm::Error e =
            driver.check(driver.cuDeviceGet(&handles.back(), ordinal), "find GPU {}", ordinal))
      return e;
  }
  std::vector<std::pair<int, int>> apart;
  for (int a = 0; a < devices; ++a)
    for (int b = 0; b < devices; ++b) {
      int can = 0;
      if (a == b)
        continue;
      if (llvm::Error e = driver.check(
              driver.cuDeviceCanAccessPeer(&can, handles[size_t(a)], handles[size_t(b)]),
              "ask whether GPU {} reaches GPU {}", a, b))
        return e;
      if (!can)
        apart.emplace_back(a, b);
    }
  return apart;
}

static llvm::Expected<ShownDevices> show(const std::string &library) {
  ShownDevices shown;
  llvm::Expected<const Driver *> driver = Driver::get(library);
  if (!driver)
    return driver.takeError();
  shown.driver = *driver;
  llvm::Expected<std::vector<DeviceFacts>> devices = listDevices(**driver);
  if (!devices)
    return devices.takeError();
  shown.devices = std::move(*devices);
  llvm::Expected<std::vector<std::pair<int, int>>> pairs =
      peersApart(**driver, int(shown.devices.size()));
  if (pairs)
    shown.apart = std::move(*pairs);
  else
    shown.apartError = llvm::toString(pairs.takeError());
  return shown;
}

llvm::Expected<ShownDevices> showDevices(const std::string &library,
                                         std::chrono::milliseconds limit) {
  using Answer = llvm::Expected<ShownDevices>;
  std::optional<Answer> answer = within<Answer>(limit, [library] { return show(library); });
  if (answer)
    return std::move(*answer);
  return makeFailure(Failure::Timeout,
                     "CUDA's driver {} has not answered for {:g} s: it is stuck or GPUs are still "
                     "being started; see whether nvidia-smi answers, and what the kernel says of "
                     "NVRM (dmesg)",
                     library.empty() ? "libcuda.so.1" : library, double(limit.count()) / 1000);
}

} // namespace ccl::cuda
