//===- SmiMatrix.h - The matrix of `nvidia-smi topo -m` -------------------------===//
//
// How every two devices are joined: `NV#` is # bonded NVLinks; else the farthest thing that
// PCI Express passes: PIX one bridge (PSB one on the board), PXB several, PHB the host bridge,
// NODE the NUMA node, SYS (SOC, once) the link between sockets.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/topology/TextLines.h"

#include <optional>

namespace ccl::topology {

enum class Nearness : uint8_t { Self, Pix, Pxb, Phb, Node, Sys, Nvlink };

struct SmiCell {
  Nearness nearness = Nearness::Self;
  int32_t nvlinks = 0;
  interchange::TextPlace place;
};

struct SmiDevice {
  std::string name;
  bool gpu = false;
  std::string cpus, numa; ///< affinities; empty: not said
};

struct SmiMatrix {
  std::vector<SmiDevice> devices; ///< in the header's order
  std::vector<SmiCell> cells;     ///< row-major
  interchange::TextPlace place;   ///< of the header
  const SmiCell &at(size_t row, size_t column) const {
    return cells[row * devices.size() + column];
  }
};

/// "GPU0", "GPU12".
bool isGpuName(std::string_view word);
/// Whether a line looks like the header: GPUs' names, no cells.
bool isMatrixHeader(const std::vector<Word> &words);

/// Whether the header `lines[at]` is that of `topo -p2p`, whose cells are OK or why not (GNS, ...).
/// `at` becomes the line after its last row then.
bool skipPeerMatrix(const std::vector<TextLine> &lines, size_t &at);

/// The matrix whose header is `lines[at]`; `at` becomes the line after its last row. It must be
/// square and symmetric, with X on the diagonal and a row for every column, in any order.
std::optional<SmiMatrix> readSmiMatrix(const std::vector<TextLine> &lines, size_t &at,
                                       std::vector<interchange::Diagnostic> &diagnostics);

} // namespace ccl::topology
