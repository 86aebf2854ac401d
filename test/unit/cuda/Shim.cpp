//===- Shim.cpp -------------------------------------------------------------===//
#include "test/unit/cuda/Shim.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

using namespace ccl::cuda;

namespace ccl::test {

const Driver &shim() {
  static const Driver *driver = [] {
    setenv("CCL_SHIM_DEVICES", "4", 1);
    setenv("CCL_SHIM_SMS", "2", 1);
    return llvm::cantFail(Driver::get("shim"));
  }();
  return *driver;
}

std::string name(CUresult result) {
  const char *text = nullptr;
  shim().cuGetErrorName(result, &text);
  return text ? text : fmt::format("{}", unsigned(result));
}

InContext::InContext(int device)
    : context(llvm::cantFail(PrimaryContext::retain(shim(), device))),
      scope(llvm::cantFail(context.enter())) {}

const std::string &folder() {
  static const struct Folder {
    std::string path = "/tmp/ccl-cuda-XXXXXX";
    pid_t owner = getpid();
    Folder() { path = mkdtemp(path.data()); }
    ~Folder() {
      std::error_code error;
      if (owner == getpid())
        std::filesystem::remove_all(path, error);
    }
  } folder;
  return folder.path;
}

std::string compile(const std::string &arguments) {
  const std::string log = folder() + "/log";
  const std::string command = CCL_COMPILER " -std=c++20 " + arguments + " > " + log + " 2>&1";
  if (std::system(command.c_str()) == 0) // NOLINT: the command is ours
    return "";
  std::ostringstream text;
  text << command << '\n' << std::ifstream(log).rdbuf();
  return text.str();
}

const std::string &makeObject(const std::string &name, const std::string &source,
                              const std::string &flags) {
  static std::map<std::string, std::string> made;
  auto found = made.find(name);
  if (found != made.end())
    return found->second;
  const std::string path = folder() + "/" + name;
  std::ofstream(path + ".cpp") << source;
  REQUIRE(compile("-O1 -shared -fPIC -I" CCL_SOURCE_DIR " " + path + ".cpp -o " + path + ".so " +
                  flags) == "");
  std::ostringstream bytes;
  bytes << std::ifstream(path + ".so", std::ios::binary).rdbuf();
  return made[name] = bytes.str();
}

/// What a kernel waits for comes, or it fails: no test hangs.
static const char *const kernels = R"(
#include <chrono>
#include <cstddef>
#include <thread>

template <typename Condition>
static bool comes(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end)
      return false;
    std::this_thread::yield();
  }
  return true;
}
static unsigned load(unsigned *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }

#define KERNEL(name, ...)                                                                 \
  static int name(void **p, unsigned block, unsigned blocks);                             \
  extern "C" int name##_shim(int what, void **params, unsigned block, unsigned blocks,    \
                             size_t *sizes) {                                             \
    if (what == 1)                                                                        \
      return name(params, block, blocks);                                                 \
    static const size_t all[] = {__VA_ARGS__};                                            \
    for (size_t i = 0; sizes && i < sizeof all / sizeof *all; ++i)                        \
      sizes[i] = all[i];                                                                  \
    return sizeof all / sizeof *all;                                                      \
  }                                                                                       \
  static int name(void **p, unsigned block, unsigned blocks)
#define ARGUMENT(T, i) (*(T *)p[i])

// to[i] = to[i] * factor + add, for the elements of this block.
KERNEL(scale, sizeof(long long *), sizeof(long long), sizeof(long long), sizeof(long long)) {
  long long *to = ARGUMENT(long long *, 0);
  for (long long i = block; i < ARGUMENT(long long, 1); i += blocks)
    to[i] = to[i] * ARGUMENT(long long, 2) + ARGUMENT(long long, 3);
  return 0;
}
// Blocks meet; then each writes what it saw of its neighbour.
KERNEL(meet, sizeof(unsigned *), sizeof(unsigned *), sizeof(unsigned *)) {
  unsigned *arrived = ARGUMENT(unsigned *, 0), *values = ARGUMENT(unsigned *, 1);
  values[block] = block + 1;
  __atomic_add_fetch(arrived, 1, __ATOMIC_ACQ_REL);
  if (!comes([&] { return load(arrived) >= blocks; }))
    return 1;
  ARGUMENT(unsigned *, 2)[block] = values[(block + 1) % blocks];
  return 0;
}
// Ends when the word becomes what it should.
KERNEL(await, sizeof(unsigned *), sizeof(unsigned)) {
  return comes([&] { return load(ARGUMENT(unsigned *, 0)) == ARGUMENT(unsigned, 1); }) ? 0 : 1;
}
KERNEL(tell, sizeof(unsigned *), sizeof(unsigned)) {
  __atomic_store_n(ARGUMENT(unsigned *, 0), ARGUMENT(unsigned, 1), __ATOMIC_RELEASE);
  return 0;
}
// Says that it runs, and does so until the word after it changes.
KERNEL(hold, sizeof(unsigned *)) {
  unsigned *words = ARGUMENT(unsigned *, 0);
  __atomic_store_n(words, 1, __ATOMIC_RELEASE);
  return comes([&] { return load(words + 1) != 0; }) ? 0 : 1;
}
struct Big { char text[3]; long long numbers[40]; };
KERNEL(sum, sizeof(Big), sizeof(char), sizeof(long long *)) {
  long long all = ARGUMENT(char, 1);
  for (long long n : ARGUMENT(Big, 0).numbers)
    all += n;
  *ARGUMENT(long long *, 2) = all + ARGUMENT(Big, 0).text[2];
  return 0;
}
KERNEL(fail, sizeof(int)) { return ARGUMENT(int, 0); }
KERNEL(throwing, sizeof(int)) { throw 1; }
extern "C" int bare_shim(int what, void **, unsigned, unsigned, size_t *) { return 0; }
)";

const std::string &Kernels::image() { return makeObject("kernels", kernels); }

Kernels::Kernels() : module(llvm::cantFail(loadModule(shim(), image()))) {}

CUfunction Kernels::operator[](const char *kernel) const {
  return llvm::cantFail(findFunction(shim(), module, kernel));
}

} // namespace ccl::test
