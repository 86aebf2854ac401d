//===- Kernel.cpp -----------------------------------------------------------===//
#include "runtime/cuda/shim/Kernel.h"

#include "runtime/cuda/shim/State.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace ccl::cuda::shim {
namespace {

/// Where an image of this machine ends; 0 if it is none. Nothing but its header says so.
size_t imageBytes(const char *image) {
  Elf64_Ehdr header;
  if (std::memcmp(image, ELFMAG, SELFMAG) != 0)
    return 0;
  std::memcpy(&header, image, sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_type != ET_DYN ||
      header.e_phentsize != sizeof(Elf64_Phdr) ||
      (header.e_shnum && header.e_shentsize != sizeof(Elf64_Shdr)))
    return 0;
  size_t end = std::max(header.e_shoff + size_t(header.e_shnum) * sizeof(Elf64_Shdr),
                        header.e_phoff + size_t(header.e_phnum) * sizeof(Elf64_Phdr));
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part;
    std::memcpy(&part, image + header.e_phoff + i * sizeof part, sizeof part);
    end = std::max(end, size_t(part.p_offset + part.p_filesz));
  }
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr part;
    std::memcpy(&part, image + header.e_shoff + i * sizeof part, sizeof part);
    if (part.sh_type != SHT_NOBITS)
      end = std::max(end, size_t(part.sh_offset + part.sh_size));
  }
  return end;
}

/// A path of the descriptor that no other module had: the loader takes libraries of the same
/// path for one. The number is written with "/." for ones, and "/" for zeros.
std::string uniquePath(int file) {
  static std::atomic<uint64_t> modules{1};
  std::string path = "/proc/self/fd";
  for (uint64_t number = modules++; number; number >>= 1)
    path += number & 1 ? "/." : "/";
  return path + "/" + std::to_string(file);
}

/// One launch: blocks in the order of their numbers, to threads as they become free.
class Grid {
public:
  /// `function` is not used once run() has returned, when threads may still hold the grid.
  Grid(const Function &function, std::vector<void *> params, unsigned blocks, size_t threads)
      : function(function), params(std::move(params)), blocks(blocks), threads(threads) {}

  static CUresult run(const std::shared_ptr<Grid> &grid, unsigned threads) {
    grid->working = threads;
    if (!state().threads.start(threads, [grid](unsigned) { grid->work(); }))
      return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    std::unique_lock lock(grid->mutex);
    grid->ended.wait(lock, [&] { return grid->working == 0; });
    return grid->failed ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
  }

private:
  void work() {
    bool wrong = false;
    for (unsigned block; !wrong && (block = next++) < blocks;) {
      try {
        wrong = function.entry(1, params.data(), block, blocks, &threads) != 0;
      } catch (...) {
        wrong = true;
      }
    }
    std::lock_guard lock(mutex);
    failed |= wrong;
    if (--working == 0)
      ended.notify_all();
  }

  const Function &function;
  std::vector<void *> params;
  const unsigned blocks;
  size_t threads; ///< of CUDA, of a block
  std::atomic<unsigned> next{0};
  std::mutex mutex;
  std::condition_variable ended;
  unsigned working = 0;
  bool failed = false;
};

} // namespace

Module::~Module() {
  if (library)
    dlclose(library);
  if (file >= 0)
    close(file);
}

CUresult loadModule(const void *image, std::shared_ptr<Module> &module, std::string &why) {
  const auto *bytes = static_cast<const char *>(image);
  const size_t size = imageBytes(bytes);
  if (size == 0)
    return std::memcmp(bytes, ELFMAG, SELFMAG) == 0 ? CUDA_ERROR_NO_BINARY_FOR_GPU
                                                    : CUDA_ERROR_INVALID_IMAGE;
  auto made = std::make_shared<Module>();
  made->file = memfd_create("ccl-shim-module", MFD_CLOEXEC);
  if (made->file < 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  for (size_t at = 0; at < size;) {
    const ssize_t written = write(made->file, bytes + at, size - at);
    if (written <= 0)
      return CUDA_ERROR_OUT_OF_MEMORY;
    at += size_t(written);
  }
  made->library = dlopen(uniquePath(made->file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!made->library) {
    const char *reason = dlerror();
    why = reason ? reason : "";
    return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  }
  module = std::move(made);
  return CUDA_SUCCESS;
}

CUresult findFunction(const std::shared_ptr<Module> &module, const char *name,
                      std::shared_ptr<Function> &function) {
  const std::string symbol = std::string(name) + "_shim";
  void *found = dlsym(module->library, symbol.c_str());
  if (!found)
    return CUDA_ERROR_NOT_FOUND;
  auto made = std::make_shared<Function>();
  made->module = module;
  made->entry = reinterpret_cast<Function::Entry>(found);
  made->sharedBytes = defaultSharedBytes;
  const int count = made->entry(0, nullptr, 0, 0, nullptr);
  if (count < 0)
    return CUDA_ERROR_INVALID_IMAGE;
  made->sizes.resize(size_t(count));
  if (count > 0)
    made->entry(0, nullptr, 0, 0, made->sizes.data());
  function = std::move(made);
  return CUDA_SUCCESS;
}

Work makeLaunch(const std::shared_ptr<Function> &function, void **parameters, unsigned blocks,
                size_t threads, unsigned resident) {
  constexpr size_t alignment = alignof(std::max_align_t);
  size_t bytes = 0;
  for (const size_t size : function->sizes)
    bytes += (size + alignment - 1) / alignment * alignment;
  auto values = std::make_shared<std::vector<std::max_align_t>>(
      (bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t));
  std::vector<void *> params;
  char *at = reinterpret_cast<char *>(values->data());
  for (size_t i = 0; i < function->sizes.size(); ++i) {
    std::memcpy(at, parameters[i], function->sizes[i]);
    params.push_back(at);
    at += (function->sizes[i] + alignment - 1) / alignment * alignment;
  }
  return [function, values, params = std::move(params), blocks, threads, resident] {
    return Grid::run(std::make_shared<Grid>(*function, params, blocks, threads),
                     std::min(blocks, resident));
  };
}

} // namespace ccl::cuda::shim
