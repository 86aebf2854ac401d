//===- Table.cpp - nccl-tests' columns, or one JSON object a line ------------===//
#include "frontend/cli/Table.h"

#include "frontend/cli/Output.h"
#include "frontend/cli/Session.h"
#include "frontend/cli/Sizes.h"

#include <fmt/format.h>

#include <cstdio>

namespace ccl::cli {

/// nccl-tests prints -1 where no root plays a role.
static int64_t shownRoot(const model::Contract &contract) {
  return model::hasRoot(contract.collective) ? contract.root : -1;
}

static double gigabytesPerSecond(int64_t bytes, double us) {
  return us > 0 ? double(bytes) / us / 1e3 : 0;
}

static std::string timeColumn(double us) {
  return us >= 10000 ? fmt::format("{:7.0f}", us)
         : us >= 100 ? fmt::format("{:7.1f}", us)
                     : fmt::format("{:7.2f}", us);
}

void Table::comment(const std::string &text) {
  if (!json)
    printOut("# {}\n", text);
}

void Table::header() {
  if (json)
    return;
  printOut("#\n");
  printOut("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}           out-of-place                       "
           "in-place          \n",
           "", "", "", "", "");
  printOut("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "size", "count", "type", "redop", "root");
  for (int form = 0; form < 2; ++form)
    printOut("  {:>7}  {:>6}  {:>6} {:>6}", "time", "algbw", "busbw", "#wrong");
  printOut("\n# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "(B)", "(elements)", "", "", "");
  for (int form = 0; form < 2; ++form)
    printOut("  {:>7}  {:>6}  {:>6}  {:>5}", "(us)", "(GB/s)", "(GB/s)", "");
  printOut("\n");
}

void Table::add(const Series &series, const Measurement &measurement, bool last) {
  double algbw = gigabytesPerSecond(measurement.bytes, measurement.us);
  double busbw = algbw * busFactor(series.contract);
  busSum += busbw;
  ++measurements;
  tableWrong += measurement.wrong;
  allWrong += measurement.wrong;
  checked |= series.checked;
  if (json)
    return addJson(series, measurement);
  std::string wrong = series.checked ? fmt::format("{}", measurement.wrong) : "N/A";
  forms[measurement.inPlace] =
      fmt::format("  {}  {:6.2f}  {:6.2f}  {:>5}", timeColumn(measurement.us), algbw, busbw, wrong);
  if (last)
    printRow(series, measurement);
}

void Table::printRow(const Series &series, const Measurement &measurement) {
  printOut("{:12}  {:12}  {:>8}  {:>6}  {:>6}", measurement.bytes, measurement.lengths.count(),
           name(series.type), model::name(series.contract.reduction), shownRoot(series.contract));
  for (std::string &form : forms) {
    printOut("{}", form.empty()
                       ? fmt::format("  {:>7}  {:>6}  {:>6}  {:>5}", "N/A", "N/A", "N/A", "N/A")
                       : form);
    form.clear();
  }
  printOut("\n");
  flushOut();
}

void Table::addJson(const Series &series, const Measurement &measurement) {
  double algbw = gigabytesPerSecond(measurement.bytes, measurement.us);
  JsonLine line;
  line.text("collective", model::name(series.contract.collective));
  line.text("algorithm", series.algorithm);
  line.number("ranks", series.contract.ranks);
  line.number("bytes", measurement.bytes);
  line.number("count", measurement.lengths.count());
  line.text("type", name(series.type));
  line.text("redop", model::name(series.contract.reduction));
  line.number("root", shownRoot(series.contract));
  line.boolean("in_place", measurement.inPlace);
  line.real("time_us", measurement.us);
  line.real("algbw_GBps", algbw);
  line.real("busbw_GBps", algbw * busFactor(series.contract));
  if (series.checked)
    line.number("wrong", measurement.wrong);
  else
    line.null("wrong");
  line.real("jit_ms", series.jitMs);
  line.real("start_ms", series.startMs);
  if (measurement.lengths.isUneven()) {
    std::vector<std::string> counts;
    for (int64_t count : measurement.lengths.unevenCounts())
      counts.push_back(fmt::format("{}", count));
    line.array("uneven", counts);
  }
  line.print();
}

void Table::footer() {
  if (!json) {
    printOut("# Out of bounds values : {}\n",
             checked ? fmt::format("{} {}", tableWrong, tableWrong ? "FAILED" : "OK")
                     : "N/A not checked");
    printOut("# Avg bus bandwidth    : {:g}\n#\n", measurements ? busSum / measurements : 0.0);
    flushOut();
  }
  busSum = 0;
  measurements = tableWrong = 0;
  checked = false;
}

} // namespace ccl::cli
