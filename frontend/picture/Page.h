//===- Page.h - One picture of a simulation -------------------------------===//
//
// A self-contained HTML file: what was simulated and how near to its bound it came, the topology
// with its links colored by use, the timeline, and tables. It loads nothing, reads without its
// script, and is well-formed XML, too. Equal input gives equal text.
//
//   head       time, algbw, bound, and their ratio
//   topology   Layout.h says where things are drawn
//   timeline   a lane an agent, the critical path, a lane for each of the busiest links
//   tables     busiest links; where the time of agents went
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/simulate/Simulate.h"
#include "frontend/picture/Layout.h"

#include <string>
#include <utility>
#include <vector>

namespace ccl::picture {

struct PageInput {
  std::string program;                           ///< its name
  std::string collective;                        ///< "all_reduce sum"
  std::string model;                             ///< name of the cost model
  const model::Topology *topology = nullptr;     ///< must be given; `check()` finds nothing
  const model::SimulateReport *report = nullptr; ///< must be given; of this topology
  /// Names agents and says what they did; folded: of rank 0. Without it they have numbers.
  const model::Program *code = nullptr;
  double boundGBps = 0;    ///< no launch of this size has a higher algbw; 0: no bound is known
  std::string certificate; ///< why, in a sentence; may be empty
  /// What else the head says, in order: {"micro-batches", "4"}.
  std::vector<std::pair<std::string, std::string>> facts;
};

/// Of a simulation with faults it shows these, and the topology. At most some 6 MB: what is too
/// narrow to be seen is drawn together, and the page says so.
std::string page(const PageInput &input);

//===----------------------------------------------------------------------===//
// Parts of the page
//===----------------------------------------------------------------------===//

/// One or more SVG elements, and where their text is.
struct Drawing {
  std::string html;
  std::vector<LabelBox> labels;
  std::vector<std::string> notes; ///< what is left out or drawn together
};

Drawing drawTopology(const PageInput &input);
Drawing drawTimeline(const PageInput &input);
/// Rows of the busiest links; "" without any.
std::string linkTable(const PageInput &input);
/// Where the time of agents went.
std::string agentTable(const PageInput &input);

} // namespace ccl::picture
