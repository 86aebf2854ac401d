//===- DriverTest.cpp - Finding the driver, and what is said if there is none ------===//
#include "runtime/cuda/Driver.h"
#include "test/unit/cuda/Shim.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <fstream>

using namespace ccl;
using namespace ccl::cuda;
using namespace ccl::test;

namespace {

std::string errorOf(llvm::Expected<const Driver *> driver, Failure category = Failure::Machine) {
  if (driver)
    return "";
  std::string text;
  llvm::handleAllErrors(driver.takeError(), [&](const RuntimeError &error) {
    CHECK(error.category == category);
    text = error.message;
  });
  return text;
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// A library with all functions but `without`; cuInit returns `init`.
std::string makeDriver(const std::string &name, int version, const std::string &without,
                       int init = 0) {
  std::string source = "extern \"C\" {\n";
  auto add = [&](const std::string &function, const std::string &parameters,
                 const std::string &body) {
    if (function != without)
      source += "int " + function + "(" + parameters + ") { " + body + " }\n";
  };
#define ADD(name, parameters)                                                                      \
  if (llvm::StringRef(#name) != "cuDriverGetVersion" && llvm::StringRef(#name) != "cuInit")        \
    add(#name, "", "return 999;");
  CCL_CUDA_DRIVER_FUNCTIONS(ADD)
#undef ADD
  add("cuInit", "unsigned", "return " + std::to_string(init) + ";");
  add("cuDriverGetVersion", "int *to", "*to = " + std::to_string(version) + "; return 0;");
  makeObject(name, source + "}\n");
  return folder() + "/" + name + ".so";
}

struct Environment {
  explicit Environment(const char *value) { setenv("CCL_CUDA_LIBRARY", value, 1); }
  ~Environment() { unsetenv("CCL_CUDA_LIBRARY"); }
};

} // namespace

TEST_CASE("the stand-in is found beside the program, once") {
  const Driver &driver = shim();
  CHECK(driver.isShim());
  CHECK(driver.version() >= oldestDriver);
  CHECK(contains(driver.library(), "/libccljit-cuda-shim.so"));
  CHECK(llvm::cantFail(Driver::get("shim")) == &driver);
  const Environment environment("shim");
  CHECK(llvm::cantFail(Driver::get()) == &driver);
}

TEST_CASE("CCL_CUDA_LIBRARY is a path, too, and settings are checked") {
  const std::string path = makeDriver("complete", 12040, "");
  const Environment environment(path.c_str());
  const Driver *driver = llvm::cantFail(Driver::get());
  CHECK(driver->version() == 12040);
  CHECK_FALSE(driver->isShim());
  CHECK(driver->library() == path);
  setenv("CCL_TIMEOUT", "never", 1);
  CHECK(contains(errorOf(Driver::get(), Failure::BadArgument), "CCL_TIMEOUT=never"));
  unsetenv("CCL_TIMEOUT");
}

TEST_CASE("who has no driver is told what to install") {
  const std::string text = errorOf(Driver::get("/nowhere/libcuda.so"));
  CHECK(contains(text, "/nowhere/libcuda.so"));
  CHECK(contains(text, "install NVIDIA's driver"));
  CHECK(contains(text, "CCL_CUDA_LIBRARY=shim"));
  if (void *handle = dlopen("libcuda.so.1", RTLD_LAZY)) {
    dlclose(handle);
    MESSAGE("skipped: this machine has libcuda.so.1");
  } else {
    CHECK(contains(errorOf(Driver::get("")), "libcuda.so.1"));
  }
}

TEST_CASE("a library that is no driver, is too old or lacks a function is refused") {
  CHECK(contains(errorOf(Driver::get("libm.so.6")), "libm.so.6 is not CUDA's driver"));
  const std::string old = errorOf(Driver::get(makeDriver("old", 11040, "cuMemMap")));
  CHECK(contains(old, "of version 11.4; at least 12.0 is needed"));
  CHECK(contains(errorOf(Driver::get(makeDriver("partial", 12090, "cuMemMap"))),
                 "of version 12.9 has no function cuMemMap"));
  CHECK(contains(errorOf(Driver::get(makeDriver("broken", 12000, "", 100))),
                 "cannot initialize CUDA"));
}

TEST_CASE("errors say what was attempted, their name and their text") {
  const Driver &driver = shim();
  CHECK_FALSE(bool(driver.check(CUDA_SUCCESS, "nothing")));
  const std::string text =
      llvm::toString(driver.check(CUDA_ERROR_OUT_OF_MEMORY, "allocate {} bytes on GPU {}", 12, 3));
  CHECK(text == "cannot allocate 12 bytes on GPU 3: CUDA_ERROR_OUT_OF_MEMORY (there is no memory "
                "left)");
  CHECK(driver.describe(CUresult(12345)) == "CUDA error 12345");
  for (const unsigned code : {0u, 1u, 205u, 720u, 908u, 999u})
    CHECK(contains(driver.describe(CUresult(code)), "CUDA_"));
}

TEST_CASE("owners give back, on any thread and in any context") {
  const InContext context(1);
  size_t before = 0, during = 0, after = 0, total = 0;
  REQUIRE(shim().cuMemGetInfo_v2(&before, &total) == CUDA_SUCCESS);
  {
    DeviceMemory memory = llvm::cantFail(allocate(shim(), 1 << 20));
    DeviceMemory moved = std::move(memory);
    CHECK_FALSE(memory);
    shim().cuMemGetInfo_v2(&during, &total);
    CHECK(before - during == 1 << 20);
    moved = DeviceMemory();
    shim().cuMemGetInfo_v2(&after, &total);
    CHECK(after == before);
    moved = llvm::cantFail(allocate(shim(), 4096));
    const InContext other(2);
    moved.reset();
    CUcontext current = nullptr;
    shim().cuCtxGetCurrent(&current);
    CHECK(current == other.get());
  }
  shim().cuMemGetInfo_v2(&after, &total);
  CHECK(after == before);
  CHECK(llvm::toString(allocate(shim(), size_t(1) << 50).takeError()) ==
        "cannot allocate 1125899906842624 bytes on a GPU: CUDA_ERROR_OUT_OF_MEMORY (there is no "
        "memory left)");
}

TEST_CASE("without a context nothing is owned") {
  llvm::Expected<cuda::Stream> stream = makeStream(shim());
  REQUIRE_FALSE(bool(stream));
  CHECK(contains(llvm::toString(stream.takeError()), "cannot make a stream of CUDA: "
                                                     "CUDA_ERROR_INVALID_CONTEXT"));
}
