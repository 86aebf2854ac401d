//===- Support.h - What the tests of code generation share -----------------===//
#pragma once

#include "codegen/Compile.h"
#include "codegen/host/EmitHost.h"

#include "llvm/ExecutionEngine/Orc/LLJIT.h"

#include <functional>
#include <map>

namespace ccl::test {

/// A context that keeps its diagnostics, and modules in it.
class Ir {
public:
  Ir();
  /// The module in `text`, which has one algorithm; throws what is wrong with it.
  mlir::ModuleOp parse(const std::string &text);
  AlgorithmOp algorithm();

  mlir::MLIRContext context;
  std::string diagnostics; ///< "error: ...\n"
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// `program` after an algorithm @a of `ranks` ranks with `chunks` chunks.
std::string moduleText(const std::string &contract, int64_t ranks, int64_t chunks,
                       const std::string &program);

/// Object code, linked into this process.
class Linked {
public:
  explicit Linked(const std::string &object);
  template <typename Function>
  Function get(const std::string &symbol) {
    return reinterpret_cast<Function>(address(symbol));
  }

private:
  void *address(const std::string &symbol);
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

/// Programs in text form, compiled without passes and with the sanitizer that the
/// tests have; throws the diagnostics.
class Compiled {
public:
  Compiled(const std::string &text, HostOptions options);
  /// What `compile` made.
  explicit Compiled(Plan plan);
  /// The kernel of `rank`.
  Kernel kernel(int64_t rank);

  Plan plan;
  std::string ir; ///< optimized LLVM IR
private:
  std::unique_ptr<Linked> code;
};

/// All ranks of a plan in one process, with channels made by hand.
class World {
public:
  World(Compiled &program, int64_t slotElements);
  /// Runs every rank on a thread of its own. `buffers[rank][b]`.
  std::vector<int32_t> launch(int64_t count, int64_t microBatches, int64_t stride,
                              const std::vector<std::vector<void *>> &buffers);
  /// What `launch` does with every rank's arguments before it starts them.
  std::function<void(KernelArgs &)> prepare;
  /// The arguments of one rank alone.
  KernelArgs &argsOf(int64_t rank) { return args[size_t(rank)]; }
  /// Null if the rank has no such end.
  ChannelEnd *end(int64_t rank, int64_t family, int64_t peer) {
    return tables[size_t(rank)][size_t(family * ranks + peer)];
  }

private:
  struct Wire { ///< from one rank to another, with one tag
    uint64_t filled = 0, freed = 0;
    std::vector<char> slots;
  };
  void connect(int64_t rank, const KernelPlan &kernel, size_t index);

  Compiled &program;
  int64_t ranks, slotBytes;
  std::map<std::tuple<int64_t, int64_t, int32_t>, Wire> wires;
  std::vector<std::unique_ptr<ChannelEnd>> ends;
  std::vector<std::vector<ChannelEnd *>> tables;
  std::vector<KernelArgs> args;
};

} // namespace ccl::test
