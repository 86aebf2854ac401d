//===- PlanReportText.cpp -------------------------------------------------===//
#include "frontend/cli/PlanReportText.h"

#include "frontend/cli/Output.h"
#include "frontend/cli/Sizes.h"

#include <fmt/format.h>

#include <sys/resource.h>

namespace ccl::cli {

static model::Contract contractOf(const PlanRequest &request) {
  model::Contract contract;
  contract.collective = request.generator.collective;
  contract.reduction = request.generator.reduction;
  contract.ranks = request.generator.ranks;
  contract.root = request.generator.root;
  return contract;
}

static double peakMiB() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return double(usage.ru_maxrss) / 1024;
}

static std::vector<std::pair<std::string_view, double>> phases(const PlanSeconds &seconds) {
  return {{"bound", seconds.bound}, {"trees", seconds.pack},        {"order", seconds.order},
          {"lower", seconds.lower}, {"simulate", seconds.simulate}, {"prove", seconds.prove}};
}

static std::string sizeRow(const PlanResult &result, const SizePlan &size) {
  const PlannedAlgorithm &algorithm = result.report.algorithms[size.algorithm];
  return fmt::format(
      "{:>14} {:>12} {:>12.2f} {:>10.2f} {:>10.2f} {:>12.2f} {:>8.2f} {:>8.2f} {:>7} "
      "{:>4} {:>7} {:>7} {:>7}\n",
      size.bytes, size.count, size.us, size.algbw,
      size.algbw * busFactor(contractOf(result.request)), size.boundUs, 100 * size.ratio(),
      100 * algorithm.fluidRatio, algorithm.height, algorithm.chunks, algorithm.pieces,
      algorithm.batches, algorithm.agents);
}

std::string planText(const PlanResult &result) {
  const PlanReport &report = result.report;
  std::string text =
      fmt::format("# {} on {}: {}, model {}{}\n", contractOf(result.request).str(),
                  result.topology.label, plural(uint64_t(result.request.generator.ranks), "rank"),
                  result.request.model.name, report.symmetric ? ", all ranks do alike" : "");
  text += fmt::format("# bound {:.6g} GB/s: {}\n", report.bound.algbw, report.bound.certificate);
  if (!report.bound.exact)
    text += fmt::format("# (at least {:.6g} GB/s can be reached)\n", report.bound.attained);
  text += "# trees: height (messages one after the other), chunks a root (k), fluid % of the "
          "bound, and "
          "what k allows\n";
  for (const PlanTrade &trade : report.trades)
    text += fmt::format("#   {:>6} {:>4} {:>8.2f} {:>8.2f}{}\n", trade.height, trade.chunks,
                        100 * trade.fluidRatio, 100 * trade.mostRatio, trade.pairs ? " pairs" : "");
  constexpr const char *columns =
      "#{:>13} {:>12} {:>12} {:>10} {:>10} {:>12} {:>8} {:>8} {:>7} {:>4} {:>7} {:>7} {:>7}\n";
  text += fmt::format(columns, "size", "count", "time", "algbw", "busbw", "bound", "of bound",
                      "fluid", "height", "k", "pieces", "micro-", "agents");
  text += fmt::format(columns, "(B)", "(elements)", "(us)", "(GB/s)", "(GB/s)", "(us)", "(%)",
                      "(%)", "", "", "", "batches", "a link");
  for (const SizePlan &size : report.sizes)
    text += sizeRow(result, size);
  for (const PlannedAlgorithm &algorithm : report.algorithms)
    text += fmt::format("# @{}: {}, {}{}\n", algorithm.name, plural(algorithm.moves, "move"),
                        algorithm.remark.empty() ? "proved" : algorithm.remark,
                        algorithm.slots > 0 ? fmt::format("; channels of {}",
                                                          plural(uint64_t(algorithm.slots), "slot"))
                                            : "");
  text += fmt::format("# {:.2f} s:", result.seconds);
  for (const auto &[phase, seconds] : phases(report.seconds))
    text += fmt::format(" {} {:.2f},", phase, seconds);
  text += fmt::format(
      " {} simulated{}; peak {:.0f} MiB\n", plural(uint64_t(report.simulated), "program"),
      report.rejected ? fmt::format(", {} refused", report.rejected) : "", peakMiB());
  if (!result.stop.empty())
    text += fmt::format("# stopped ({}): the best so far\n", result.stop);
  return text;
}

std::vector<std::string> planJson(const PlanResult &result) {
  const PlanReport &report = result.report;
  JsonLine seconds;
  for (const auto &[phase, value] : phases(report.seconds))
    seconds.real(phase, value);
  std::vector<std::string> trades, lines;
  for (const PlanTrade &trade : report.trades) {
    JsonLine line;
    line.number("height", trade.height);
    line.number("k", trade.chunks);
    line.real("fluid_ratio", trade.fluidRatio);
    line.real("k_ratio", trade.mostRatio);
    line.boolean("pairs", trade.pairs);
    trades.push_back(line.str());
  }
  for (const SizePlan &size : report.sizes) {
    const PlannedAlgorithm &algorithm = report.algorithms[size.algorithm];
    JsonLine line;
    line.text("topology", result.topology.label);
    line.text("collective", model::name(result.request.generator.collective));
    line.text("algorithm", algorithm.name);
    line.number("ranks", result.request.generator.ranks);
    line.number("bytes", size.bytes);
    line.number("count", size.count);
    line.text("model", result.request.model.name);
    line.real("time_us", size.us);
    line.real("algbw_GBps", size.algbw);
    line.real("busbw_GBps", size.algbw * busFactor(contractOf(result.request)));
    line.real("bound_us", size.boundUs);
    line.real("bound_algbw_GBps", report.bound.algbw);
    line.real("ratio", size.ratio());
    line.real("fluid_ratio", algorithm.fluidRatio);
    line.text("certificate", report.bound.certificate);
    line.number("k", algorithm.chunks);
    line.number("height", algorithm.height);
    line.number("pieces", algorithm.pieces);
    line.number("micro_batches", algorithm.batches);
    line.number("agents", algorithm.agents);
    line.number("moves", int64_t(algorithm.moves));
    line.number("slots", algorithm.slots);
    line.number("min_slots", algorithm.minSlots);
    line.boolean("symmetric", report.symmetric);
    line.text("proof", algorithm.remark.empty() ? "proved" : algorithm.remark);
    line.array("pareto", trades);
    line.number("seed", int64_t(result.request.seed));
    line.number("simulated", report.simulated);
    line.number("refused", report.rejected);
    line.text("stopped", result.stop);
    line.real("plan_seconds", result.seconds);
    line.raw("seconds", seconds.str());
    line.real("peak_MiB", peakMiB());
    lines.push_back(line.str());
  }
  return lines;
}

} // namespace ccl::cli
