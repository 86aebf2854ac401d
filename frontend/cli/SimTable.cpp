//===- SimTable.cpp -----------------------------------------------------------===//
#include "frontend/cli/SimTable.h"

#include "frontend/cli/Output.h"
#include "frontend/cli/Session.h"
#include "frontend/cli/Sizes.h"

#include <fmt/format.h>

namespace ccl::cli {

static bool isFair(const model::SimulateOptions &options) {
  return options.sharing == model::Sharing::Fair;
}

double SimTable::boundUs(int64_t bytes) const {
  return bound ? model::timeBound(boundLines, bytes) : 0;
}

void SimTable::header(const model::SimulateReport &first) const {
  printOut("# {} on {}: {}, model {}{}\n", contract.str(), topologyLabel,
           plural(contract.ranks, "rank"), options.model.name,
           isFair(options) ? ", fair sharing" : "");
  for (const std::string &note : notes)
    printOut("# {}\n", note);
  if (isUneven)
    printOut("# uneven shards{}; the count is that of the longest, and no bound known\n",
             isPadded ? ", padded to the longest" : "");
  if (first.usesCircuits)
    printOut("# the fabric changes links, in {} us{}\n", *topology.reconfigurable,
             bound ? "; the bound is that of the best links" : "");
  if (beside)
    printOut("# beside: {}\n", beside->what());
  printOut("#{:>13} {:>12} {:>8} {:>12} {:>10} {:>10} {:>12} {:>10} {:>8}\n", "size", "count",
           "batches", "time", "algbw", "busbw", "bound", "bound", "of bound");
  printOut("#{:>13} {:>12} {:>8} {:>12} {:>10} {:>10} {:>12} {:>10} {:>8}\n", "(B)", "(elements)",
           "", "(us)", "(GB/s)", "(GB/s)", "(us)", "(GB/s)", "(%)");
}

/// Of all agents.
static double changeUs(const model::SimulateReport &report) {
  double us = 0;
  for (const model::AgentUse &agent : report.agents)
    us += agent.changeUs;
  return us;
}

void SimTable::row(const model::SimulateReport &report) const {
  const double limit = boundUs(report.bytes);
  printOut("{:>14} {:>12} {:>8} {:>12.2f} {:>10.2f} {:>10.2f}", report.bytes, options.count,
           options.batches, report.us, report.algbw, report.algbw * busFactor(contract));
  if (bound)
    printOut(" {:>12.2f} {:>10.2f} {:>8}", limit,
             limit > 0 ? double(report.bytes) / limit / 1e3 : 0,
             report.us > 0 ? fmt::format("{:.2f}", 100 * limit / report.us) : "-");
  printOut("\n");
  if (report.changes > 0)
    printOut("#   {} of links; agents waited {:.2f} us for them\n",
             plural(report.changes, "change"), changeUs(report));
  if (std::string text = beside ? beside->text(report.bytes) : ""; !text.empty())
    printOut("#   {}\n", text);
}

void SimTable::jsonRow(const model::SimulateReport &report) const {
  JsonLine line;
  line.text("topology", topologyLabel);
  line.text("collective", model::name(contract.collective));
  line.text("algorithm", algorithm);
  line.number("ranks", contract.ranks);
  line.number("bytes", report.bytes);
  line.number("count", options.count);
  line.number("micro_batches", options.batches);
  line.text("model", options.model.name);
  line.text("sharing", isFair(options) ? "fair" : "fifo");
  line.real("time_us", report.us);
  line.real("algbw_GBps", report.algbw);
  line.real("busbw_GBps", report.algbw * busFactor(contract));
  if (bound) {
    const double limit = boundUs(report.bytes);
    line.real("bound_us", limit);
    line.real("bound_algbw_GBps", bound->algbw);
    line.real("ratio", report.us > 0 ? limit / report.us : 1);
    line.text("certificate", bound->certificate);
  }
  if (isUneven)
    line.boolean("padded", isPadded);
  if (topology.reconfigurable) {
    line.number("link_changes", int64_t(report.changes));
    line.real("link_change_us", changeUs(report));
  }
  if (beside)
    line.array("nccl", beside->json(report.bytes));
  line.number("messages", int64_t(report.messages));
  line.number("events", int64_t(report.events));
  std::vector<std::string> links;
  for (size_t i = 0; i < report.links.size(); ++i) {
    if (report.links[i].bytes <= 0)
      continue;
    const model::Link &link = topology.links[i];
    JsonLine use;
    use.number("link", int64_t(i));
    use.text("src", topology.nodeName(link.src));
    use.text("dst", topology.nodeName(link.dst));
    use.real("bytes", report.links[i].bytes);
    use.real("busy_us", report.links[i].busyUs);
    links.push_back(use.str());
  }
  line.array("links", links);
  line.print();
}

} // namespace ccl::cli
