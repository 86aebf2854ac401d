//===- PlanFile.cpp - Reading: from text to a program ---------------------===//
#include "frontend/mscclpp/PlanFile.h"

#include "frontend/mscclpp/ReadPlan.h"
#include "frontend/mscclpp/Trace.h"

namespace ccl::mscclpp {

using interchange::Diagnostic;
using interchange::Foreign;

std::optional<Foreign> readPlan(std::string_view text, std::vector<Diagnostic> &diagnostics) {
  Log log(diagnostics);
  JsonText json(text, diagnostics);
  if (!json.root())
    return std::nullopt;
  Plan plan = readDocument(log, json.root());
  if (log.failed())
    return std::nullopt;
  Layout layout = makeLayout(plan, log);
  if (log.failed())
    return std::nullopt;
  Trace trace = traceOps(plan, layout, log);
  if (log.failed())
    return std::nullopt;

  Foreign foreign;
  foreign.name = plan.name;
  foreign.contract = std::move(layout.contract);
  foreign.disjoint = layout.disjoint;
  foreign.inPlace = layout.inPlace;
  foreign.program.buffers = std::move(layout.buffers);
  foreign.program.ranks = joinAgents(trace, int64_t(plan.gpus.size()), log);
  if (log.failed())
    return std::nullopt;
  foreign.places = std::move(trace.places);
  tellCautions(plan, log);
  tellThreadOrder(plan, log);
  foreign.warnings = log.takeWarnings();
  return foreign;
}

} // namespace ccl::mscclpp
