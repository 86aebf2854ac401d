//===- Tables.cpp - Busiest links, and where the time went ----------------===//
#include "frontend/picture/Lanes.h"
#include "frontend/picture/Links.h"
#include "frontend/picture/Page.h"
#include "frontend/picture/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

namespace ccl::picture {
namespace {

constexpr size_t mostRows = 16;

std::string meter(double share, std::string_view className) {
  return fmt::format(R"(<span class="meter"><i class="{}" style="width:{}%"></i></span>)",
                     className, fixed(100 * std::clamp(share, 0.0, 1.0), 2));
}

} // namespace

std::string linkTable(const PageInput &input) {
  const model::Topology &topology = *input.topology;
  const std::vector<LinkClass> classes = linkClasses(topology, *input.report);
  const std::vector<double> shares = linkShares(topology, *input.report);
  std::string html;
  size_t shown = 0;
  int64_t left = 0;
  for (const LinkClass &c : classes) {
    if (!(c.use.bytes > 0) && !(c.use.busyUs > 0))
      continue;
    if (shown == mostRows) {
      left += c.size;
      continue;
    }
    ++shown;
    const double share = shares[size_t(c.link)];
    fmt::format_to(
        std::back_inserter(html),
        R"(<tr data-link="{}" data-busy="{:.9g}" data-bytes="{:.15g}"><td class="text">{}{}</td><td class="bar">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>)"
        "\n",
        c.link, c.use.busyUs, c.use.bytes, escape(linkName(topology, c.link)),
        c.size > 1 ? fmt::format(R"( <small>and {} alike</small>)", c.size - 1) : "",
        meter(share, fmt::format("b{}", heatStep(share))), percent(share), time(c.use.busyUs),
        bytes(c.use.bytes), rate(topology.links[size_t(c.link)].bandwidth));
  }
  if (html.empty())
    return "";
  if (left > 0)
    html += fmt::format(
        "<tr><td class=\"text\" colspan=\"6\"><small>and {} links less busy</small></td></tr>\n",
        left);
  return "<table><thead><tr><th class=\"text\">Link</th><th class=\"bar\"></th>"
         "<th>Of the "
         "time</th><th>Busy</th><th>Carried</th><th>Bandwidth</th></tr></thead><tbody>\n" +
         html + "</tbody></table>\n";
}

std::string agentTable(const PageInput &input) {
  const model::SimulateReport &report = *input.report;
  std::array<double, doings> sums = {};
  double ended = 0, agents = 0;
  for (const model::AgentUse &use : report.agents) {
    const std::array<double, doings> parts = {use.busyUs,   use.linkUs - use.changeUs,
                                              use.changeUs, use.slotUs,
                                              use.dataUs,   use.signalUs,
                                              use.batchUs,  use.launchUs};
    for (size_t i = 0; i < doings; ++i)
      sums[i] += std::isfinite(parts[i]) ? parts[i] : 0;
    ended += std::max(0.0, report.us - use.endUs);
    ++agents;
  }
  const double whole = agents * report.us;
  if (!(whole > 0) || !std::isfinite(whole))
    return "";
  std::string html = "<table><thead><tr><th class=\"text\">What agents did</th><th class=\"bar\">"
                     "</th><th>Of the time</th><th>Mean</th></tr></thead><tbody>\n";
  auto row = [&](std::string_view title, std::string_view why, double sum,
                 const std::string &className) {
    if (sum > 0)
      fmt::format_to(
          std::back_inserter(html),
          R"(<tr data-sum="{:.9g}"><td class="text"><i class="key {}"></i>{} <small>{}</small></td><td class="bar">{}</td><td>{}</td><td>{}</td></tr>)"
          "\n",
          sum, className, title, why, meter(sum / whole, className), percent(sum / whole),
          time(sum / agents));
  };
  for (size_t i = 0; i < doings; ++i)
    row(name(Doing(i)), meaning(Doing(i)), sums[i], std::string(1, letter(Doing(i))));
  row("ended", "waiting for nothing more", ended, "e");
  return html + "</tbody></table>\n";
}

} // namespace ccl::picture
