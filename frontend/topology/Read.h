//===- Read.h - A topology from a name, a file or this machine ----------------------===//
//
// The one entry point of the driver and of Python. A name (Presets.h) or a path of a file in any
// of the formats, joined from several nodes if asked for.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/topology/Join.h"
#include "frontend/topology/Presets.h"

namespace ccl::topology {

enum class Format : uint8_t {
  NcclXml,   ///< `<system>` or `<graphs>`: NCCL, RCCL
  NvidiaSmi, ///< `nvidia-smi topo -m`, `nvlink -s`
  RocmSmi,   ///< `rocm-smi --showtopo`
  EdgeList,  ///< N V E, then links
  Mlir       ///< ours, with `ccl.topology`; not read here
};
std::string_view name(Format format);
/// By what lines begin with; nothing if it is none of these.
std::optional<Format> detectFormat(std::string_view text);

struct Options {
  int64_t nodes = 1; ///< copies to be joined
  std::string join;  ///< parseNetwork's text, or "graph:PATH" of an edge list; empty: rails
  Rates rates = Rates::Nominal;
  Assume assume;
};

struct ReadResult {
  /// Passes `check()`. Nothing: see `diagnostics`, or `missing` if the file is right but names too
  /// little.
  std::optional<model::Topology> topology;
  std::vector<NicPort> nics; ///< of one node
  std::string what;          ///< "NCCL topology XML: 8 GPUs, 1 switch, 8 NICs, 96 links"
  /// What the links' speeds are; nothing if they have only one each, whatever was asked for.
  std::optional<Rates> rates;
  std::vector<std::string> notes, missing;
  std::vector<Diagnostic> diagnostics; ///< errors and warnings, with places in the text
  std::string refusal; ///< why the name or the options make nothing, whatever a text says; else ""

  bool failed() const;
};

/// Which of the options say nothing of `what`, a topology that is no description of one machine; or
/// "".
std::string checkUnused(const Options &options, std::string_view what);
/// The note on speeds that are the same at all rates.
std::string oneSpeedNote();

/// What a text makes; `name` is for messages and the topology's name.
ReadResult readTopologyText(std::string_view text, std::string_view name, const Options &options);
/// What a description makes: its box, joined if more nodes are asked for.
ReadResult finish(Machine machine, const Options &options);

/// `nameOrPath`: a name of Presets.h, else a file; "detect" is this machine. Files of up to 256
/// MiB, and 64 MiB of XML.
ReadResult readTopology(const std::string &nameOrPath, const Options &options);

} // namespace ccl::topology
