//===- Topologies.h - A topology by name, from a file, or of this machine ---------===//
//
// What frontend/topology reads without MLIR, and the text that is ours (`ccl.topology`).
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/topology/Read.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/SourceMgr.h"

namespace ccl::interchange {

struct TopologyRequest {
  std::string source;              ///< a name or a file (`-` is stdin); "": this machine
  std::optional<std::string> text; ///< what a file called `source` would hold: nothing is opened
  std::string symbol;              ///< which one of a .mlir file with several
  topology::Options options;
  std::vector<std::string> without; ///< as topology::takeOut takes them
};

/// What was read. Without a topology the file is right, but names too little: `missing`.
struct TopologyInput {
  std::string label; ///< the name or the file, and what of it is not to be used
  std::string what;  ///< "NCCL topology XML: 8 GPUs, ...", or ""
  std::optional<model::Topology> topology;
  std::string gpu; ///< what tells which GPU it is: what was assumed, else the topology's name; ""
  std::optional<topology::Rates> rates; ///< as of topology::ReadResult
  std::vector<std::string> notes, missing;

  /// Of one without a topology, why.
  std::string namesTooLittle() const;
};

/// Why nothing was read.
struct TopologyRefusal {
  enum class Kind : uint8_t {
    Usage,    ///< a text has several, or none, of that symbol
    Without,  ///< `without` names what is not there
    Input,    ///< it cannot be opened, or the name or the options make nothing
    Diagnosed ///< what the text says: there are diagnostics, and no message
  };
  Kind kind = Kind::Diagnosed;
  std::string message;
};

/// Fills `input`, or says why not. Warnings and errors about a text become diagnostics; `shown`
/// gets what they show of it.
std::optional<TopologyRefusal> openTopology(const TopologyRequest &request, llvm::SourceMgr &shown,
                                            mlir::MLIRContext &context, TopologyInput &input);

} // namespace ccl::interchange
