//===- Nvrtc.cpp ------------------------------------------------------------===//
#include "codegen/cuda/Nvrtc.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/ranges.h>

#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <mutex>

using namespace llvm;

namespace ccl {

template <typename... T>
static Error failure(fmt::format_string<T...> format, T &&...values) {
  return createStringError(inconvertibleErrorCode(),
                           fmt::format(format, std::forward<T>(values)...));
}

//===----------------------------------------------------------------------===//
// The library
//===----------------------------------------------------------------------===//

/// As NVIDIA's documentation of NVRTC declares them; results are 0 or an error.
struct Nvrtc::Functions {
  using Program = void *;
  const char *(*getErrorString)(int result);
  int (*version)(int *major, int *minor);
  int (*getNumSupportedArchs)(int *count);
  int (*getSupportedArchs)(int *archs);
  int (*createProgram)(Program *program, const char *source, const char *name, int numHeaders,
                       const char *const *headers, const char *const *includeNames);
  int (*destroyProgram)(Program *program);
  int (*compileProgram)(Program program, int numOptions, const char *const *options);
  int (*getProgramLogSize)(Program program, size_t *bytes);
  int (*getProgramLog)(Program program, char *log);
  int (*getCUBINSize)(Program program, size_t *bytes);
  int (*getCUBIN)(Program program, char *cubin);
};

Error Nvrtc::load(void *library, StringRef name) {
  auto table = std::make_shared<Functions>();
  const char *missing = nullptr;
  auto find = [&](auto &function, const char *symbol) {
    void *address = dlsym(library, symbol);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
    if (!address && !missing)
      missing = symbol;
  };
  find(table->getErrorString, "nvrtcGetErrorString");
  find(table->version, "nvrtcVersion");
  find(table->getNumSupportedArchs, "nvrtcGetNumSupportedArchs");
  find(table->getSupportedArchs, "nvrtcGetSupportedArchs");
  find(table->createProgram, "nvrtcCreateProgram");
  find(table->destroyProgram, "nvrtcDestroyProgram");
  find(table->compileProgram, "nvrtcCompileProgram");
  find(table->getProgramLogSize, "nvrtcGetProgramLogSize");
  find(table->getProgramLog, "nvrtcGetProgramLog");
  find(table->getCUBINSize, "nvrtcGetCUBINSize");
  find(table->getCUBIN, "nvrtcGetCUBIN");
  if (missing)
    return failure("{} has no {}: expected NVRTC of CUDA 11.2 or later", name.str(), missing);
  int count = 0;
  if (table->version(&majorVersion, &minorVersion) != 0 ||
      table->getNumSupportedArchs(&count) != 0 || count < 0)
    return failure("{} does not tell its version", name.str());
  archs.resize(size_t(count));
  if (table->getSupportedArchs(archs.data()) != 0)
    return failure("{} does not tell its architectures", name.str());
  sort(archs);
  functions = std::move(table);
  return Error::success();
}

/// Where it may be, unless somebody says where it is.
static std::vector<std::string> candidates() {
  constexpr const char *names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                   "libnvrtc.so"};
  std::vector<std::string> paths(std::begin(names), std::end(names));
  auto add = [&](const std::string &toolkit) {
    for (const char *folder : {"lib64", "lib"})
      for (const char *name : names)
        paths.push_back(fmt::format("{}/{}/{}", toolkit, folder, name));
  };
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char *toolkit = std::getenv(variable); toolkit && *toolkit)
      add(toolkit);
  add("/usr/local/cuda");
  return paths;
}

Expected<std::unique_ptr<Nvrtc>> Nvrtc::open(StringRef path) {
  void *library = nullptr;
  std::string name = path.str(), why;
  for (const std::string &candidate : path.empty() ? candidates() : std::vector{name}) {
    library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library) {
      name = candidate;
      break;
    }
    const char *error = dlerror();
    why = error ? error : "no reason given";
  }
  if (!library && path.empty())
    return failure("NVIDIA's run-time compiler (libnvrtc) is not here; install it (Debian: "
                   "nvidia-cuda-toolkit, or CUDA's own cuda-nvrtc package; Python: pip install "
                   "nvidia-cuda-nvrtc), or name it in CCL_NVRTC_LIBRARY. --arch shim needs none");
  if (!library)
    return failure("CCL_NVRTC_LIBRARY={}: cannot be loaded: {}. --arch shim needs no libnvrtc",
                   name, why);
  auto nvrtc = std::make_unique<Nvrtc>();
  if (Error error = nvrtc->load(library, name)) {
    dlclose(library);
    return error;
  }
  return nvrtc;
}

Expected<const Nvrtc *> Nvrtc::get(StringRef path) {
  // Never destroyed: a thread may still compile when the process ends.
  static std::mutex mutex;
  static auto &opened = *new std::map<std::string, std::unique_ptr<Nvrtc>>;
  std::lock_guard lock(mutex);
  std::unique_ptr<Nvrtc> &known = opened[path.str()];
  if (!known) {
    Expected<std::unique_ptr<Nvrtc>> nvrtc = open(path);
    if (!nvrtc)
      return nvrtc.takeError();
    known = std::move(*nvrtc);
  }
  return known.get();
}

//===----------------------------------------------------------------------===//
// What it is asked for
//===----------------------------------------------------------------------===//

std::optional<int> parseArch(StringRef arch) {
  int number = 0;
  if (!arch.consume_front("sm_"))
    return std::nullopt;
  if (arch.ends_with("a") || arch.ends_with("f"))
    arch = arch.drop_back();
  if (arch.size() < 2 || arch.size() > 3 || !all_of(arch, isDigit) || arch.getAsInteger(10, number))
    return std::nullopt;
  return number;
}

/// Products and sums are rounded one by one, as on the host. To optimize on several threads gains
/// nothing for sources of our size, and costs registers.
std::vector<std::string> Nvrtc::options(StringRef arch) const {
  std::vector<std::string> options = {"--gpu-architecture=" + arch.str(), "--std=c++17",
                                      "--fmad=false", "--ptxas-options=-v"};
  if (majorVersion >= 13)
    options.push_back("--minimal"); // saves declarations that nothing here needs
  return options;
}

std::string Nvrtc::identity() const {
  return fmt::format("NVRTC {}.{} {}", majorVersion, minorVersion, fmt::join(options("sm"), " "));
}

std::vector<KernelResources> kernelResources(StringRef log) {
  std::map<std::string, KernelResources> kernels;
  KernelResources *kernel = nullptr;
  auto number = [](StringRef text) {
    int64_t value = 0;
    return text.getAsInteger(10, value) ? int64_t(0) : value;
  };
  /// The number in front of `unit`: "128 bytes smem".
  auto before = [&](StringRef line, StringRef unit) {
    const size_t at = line.find(unit);
    if (at == StringRef::npos)
      return int64_t(0);
    StringRef rest = line.take_front(at);
    return number(rest.substr(rest.find_last_of(" ,") + 1));
  };
  SmallVector<StringRef, 64> lines;
  log.split(lines, '\n');
  for (StringRef line : lines) {
    if (line.contains("Compiling entry function '")) {
      const std::string name = line.split('\'').second.split('\'').first.str();
      kernel = &kernels[name];
      kernel->name = name;
    } else if (kernel && line.contains(" bytes spill stores")) {
      // Of the kernel, then of each function that it calls.
      kernel->spillBytes +=
          before(line, " bytes spill stores") + before(line, " bytes spill loads");
      kernel->stackBytes = std::max(kernel->stackBytes, before(line, " bytes stack frame"));
    } else if (kernel && line.contains("Used ")) {
      kernel->registers = before(line, " registers");
      kernel->sharedBytes = before(line, " bytes smem");
      kernel->stackBytes =
          std::max(kernel->stackBytes, before(line, " bytes cumulative stack size"));
    }
  }
  std::vector<KernelResources> all;
  for (auto &[name, resources] : kernels)
    all.push_back(resources);
  return all;
}

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

/// What a generation alone has, or a family: which of them have such a thing, and since when.
static bool hasVariant(StringRef arch, int number, int version) {
  if (arch.ends_with("a"))
    return number >= 90 && version >= 1200;
  if (arch.ends_with("f"))
    return number >= 100 && version >= 1209;
  return true;
}

Error Nvrtc::check(StringRef arch) const {
  const std::optional<int> number = parseArch(arch);
  if (number && is_contained(archs, *number) &&
      hasVariant(arch, *number, majorVersion * 100 + minorVersion))
    return Error::success();
  return failure("NVRTC {}.{} has no architecture {}: it knows sm_{}", majorVersion, minorVersion,
                 arch.str(), fmt::join(archs, ", sm_"));
}

Expected<Cubin> Nvrtc::compile(StringRef source, StringRef arch) const {
  if (Error error = check(arch))
    return error;
  const Functions &api = *functions;
  Functions::Program program = nullptr;
  if (int result =
          api.createProgram(&program, source.str().c_str(), "program.cu", 0, nullptr, nullptr))
    return failure("nvrtcCreateProgram: {}", api.getErrorString(result));
  auto destroy = make_scope_exit([&] { api.destroyProgram(&program); });
  const std::vector<std::string> texts = options(arch);
  std::vector<const char *> pointers;
  for (const std::string &text : texts)
    pointers.push_back(text.c_str());
  const int result = api.compileProgram(program, int(pointers.size()), pointers.data());
  size_t bytes = 0;
  std::string log;
  if (api.getProgramLogSize(program, &bytes) == 0 && bytes > 0) {
    log.resize(bytes);
    api.getProgramLog(program, log.data());
    log.resize(log.find_last_not_of(StringRef("\0\n ", 3)) + 1);
  }
  if (result != 0)
    return failure("NVRTC {}.{} for {}: {}\n{}", majorVersion, minorVersion, arch.str(),
                   api.getErrorString(result), log);
  Cubin cubin;
  if (int result = api.getCUBINSize(program, &bytes))
    return failure("nvrtcGetCUBINSize: {}", api.getErrorString(result));
  cubin.image.resize(bytes);
  if (int result = api.getCUBIN(program, cubin.image.data()))
    return failure("nvrtcGetCUBIN: {}", api.getErrorString(result));
  cubin.kernels = kernelResources(log);
  return cubin;
}

} // namespace ccl
