//===- ShimTest.cpp - Kernels as C++ of this machine ------------------------------===//
#include "codegen/cuda/Embedded.h"
#include "codegen/cuda/ShimCompile.h"
#include "test/unit/codegen/Folder.h"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace fs = std::filesystem;

namespace ccl::test {
namespace {

using Entry = int (*)(int what, void **params, unsigned block, unsigned blocks, size_t *sizes);

/// `threads`: of a block.
ShimCompiler compiler(int64_t threads = 1) {
  llvm::Expected<ShimCompiler> found = ShimCompiler::find("", CCL_SANITIZE, threads);
  REQUIRE_MESSAGE(found, llvm::toString(found.takeError()));
  return *found;
}

/// A source with all that it needs.
struct Whole {
  std::string text;
};
Whole behindShim(const std::string &kernels) {
  auto header = [](std::string_view name) {
    return std::string(
        llvm::find_if(cudaHeaders, [&](const EmbeddedHeader &h) { return h.name == name; })->text);
  };
  std::string shim = header("shim.h");
  const std::string include = "#include \"fibers.cuh\"\n";
  return {shim.replace(shim.find(include), include.size(), header("fibers.cuh")) + kernels};
}

/// An image in this process.
class Image {
public:
  explicit Image(const std::string &kernels, int64_t threads = 1)
      : Image(behindShim(kernels), threads) {}
  explicit Image(const Whole &source, int64_t threads = 1) {
    llvm::Expected<std::string> image = compiler(threads).compile(source.text);
    REQUIRE_MESSAGE(image, llvm::toString(image.takeError()));
    const int file = memfd_create("image", MFD_CLOEXEC);
    REQUIRE(::write(file, image->data(), image->size()) == ssize_t(image->size()));
    handle = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(handle, dlerror());
    close(file);
  }
  Image(const Image &) = delete;
  Image &operator=(const Image &) = delete;
  ~Image() { dlclose(handle); }
  Entry entry(const char *name) const {
    void *address = dlsym(handle, name);
    REQUIRE_MESSAGE(address, dlerror());
    return reinterpret_cast<Entry>(address);
  }
  bool exports(const char *name) const { return dlsym(handle, name) != nullptr; }

private:
  void *handle = nullptr;
};

TEST_CASE("parameters, blocks and shared memory") {
  Image image(R"(
    struct Big { long long words[5]; };
    __shared__ int own;
    extern "C" __global__ void __launch_bounds__(512)
        fill(int *to, const __grid_constant__ Big big, char add) {
      using namespace ccl::cuda;
      own = blockIndex();
      syncBlock();
      to[blockIndex()] = own * 1000 + int(big.words[4]) + add + 100 * blockCount();
    }
    extern "C" __global__ void nothing() {}
    CCL_EXPORT(fill)
    CCL_EXPORT(nothing)
  )");
  const Entry fill = image.entry("fill_shim");
  size_t sizes[3] = {};
  CHECK(fill(0, nullptr, 0, 0, nullptr) == 3);
  CHECK(fill(0, nullptr, 0, 0, sizes) == 3);
  CHECK(sizes[0] == sizeof(int *));
  CHECK(sizes[1] == 40);
  CHECK(sizes[2] == 1);
  int result[3] = {}, *to = result;
  int64_t big[5] = {0, 0, 0, 0, 7};
  char add = 2;
  void *params[] = {&to, big, &add};
  std::vector<std::thread> threads;
  for (unsigned block = 0; block < 3; ++block)
    threads.emplace_back([&, block] { fill(1, params, block, 3, nullptr); });
  for (std::thread &thread : threads)
    thread.join();
  for (int block = 0; block < 3; ++block)
    CHECK(result[block] == 1000 * block + 309);
  CHECK(fill(2, params, 0, 1, nullptr) == -1);
  CHECK(image.entry("nothing_shim")(0, nullptr, 0, 0, nullptr) == 0);
  CHECK(image.entry("nothing_shim")(1, nullptr, 0, 1, nullptr) == 0);
  CHECK(!image.exports("fill")); // images share no names
}

TEST_CASE("threads of a block meet at barriers") {
  Image image(R"(
    using namespace ccl::cuda;
    __shared__ int first, other;
    __global__ void meet(int *to) {
      const int me = threadIndex();
      if (me == 0)
        first = 7;
      syncBlock();
      const int seen = first;
      const bool any = syncAny(me == threadCount() - 1), none = syncAny(false);
      const bool all = allOfWarp(me < 32);
      if (me == 5)
        relax(); // the others go on
      syncWarp();
      to[me] = seen + 10 * any + 100 * none + 1000 * all;
    }
    __global__ void miss(int *to) {
      if (threadIndex() == 0)
        other = 7;
      to[threadIndex()] = other;
    }
    __global__ void differ() {
      if (threadIndex() < 40)
        syncBlock();
      else
        syncWarp();
    }
    CCL_EXPORT(meet)
    CCL_EXPORT(miss)
    CCL_EXPORT(differ)
  )",
              64);
  int result[64] = {}, *to = result;
  void *params[] = {&to};
  for (size_t threads : {size_t(32), size_t(64), size_t(512)}) {
    CAPTURE(threads);
    std::fill(std::begin(result), std::end(result), -1);
    CHECK(image.entry("meet_shim")(1, params, 0, 1, &threads) == 0);
    for (int i = 0; i < 64; ++i)
      CHECK(result[i] == (threads == 32 && i >= 32 ? -1 : i < 32 ? 1017 : 17));
  }
  if (std::string_view(CCL_SANITIZE) == "thread")
    return; // which reports the next ones
  // Who is first is drawn.
  size_t threads = 64;
  CHECK(image.entry("miss_shim")(1, params, 0, 1, &threads) == 0);
  CHECK(std::count(std::begin(result), std::end(result), 7) < 64);
  const pid_t child = fork();
  if (child == 0) {
    close(2);
    signal(SIGABRT, SIG_DFL);
    image.entry("differ_shim")(1, nullptr, 0, 1, &threads);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
}

/// A sends n words to B through one line, again and again; each says when it has got one.
const char *const wires = R"(
  using u64 = unsigned long long;
  using namespace ccl::cuda;
  extern "C" __global__ void ll(char *line, u64 *freed, u64 n, u64 *sum) {
    for (u64 i = 0; i < n; ++i) {
      const unsigned flag = unsigned(2 * i + 1);
      if (blockIndex() == 0) {
        while (loadAcquire(freed) < i)
          relax();
        storeLine(line, i * 0x100000001ull, flag);
      } else {
        u64 word;
        while (!loadLine(line, flag, word))
          relax();
        *sum += word;
        storeRelease(freed, i + 1);
      }
    }
  }
  extern "C" __global__ void ll128(char *line, u64 *freed, u64 n, u64 *sum) {
    for (u64 i = 0; i < n; ++i)
      if (blockIndex() == 0) {
        while (loadAcquire(freed) < i)
          relax();
        for (int lane = 0; lane < 16; ++lane)
          storeWord(line, lane, lane == 15 ? i + 1 : i * 16 + lane);
      } else {
        for (int lane = 0; lane < 16; ++lane) {
          u64 word;
          while (!loadWord(line, lane, i + 1, word))
            relaxLong();
          *sum += lane < 15 ? word : 0;
        }
        storeRelease(freed, i + 1);
      }
  }
  CCL_EXPORT(ll)
  CCL_EXPORT(ll128)
)";

uint64_t sumOver(Entry kernel, uint64_t n) {
  alignas(128) uint64_t line[16] = {};
  uint64_t freed = 0, sum = 0;
  uint64_t *freedAt = &freed, *sumAt = &sum;
  void *lineAt = line;
  void *params[] = {&lineAt, &freedAt, &n, &sumAt};
  std::thread sender([&] { kernel(1, params, 0, 2, nullptr); });
  kernel(1, params, 1, 2, nullptr);
  sender.join();
  return sum;
}

TEST_CASE("data with flags arrives whole") {
  Image image(wires);
  const uint64_t n = 3000;
  CHECK(sumOver(image.entry("ll_shim"), n) == n * (n - 1) / 2 * 0x100000001ull);
  uint64_t expected = 0;
  for (uint64_t i = 0; i < n; ++i)
    for (uint64_t lane = 0; lane < 15; ++lane)
      expected += i * 16 + lane;
  CHECK(sumOver(image.entry("ll128_shim"), n) == expected);
}

/// What a program's source has in front of it.
const char *const head = R"(
#define CCL_BUFFERS 1
#define CCL_ROLES "i"
#define CCL_CHUNKS 1
#define CCL_ELEMENT F32
#define CCL_REDUCTION Sum
#define CCL_OPERANDS 2
#define CCL_AGENTS 1
#define CCL_BARRIERS 0
#define CCL_ENDS 1
#define CCL_NAMED 2
#define CCL_ROWS 0
#define CCL_FLAGS
#define CCL_SLOTS 1
#define CCL_PEERS 0
#define CCL_TURNS 0
#define CCL_WIRES (simple | lamport)
#define CCL_SOURCES 1
#include "ccl.cuh"
using namespace ccl::cuda;
)";

/// A sends n words to B through one, which B makes fresh again.
const char *const words = R"(
  extern "C" __global__ void lamport_words(char *line, u64 *freed, u64 n, u64 *sum) {
    u64 *slot = reinterpret_cast<u64 *>(line);
    if (blockIndex() == 1) {
      storeRelaxed(slot, unwritten);
      storeRelease(freed, 1);
    }
    for (u64 i = 0; i < n; ++i)
      if (blockIndex() == 0) {
        while (loadAcquire(freed) < i + 1)
          relax();
        storeRelaxed(slot, written(i % 3 == 0 ? unwritten : i));
      } else {
        u64 word;
        while ((word = loadRelaxed(slot)) == unwritten)
          relax();
        *sum += word;
        storeRelaxed(slot, unwritten);
        storeRelease(freed, i + 2);
      }
  }
  CCL_EXPORT(lamport_words)
  extern "C" __global__ void mark(u64 *word) { *word = written(*word); }
  CCL_EXPORT(mark)
)";

TEST_CASE("lamport words that are there differ from those that are not, and equal the data") {
  const Image image{Whole{selfContained(std::string(head) + words, CudaDialect::Shim)}};
  const Entry mark = image.entry("mark_shim");
  const uint64_t unwritten = 0x8000000080000000;
  for (uint64_t data : {uint64_t(0), unwritten, unwritten ^ 1, unwritten - 1, uint64_t(0x80000000),
                        uint64_t(1) << 63, ~uint64_t(0)}) {
    uint64_t word = data, *at = &word;
    void *params[] = {&at};
    mark(1, params, 0, 1, nullptr);
    CHECK(word != unwritten);
    CHECK((word == data) == (data != unwritten));
    // Zeros of any sign, in floats of one, two and four bytes.
    if (data == unwritten)
      CHECK((word & 0x7fffffff7fffffff) == 0);
  }
  const uint64_t n = 3000;
  uint64_t expected = 0;
  for (uint64_t i = 0; i < n; ++i)
    expected += i % 3 == 0 ? uint64_t(1) << 63 : i;
  CHECK(sumOver(image.entry("lamport_words_shim"), n) == expected);
}

TEST_CASE("what is wrong with a source or a compiler is said, and nothing is left") {
  const Folder folder;
  setenv("TMPDIR", folder.path.c_str(), 1);
  llvm::Expected<std::string> image = compiler().compile("#line 3 \"ccl.cuh\"\nint x = nothing;\n");
  REQUIRE(!image);
  const std::string why = llvm::toString(image.takeError());
  CHECK_MESSAGE(why.find("ccl.cuh:3:") != why.npos, why);
  CHECK_MESSAGE(why.find("exit status 1") != why.npos, why);

  llvm::Expected<ShimCompiler> absent = ShimCompiler::find("no-such-compiler", "");
  REQUIRE(!absent);
  CHECK(llvm::toString(absent.takeError()) ==
        "CCL_SHIM_CXX=no-such-compiler: there is no such program");
  CHECK(fs::is_empty(folder.path));
  unsetenv("TMPDIR");
}

TEST_CASE("a compiler that hangs is ended") {
  const Folder folder;
  const fs::path script = folder.path / "slow";
  std::ofstream(script) << "#!/bin/sh\nsleep 600 & wait\n";
  fs::permissions(script, fs::perms::owner_all);
  llvm::Expected<ShimCompiler> slow = ShimCompiler::find(script.string(), "");
  REQUIRE(slow);
  const auto start = std::chrono::steady_clock::now();
  llvm::Expected<std::string> image = slow->compile("", std::chrono::seconds(1));
  REQUIRE(!image);
  CHECK(llvm::toString(image.takeError()).find("ended after 1 s, its limit") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("nothing is left of a process that is killed while it compiles") {
  for (const int number : {SIGKILL, SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(number);
    const Folder folder, temporary;
    const fs::path script = folder.path / "slow", pidFile = folder.path / "pid";
    std::ofstream(script) << "#!/bin/sh\ntouch object.o\necho $$ > " << pidFile.string()
                          << "\nsleep 600 & wait\n";
    fs::permissions(script, fs::perms::owner_all);
    llvm::Expected<ShimCompiler> slow = ShimCompiler::find(script.string(), "");
    REQUIRE(slow);
    const pid_t child = fork();
    if (child == 0) {
      signal(number, SIG_DFL);
      setenv("TMPDIR", temporary.path.c_str(), 1);
      llvm::consumeError(slow->compile("").takeError());
      _exit(0);
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    auto until = [&](auto done) {
      while (!done() && std::chrono::steady_clock::now() < deadline)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return done();
    };
    REQUIRE(until([&] { return contentOf(pidFile).ends_with("\n"); }));
    CHECK_FALSE(fs::is_empty(temporary.path));
    kill(child, number);
    CHECK(waitpid(child, nullptr, 0) == child);
    CHECK(until([&] { return fs::is_empty(temporary.path); }));
    // One that nobody has reaped yet has no words.
    const std::string pid = contentOf(pidFile);
    const fs::path words = fs::path("/proc") / pid.substr(0, pid.size() - 1) / "cmdline";
    CHECK(until([&] { return contentOf(words).empty(); }));
  }
}

TEST_CASE("a folder that cannot be made is no fault of the compiler") {
  setenv("TMPDIR", "/nonexistent", 1);
  llvm::Expected<std::string> image = compiler().compile("");
  unsetenv("TMPDIR");
  REQUIRE(!image);
  llvm::Error error = image.takeError();
  CHECK_FALSE(error.isA<CompilerFailed>());
  const std::string text = llvm::toString(std::move(error));
  CHECK_MESSAGE(text.find("cannot make a folder /nonexistent/ccl-shim-") == 0, text);
  CHECK_MESSAGE(text.ends_with("; TMPDIR says where"), text);
}

TEST_CASE("another compiler is another identity") {
  const Folder folder;
  const fs::path script = folder.path / "c++";
  std::ofstream(script) << "#!/bin/sh\n";
  fs::permissions(script, fs::perms::owner_all);
  llvm::Expected<ShimCompiler> other = ShimCompiler::find(script.string(), CCL_SANITIZE);
  REQUIRE(other);
  CHECK(other->identity() != compiler().identity());
  CHECK(compiler().identity() == compiler().identity());
}

TEST_CASE("a source becomes one that needs no file") {
  const std::string source = "#define CCL_CHUNKS 4\n\n#include \"ccl.cuh\"\nint last;\n";
  const std::string device = selfContained(source, CudaDialect::Device),
                    shim = selfContained(source, CudaDialect::Shim);
  CHECK(device.find("#line 1 \"program.cu\"\n#define CCL_CHUNKS 4\n\n#line 1 \"CudaAbi.h\"\n") ==
        0);
  CHECK(device.ends_with("#line 4 \"program.cu\"\nint last;\n"));
  CHECK(device.find("#include") == device.npos);
  CHECK(device.find("#pragma once") == device.npos);
  CHECK(shim.find("#line 1 \"shim.h\"\n") != shim.npos);
  // Each header is there once, unless it is for the other dialect.
  for (const EmbeddedHeader &header : cudaHeaders)
    CHECK_MESSAGE((device.find(header.text.substr(0, 80)) != device.npos) ==
                      (header.name != "shim.h" && header.name != "fibers.cuh"),
                  header.name);
}

TEST_CASE("the library has the headers as they are") {
  const fs::path root(CCL_ROOT);
  size_t files = 1;
  CHECK(cudaHeaders.front().text == contentOf(root / "runtime/plan/CudaAbi.h"));
  for (const fs::directory_entry &file : fs::directory_iterator(root / "codegen/cuda/device")) {
    const std::string name = file.path().filename().string();
    auto header =
        llvm::find_if(cudaHeaders, [&](const EmbeddedHeader &h) { return h.name == name; });
    REQUIRE_MESSAGE(header != cudaHeaders.end(), name);
    CHECK_MESSAGE(header->text == contentOf(file.path()), name);
    ++files;
  }
  CHECK(cudaHeaders.size() == files);
}

} // namespace
} // namespace ccl::test
