//===- Stages.cpp -----------------------------------------------------------===//
#include "codegen/Stages.h"

#include "mlir/Parser/Parser.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

namespace ccl {

/// A symbol may hold anything, `../` too.
static std::string folderFor(StringRef program) {
  std::string name = program.str();
  for (char &c : name)
    if (!llvm::isAlnum(c) && c != '.' && c != '-')
      c = '_';
  return name.empty() || name.front() == '.' ? "_" + name : name;
}

static std::string pathOf(StringRef a, StringRef b) {
  llvm::SmallString<128> path(a);
  llvm::sys::path::append(path, b);
  return path.str().str();
}

Stages::Stages(StringRef dumpDir, StringRef overrideDir, StringRef program, Location location)
    : dumpDir(dumpDir), overrideDir(overrideDir), folder(folderFor(program)), location(location) {}

void Stages::dump(StringRef file, StringRef text) const {
  if (dumpDir.empty())
    return;
  std::string path = pathOf(pathOf(dumpDir, folder), file);
  std::error_code error = llvm::sys::fs::create_directories(pathOf(dumpDir, folder));
  if (!error) {
    llvm::raw_fd_ostream stream(path, error);
    stream << text;
    stream.close();
    if (stream.has_error())
      error = stream.error();
    stream.clear_error();
  }
  if (error)
    emitWarning(location) << "cannot dump to " << path << ": " << error.message();
}

void Stages::dump(StringRef file, ModuleOp module) const {
  if (dumpDir.empty())
    return;
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream);
  stream << '\n';
  dump(file, stream.str());
}

std::string Stages::overrideOf(StringRef file) const {
  if (overrideDir.empty())
    return "";
  for (const std::string &path :
       {pathOf(pathOf(overrideDir, folder), file), pathOf(overrideDir, file)})
    if (llvm::sys::fs::exists(path))
      return path;
  return "";
}

void Stages::checkOverrides() const {
  if (overrideDir.empty())
    return;
  // Code that is the same as ours does no harm, but whether it is is not known yet.
  for (StringRef code : {"kernel.ll", "kernel.cu"})
    if (const std::string path = overrideOf(code); !path.empty())
      emitWarning(location) << path << " is not read: what replaces a stage is algorithm.mlir or "
                            << "program.mlir";
  if (overrideOf("algorithm.mlir").empty() && overrideOf("program.mlir").empty())
    emitWarning(location) << "nothing is replaced: CCL_OVERRIDE_DIR=" << overrideDir << " has no "
                          << pathOf(folder, "algorithm.mlir") << " and no "
                          << pathOf(folder, "program.mlir");
}

FailureOr<OwningOpRef<ModuleOp>> Stages::replacement(StringRef file) const {
  const std::string path = overrideOf(file);
  if (path.empty())
    return OwningOpRef<ModuleOp>();
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(path, ParserConfig(location.getContext()));
  if (!module)
    return failure();
  return module;
}

} // namespace ccl
