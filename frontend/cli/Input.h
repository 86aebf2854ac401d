//===- Input.h - The algorithm a command works on ----------------------------===//
//
// FILE (`-` is stdin) in any format that we read, or `--collective C [--algorithm A]` (a
// generator), bound to the numbers of ranks that `-n` lists.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/cli/Session.h"
#include "frontend/interchange/Formats.h"
#include "passes/Pipelines.h"
#include "passes/synthesis/generators/Generators.h"

#include "mlir/IR/OwningOpRef.h"

namespace ccl::cli {

/// As typed.
struct InputOptions {
  std::string file, collective, algorithm, ranks, grid, reduction, targets;
  std::vector<std::string> sizes;
  std::optional<int64_t> root;
  std::string fallbackRanks; ///< of a FILE with one unbound size parameter, if no -n is given
  /// What other systems mind about a FILE of theirs is said, or how much that is, or left to
  /// the command.
  enum class Warnings : uint8_t { Show, Count, Leave };
  Warnings warnings = Warnings::Show;
};
/// Adds FILE, --collective, --algorithm, -n, --size, --grid, -r and --to. With `files` there
/// may be several FILEs, which go there.
void addInputOptions(CLI::App &command, InputOptions &options,
                     std::vector<std::string> *files = nullptr);

/// How the algorithm is lowered: --via, --slots, --protocol, --no-fuse.
struct LoweringFlags {
  std::string via;              ///< "": what CCL_VIA says
  std::string hosts;            ///< see parseHosts; "": all ranks share one
  std::optional<int64_t> slots; ///< of every data channel; default 2, or as the programs say
  std::string protocol;         ///< of every data channel; "": simple, or as the programs say
  bool noFuse = false;
};
void addLoweringOptions(CLI::App &command, LoweringFlags &flags);

/// An algorithm for one number of ranks, in a module of its own.
struct Instance {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string algorithm; ///< symbol name
  LoweringOptions lowering;

  AlgorithmOp op();
  Instance clone();
};

class Input {
public:
  /// Reads the file or finds the generator. Like everything here that returns an exit
  /// status: reports what is wrong; Fine if nothing is.
  int open(Session &session, const InputOptions &options, const LoweringFlags &flags);

  /// One for every number of ranks of -n, or a single one.
  size_t size() const { return std::max<size_t>(rankCounts.size(), 1); }
  /// Each index once, and in order.
  int instantiate(size_t index, Instance &instance);

  /// The file, or "all_reduce/ring".
  const std::string &label() const { return theLabel; }
  /// The generator's name, or the symbol in the file.
  std::string algorithmName() const { return generator ? generator->name.str() : symbol; }
  /// Why this algorithm was taken: "the only one of its file".
  const std::string &reason() const { return theReason; }
  /// What a file of another system holds, or null.
  const interchange::Foreign *foreign() const { return theForeign ? &*theForeign : nullptr; }
  /// What the input is if anything here returns BadInput: "malformed", "unsupported", or else
  /// disproved.
  std::string_view refusal() const { return theRefusal; }

private:
  int openFile();
  int readModule(std::unique_ptr<llvm::MemoryBuffer> file);
  int openGenerator();
  int generate(size_t index, Instance &instance);
  int bindSizes(size_t index, AlgorithmOp algorithm, std::map<std::string, int64_t> &sizes);
  int checkRanks(size_t index, AlgorithmOp algorithm);

  Session *session = nullptr;
  InputOptions options;
  LoweringFlags flags;
  std::vector<int64_t> rankCounts, grid;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<interchange::Foreign> theForeign;
  std::string_view theRefusal = "malformed";
  const Generator *generator = nullptr;
  GeneratorRequest request;
  std::string theLabel, theReason, symbol;
};

/// For commands that work on one number of ranks: opens the input and makes its instance. The
/// exit status.
int openOne(Session &session, const std::string &command, const InputOptions &options,
            const LoweringFlags &flags, Input &input, Instance &instance);
std::string moduleText(mlir::ModuleOp module);

/// Runs the pipeline up to where `expand` takes over. The exit status.
int specialize(Session &session, Instance &instance);
/// Runs the pipeline down to `ccl.program`. The exit status.
int lower(Session &session, Instance &instance);

} // namespace ccl::cli
