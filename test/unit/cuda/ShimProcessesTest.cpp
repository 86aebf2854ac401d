//===- ShimProcessesTest.cpp - The stand-in in several processes -------------------===//
#include "test/unit/cuda/Shim.h"
#include "test/unit/runtime/Processes.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>

using namespace ccl;
using namespace ccl::cuda;
using namespace ccl::test;

namespace {

/// Two ends that are closed at the end; bytes and descriptors go through.
struct Wire {
  int ends[2];
  Wire() { REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0); }
  ~Wire() {
    close(ends[0]);
    close(ends[1]);
  }
  template <typename T>
  bool put(int end, const T &value) const {
    return write(ends[end], &value, sizeof value) == sizeof value;
  }
  /// False if nothing comes for long.
  template <typename T>
  bool get(int end, T &value) const {
    pollfd one{ends[end], POLLIN, 0};
    return poll(&one, 1, 30000) == 1 && read(ends[end], &value, sizeof value) == sizeof value;
  }
  bool putFile(int end, int file) const {
    char byte = 0, control[CMSG_SPACE(sizeof file)] = {};
    iovec bytes{&byte, 1};
    msghdr message = {};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
    return sendmsg(ends[end], &message, 0) == 1;
  }
  int getFile(int end) const {
    pollfd one{ends[end], POLLIN, 0};
    if (poll(&one, 1, 30000) != 1)
      return -1;
    char byte, control[CMSG_SPACE(sizeof(int))] = {};
    iovec bytes{&byte, 1};
    msghdr message = {};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (recvmsg(ends[end], &message, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&message))
      return -1;
    int file = -1;
    std::memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    return file;
  }
};

/// The first call that did not succeed, for a child's text.
class Calls {
public:
  Calls &operator<<(CUresult result) {
    ++number;
    if (result != CUDA_SUCCESS && text.empty())
      text = fmt::format("call {}: {}", number, name(result));
    return *this;
  }
  std::string text;

private:
  int number = 0;
};

/// A child that finds the kernels compiled: their folder is the parent's.
Child spawn(const std::function<std::string()> &body) {
  Kernels::image();
  return Child(body);
}

constexpr size_t unit = size_t(2) << 20;

/// Maps an allocation for device 0.
Calls &map(Calls &calls, CUmemGenericAllocationHandle handle, CUdeviceptr &pointer) {
  const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  return calls << shim().cuMemAddressReserve(&pointer, unit, 0, 0, 0)
               << shim().cuMemMap(pointer, unit, 0, handle, 0)
               << shim().cuMemSetAccess(pointer, unit, &access, 1);
}

} // namespace

// Before any other test: the parent must not have used it, and never does.

TEST_CASE("a descriptor brings memory of one process to another one's kernels") {
  const Wire wire;
  Child owner = spawn([&]() -> std::string {
    Calls calls;
    const InContext context;
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle handle = 0;
    calls << shim().cuMemCreate(&handle, unit, &prop, 0);
    CUdeviceptr pointer = 0;
    map(calls, handle, pointer);
    int file = -1;
    calls << shim().cuMemExportToShareableHandle(&file, handle,
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (!calls.text.empty() || !wire.putFile(0, file))
      return "owner: " + calls.text;
    close(file);
    const Kernels kernels;
    auto *words = reinterpret_cast<unsigned *>(pointer);
    calls << launch(kernels["await"], 1, nullptr, words, 5u)
          << launch(kernels["tell"], 1, nullptr, words + 1, 6u) << shim().cuCtxSynchronize();
    int done = 0;
    if (!wire.get(0, done)) // it is mapped there until then
      return "nobody answers";
    return calls.text + "done";
  });
  Child user = spawn([&]() -> std::string {
    Calls calls;
    const InContext context;
    const int file = wire.getFile(1);
    CUmemGenericAllocationHandle handle = 0;
    calls << shim().cuMemImportFromShareableHandle(&handle,
                                                   reinterpret_cast<void *>(intptr_t(file)),
                                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    close(file);
    CUdeviceptr pointer = 0;
    map(calls, handle, pointer);
    if (!calls.text.empty())
      return "user: " + calls.text;
    const Kernels kernels;
    auto *words = reinterpret_cast<unsigned *>(pointer);
    calls << launch(kernels["tell"], 1, nullptr, words, 5u)
          << launch(kernels["await"], 1, nullptr, words + 1, 6u) << shim().cuCtxSynchronize()
          << shim().cuMemUnmap(pointer, unit) << shim().cuMemRelease(handle)
          << shim().cuMemAddressFree(pointer, unit);
    wire.put(1, 1);
    return calls.text + "done";
  });
  CHECK(user.text() == "done");
  CHECK(owner.text() == "done");
}

TEST_CASE("an IPC handle brings memory of one process to another one") {
  const Wire wire;
  Child owner = spawn([&]() -> std::string {
    Calls calls;
    const InContext context;
    const Array<unsigned> before(5000), words(5000);
    CUipcMemHandle handle;
    CUdeviceptr back = 0;
    const PinnedMemory pinned = llvm::cantFail(allocatePinned(shim(), 64));
    if (shim().cuIpcGetMemHandle(&handle, CUdeviceptr(pinned.get())) != CUDA_ERROR_INVALID_VALUE)
      return "pinned memory has a handle";
    calls << shim().cuMemsetD32Async(words.address(), 41, 5000, nullptr)
          << shim().cuCtxSynchronize() << shim().cuIpcGetMemHandle(&handle, words.address() + 40);
    if (shim().cuIpcOpenMemHandle_v2(&back, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) !=
        CUDA_ERROR_INVALID_CONTEXT)
      return "a process opens its own handle";
    const Kernels kernels;
    if (!wire.put(0, handle))
      return "nobody there";
    calls << launch(kernels["await"], 1, nullptr, words.data() + 4999, 42u)
          << shim().cuCtxSynchronize();
    int done = 0;
    if (!wire.get(0, done))
      return "nobody answers";
    return calls.text + "done";
  });
  Child user = spawn([&]() -> std::string {
    Calls calls;
    const InContext context(1);
    CUipcMemHandle handle;
    if (!wire.get(1, handle))
      return "nothing comes";
    CUdeviceptr first = 0, second = 0;
    calls << shim().cuIpcOpenMemHandle_v2(&first, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
          << shim().cuIpcOpenMemHandle_v2(&second, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (!calls.text.empty() || first != second)
      return "user: " + calls.text;
    auto *words = reinterpret_cast<unsigned *>(first);
    if (words[0] != 41 || words[4999] != 41)
      return "other memory";
    const Kernels kernels;
    calls << shim().cuIpcCloseMemHandle(first)
          << launch(kernels["tell"], 1, nullptr, words + 4999, 42u)
          << shim().cuIpcCloseMemHandle(second);
    if (shim().cuIpcCloseMemHandle(second) != CUDA_ERROR_INVALID_VALUE)
      return "closed twice";
    wire.put(1, 1);
    char &byte = handle.reserved[9]; // of the number that the heap has
    byte = char(byte + 1);
    if (shim().cuIpcOpenMemHandle_v2(&first, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) !=
        CUDA_ERROR_INVALID_VALUE)
      return "another heap is taken for it";
    return calls.text + "done";
  });
  CHECK(user.text() == "done");
  CHECK(owner.text() == "done");
}

TEST_CASE("a child of a process that used it is told so") {
  Child child = spawn([]() -> std::string {
    const InContext context;
    Child grandchild([]() -> std::string {
      int count = 0;
      const std::string text = fmt::format("{}", unsigned(shim().cuDeviceGetCount(&count)));
      llvm::Expected<const Driver *> driver = Driver::get("shim");
      return driver ? "?" : text + " " + llvm::toString(driver.takeError());
    });
    return grandchild.text();
  });
  const std::string text = child.text();
  CHECK(text.find("3 cannot use CUDA") == 0); // CUDA_ERROR_NOT_INITIALIZED
  CHECK(text.find("was forked from") != std::string::npos);
}

TEST_CASE("a process ends while kernels and streams still work") {
  std::cout.flush(); // the child ends as programs do
  Child child = spawn([]() -> std::string {
    InContext context;
    const Kernels kernels;
    const Array<unsigned> words(2);
    CUstream streams[2];
    CUevent event = nullptr;
    Calls calls;
    for (CUstream &stream : streams)
      calls << shim().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    calls << shim().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)
          << launch(kernels["hold"], 4, streams[0], words.data())
          << shim().cuEventRecord(event, streams[0])
          << shim().cuStreamWaitEvent(streams[1], event, 0)
          << launch(kernels["tell"], 4, streams[1], words.data(), 2u);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (__atomic_load_n(words.data(), __ATOMIC_ACQUIRE) != 1)
      if (std::chrono::steady_clock::now() > end)
        exit(8);
    exit(calls.text.empty() ? 0 : 7); // does not end what is above
  });
  CHECK(child.text() == "");
  CHECK(child.status() == 0);
}

TEST_CASE("a launch that gets no threads fails, and is no hang") {
  if (std::string_view(CCL_SANITIZE) != "") {
    MESSAGE("skipped: sanitizers need address space");
    return;
  }
  Child child = spawn([]() -> std::string {
    const InContext context;
    const Kernels kernels;
    const Array<unsigned> words(100);
    CUresult result = launch(kernels["bare"], 1, nullptr);
    if (result == CUDA_SUCCESS)
      result = shim().cuCtxSynchronize();
    if (result != CUDA_SUCCESS)
      return name(result);
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t bytes = pages * 4096 + (1 << 20);
    const rlimit limit = {bytes, bytes};
    if (setrlimit(RLIMIT_AS, &limit) != 0)
      return "no limit";
    result = launchTogether(kernels["meet"], unsigned(shimResident), nullptr, words.data(),
                            words.data() + 1, words.data() + 50);
    return name(result == CUDA_SUCCESS ? shim().cuCtxSynchronize() : result);
  });
  CHECK(child.text() == "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES");
}

TEST_CASE("the number of devices is checked") {
  for (const auto &[devices, expected] :
       {std::pair("16", ""), std::pair("0", "CUDA_ERROR_NO_DEVICE"),
        std::pair("17", "CUDA_ERROR_INVALID_VALUE"), std::pair("x", "CUDA_ERROR_INVALID_VALUE")}) {
    Child child = spawn([devices = devices]() -> std::string {
      setenv("CCL_SHIM_DEVICES", devices, 1);
      llvm::Expected<const Driver *> driver = Driver::get("shim");
      if (!driver)
        return llvm::toString(driver.takeError());
      int count = 0;
      (*driver)->cuDeviceGetCount(&count);
      return std::to_string(count);
    });
    const std::string text = child.text();
    INFO(text);
    CHECK((*expected ? text.find(expected) != std::string::npos : text == "16"));
  }
}
