//===- CompilerFolder.h - A folder for programs that must not outlive us ----------------===//
//
// Nothing of it stays, however this process ends: a shell holds one end of a pipe, and when the
// other one is closed, if only because we are gone, it ends what was started in its group and
// removes the folder.
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <utility>

#include <sys/types.h>

namespace ccl {

class CompilerFolder {
public:
  /// A folder in TMPDIR that nobody else may enter.
  static llvm::Expected<CompilerFolder> open();
  CompilerFolder(CompilerFolder &&other) noexcept
      : path(std::exchange(other.path, "")), pipe(std::exchange(other.pipe, -1)),
        keeper(std::exchange(other.keeper, 0)) {}
  CompilerFolder(const CompilerFolder &) = delete;
  CompilerFolder &operator=(const CompilerFolder &) = delete;
  /// All that is in the folder goes, too.
  ~CompilerFolder();

  const std::string &name() const { return path; }
  std::string file(llvm::StringRef name) const { return path + "/" + name.str(); }
  /// Of processes, for what is started; 0, a new one, where there is no shell.
  pid_t group() const { return keeper; }

private:
  explicit CompilerFolder(std::string path) : path(std::move(path)) {}
  void startKeeper();

  std::string path;
  int pipe = -1; ///< closed when we go
  pid_t keeper = 0;
};

} // namespace ccl
