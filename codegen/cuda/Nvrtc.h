//===- Nvrtc.h - CUDA C++ to a cubin, by NVIDIA's run-time compiler -------------===//
//
// The library is opened when it is first needed: without it everything else works.
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ccl {

/// What a kernel takes of a GPU, as the assembler tells.
struct KernelResources {
  std::string name;
  int64_t registers = 0;   ///< of a thread
  int64_t sharedBytes = 0; ///< of a block
  int64_t spillBytes = 0;  ///< stored and loaded because registers ran out, with what it calls
  int64_t stackBytes = 0;  ///< of a thread
};

struct Cubin {
  std::string image;
  std::vector<KernelResources> kernels; ///< in order of their names
};

/// "sm_90a": 90. Nothing if `arch` is not written like that.
std::optional<int> parseArch(llvm::StringRef arch);
/// What NVRTC's log of `--ptxas-options=-v` says about kernels.
std::vector<KernelResources> kernelResources(llvm::StringRef log);

class Nvrtc {
public:
  /// The library at `path`, or if that is empty the one that the loader finds, or that lies in
  /// CUDA_HOME, CUDA_PATH or /usr/local/cuda. Opened once and for ever; from any thread. The
  /// error says what to install.
  static llvm::Expected<const Nvrtc *> get(llvm::StringRef path);

  /// All that the same source could get another image from, as text.
  std::string identity() const;
  int major() const { return majorVersion; }
  int minor() const { return minorVersion; }
  /// 75, 80, 90, ...: in increasing order.
  const std::vector<int> &architectures() const { return archs; }

  /// An error names the architectures that there are.
  llvm::Error check(llvm::StringRef arch) const;
  /// `source` includes nothing. An error is that of `check`, or the library's log. From any
  /// thread.
  llvm::Expected<Cubin> compile(llvm::StringRef source, llvm::StringRef arch) const;

private:
  struct Functions;
  static llvm::Expected<std::unique_ptr<Nvrtc>> open(llvm::StringRef path);
  llvm::Error load(void *library, llvm::StringRef name);
  std::vector<std::string> options(llvm::StringRef arch) const;

  std::shared_ptr<const Functions> functions;
  int majorVersion = 0, minorVersion = 0;
  std::vector<int> archs;
};

} // namespace ccl
