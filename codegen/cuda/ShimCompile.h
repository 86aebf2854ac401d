//===- ShimCompile.h - Kernels for this machine's processor ---------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ccl {

/// A compiler that was there, and did not make an image of a source: what it said.
class CompilerFailed : public llvm::ErrorInfo<CompilerFailed, llvm::StringError> {
public:
  static char ID;
  using ErrorInfo::ErrorInfo;
};

class ShimCompiler {
public:
  /// `command` is a C++ compiler's name or path, or "": the first of clang++-19, clang++, g++
  /// and c++ that is found. `sanitizer`: "", "address", "thread". Blocks of its images have
  /// `threads` threads of CUDA: 1, or a multiple of 32 up to 1024 (device/fibers.cuh).
  static llvm::Expected<ShimCompiler> find(llvm::StringRef command, llvm::StringRef sanitizer,
                                           int64_t threads = 1);

  /// All that the same source could get another image from, as text.
  std::string identity() const;

  /// `source`, which includes nothing but the system's headers, as a shared object that exports
  /// what device/shim.h says. The error is the compiler's output, or that it took longer than
  /// `limit` (CompilerFailed), or that it could not be started. From any thread; no file and no
  /// process is left, even if this process is killed meanwhile.
  llvm::Expected<std::string> compile(llvm::StringRef source,
                                      std::chrono::seconds limit = std::chrono::seconds(120)) const;

private:
  std::vector<std::string> flags() const;

  std::string path, version, sanitizer;
  int64_t threads = 1;
};

} // namespace ccl
