//===- Kernel.h - Code that runs as kernels do ------------------------------------===//
//
// A module is a shared object. Of each kernel NAME it has a function
//
//   extern "C" int NAME_shim(int what, void **params, unsigned block, unsigned blocks,
//                            size_t *sizes);
//
// what = 0: returns the number of parameters, and their sizes in bytes if `sizes` is not null;
// the other arguments are zero. what = 1: does what block `block` of `blocks` does, params[i]
// pointing to parameter i and `sizes` to the number of threads of a block, and returns 0; anything
// else fails the launch. A block is one thread of the host.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/cuda/shim/Stream.h"

#include <memory>
#include <string>

namespace ccl::cuda::shim {

struct Module {
  ~Module();
  std::shared_ptr<Context> context;
  void *library = nullptr;
  int file = -1;
};

/// `image` starts with an ELF header that says how long it is.
/// `why` is what the loader says if it refuses it.
CUresult loadModule(const void *image, std::shared_ptr<Module> &module, std::string &why);

struct Function {
  using Entry = int (*)(int what, void **params, unsigned block, unsigned blocks, size_t *sizes);
  std::shared_ptr<Module> module;
  Entry entry = nullptr;
  std::vector<size_t> sizes;       ///< of the parameters
  std::atomic<int> sharedBytes{0}; ///< dynamic ones that a launch may ask for
};

CUresult findFunction(const std::shared_ptr<Module> &module, const char *name,
                      std::shared_ptr<Function> &function);

/// What a launch does in its stream's turn: all blocks at once, as far as there is room for
/// `resident` of them; the others when one of them ends. `threads`: of CUDA, of a block. Parameters
/// are copied now.
Work makeLaunch(const std::shared_ptr<Function> &function, void **parameters, unsigned blocks,
                size_t threads, unsigned resident);

} // namespace ccl::cuda::shim
