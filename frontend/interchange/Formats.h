//===- Formats.h - The formats of files: which one, reading, writing ----------------===//
//
// What is wrong with a text, or cannot be said in a format, becomes MLIR diagnostics.
// A new format is a row of the table in Formats.cpp, with its reader and writer.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/interchange/Foreign.h"

#include "dialect/Expand.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ccl::interchange {

enum class Format : uint8_t {
  Mlir,       ///< our own
  MscclXml,   ///< algorithms of MSCCL: frontend/msccl
  MscclppJson ///< plans of MSCCL++: frontend/mscclpp
};
/// "mlir", "xml", "json": the suffix of its files.
std::string_view name(Format format);
std::optional<Format> parseFormat(std::string_view name);

/// The format that the suffix of a file name stands for, if any does, ...
std::optional<Format> formatOfName(llvm::StringRef fileName);
/// ... and else the one that the text looks like.
Format formatOf(llvm::StringRef fileName, llvm::StringRef text);

/// The runtimes that files are written for. They differ in what they take of a format.
enum class Runtime : uint8_t { Msccl, Rccl, Azure, Mscclpp };
std::string_view name(Runtime runtime);
std::optional<Runtime> parseRuntime(std::string_view name);
Format formatFor(Runtime runtime);

/// Says what a reader found in the text of `fileName`: each thing once, and not too many.
void emitDiagnostics(llvm::ArrayRef<Diagnostic> diagnostics, llvm::StringRef fileName,
                     mlir::MLIRContext &context);

/// What became of a file.
struct Imported {
  std::optional<Foreign> foreign;           ///< if the format is not ours
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< null: refused, after diagnostics
  /// Refused, as what: `malformed`, `unsupported`, or `wrong`, for input that is written, which
  /// no module can say.
  std::string_view verdict = "malformed";
};
/// Reads a file in any format; the buffer has its name. `shown` gets what diagnostics show of
/// it. What other systems mind becomes warnings, if wanted.
Imported readFile(Format format, std::unique_ptr<llvm::MemoryBuffer> file, llvm::SourceMgr &shown,
                  mlir::MLIRContext &context, bool warn = true);
/// Reads `text`, which the file `fileName` holds, in a format that is not ours.
Imported readForeign(Format format, llvm::StringRef text, llvm::StringRef fileName,
                     mlir::MLIRContext &context, bool warn = true);

/// The program as a file in `format`, which is not ours. Without a runtime the file keeps to
/// no limits but those of the format. `locations` has the places of its `loc`s, `fallback` is
/// that of the whole. Nothing after diagnostics that say why the format has no such thing.
std::optional<std::string> writeForeign(const Foreign &foreign, Format format,
                                        std::optional<Runtime> runtime,
                                        const LocationTable &locations, mlir::Location fallback);
/// The places of `foreign` in the file that it was read from, by `loc`.
LocationTable locationsOf(const Foreign &foreign, llvm::StringRef fileName,
                          mlir::MLIRContext &context);

/// `text` as it is shown with a diagnostic: lines have an end somewhere, and nothing that a
/// terminal would obey. Line and column stay right.
std::string forDisplay(llvm::StringRef text);
void addForDisplay(llvm::StringRef text, llvm::StringRef fileName, llvm::SourceMgr &shown);

} // namespace ccl::interchange
