//===- Page.cpp - The whole page ------------------------------------------===//
#include "frontend/picture/Page.h"

#include "frontend/picture/Lanes.h"
#include "frontend/picture/Links.h"
#include "frontend/picture/Style.h"
#include "frontend/picture/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace ccl::picture {
namespace {

class Writer {
public:
  explicit Writer(const PageInput &input)
      : input(input), topology(*input.topology), report(*input.report) {}

  std::string write() {
    html = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n";
    add("<title>{}, simulated on {}</title>", escape(input.program), escape(topology.name));
    html += "<style>" + style() + "</style>\n</head>\n<body>\n<main>\n";
    head();
    if (!report.ok())
      faults();
    else
      figures();
    drawing();
    if (report.ok()) {
      timeline();
      tables();
    }
    html += "</main>\n<script>" + script() + "</script>\n</body>\n</html>\n";
    return std::move(html);
  }

private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args &&...args) {
    fmt::format_to(std::back_inserter(html), format, std::forward<Args>(args)...);
    html += '\n';
  }

  void head() {
    add("<header>\n<h1>{}</h1>\n<dl class=\"facts\">", escape(input.program));
    auto fact = [&](std::string_view name, std::string_view value) {
      if (!value.empty())
        add("<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value));
    };
    fact("collective", input.collective);
    const int64_t ranks = topology.ranks();
    fact("topology", fmt::format("{}, {} {}", topology.name, ranks, ranks == 1 ? "rank" : "ranks"));
    if (report.ok())
      fact("size", bytes(double(report.bytes)));
    fact("cost model", input.model);
    for (const auto &[name, value] : input.facts)
      fact(name, value);
    html += "</dl>\n</header>\n";
  }

  void faults() {
    html += "<section><h2>The simulation has no result</h2>\n";
    for (const model::Fault &fault : report.faults) {
      add("<p class=\"fault\">{}</p>", escape(fault.message));
      for (const model::Note &note : fault.notes)
        add("<p>{}</p>", escape(note.message));
    }
    html += "</section>\n";
  }

  void figure(std::string_view id, std::string_view value, std::string_view words,
              std::string_view more = "") {
    add("<div class=\"figure\" id=\"{}\"><b>{}</b><span>{}</span>{}</div>", id, value, words, more);
  }

  void figures() {
    html += "<div class=\"figures\">\n";
    figure("time", time(report.us), "time");
    figure("algbw", rate(report.algbw), "algbw: size over time");
    const bool bounded = input.boundGBps > 0 && std::isfinite(input.boundGBps);
    if (bounded) {
      const double ratio = report.algbw / input.boundGBps;
      figure("bound", rate(input.boundGBps), "bound: no algbw is higher here");
      figure("ratio", percent(ratio), "of the bound",
             fmt::format(R"(<span class="ratio"><i style="width:{}%"></i></span>)",
                         fixed(100 * std::clamp(ratio, 0.0, 1.0), 2)));
    } else {
      const std::vector<double> shares = linkShares(topology, report);
      if (!shares.empty())
        figure("busiest", percent(*std::max_element(shares.begin(), shares.end())),
               "of the time, the busiest link works");
      figure("messages", fmt::format("{}", report.messages), "messages");
    }
    html += "</div>\n";
    if (!input.certificate.empty())
      add("<p style=\"margin:10px 2px 0\">Bound: {}</p>", escape(input.certificate));
  }

  void notes(const Drawing &drawing) {
    if (drawing.notes.empty())
      return;
    html += "<ul class=\"notes\">\n";
    for (const std::string &note : drawing.notes)
      add("<li>{}</li>", escape(note));
    html += "</ul>\n";
  }

  void drawing() {
    const Drawing drawn = drawTopology(input);
    html += "<section id=\"topology\"><h2>Topology</h2>\n";
    add("<p>Lines are links, in the color of the part of the time in which they work; of the two "
        "between a pair, each keeps to the right of its direction. Thicker ones are faster.</p>");
    html += "<div class=\"scroll\">\n" + drawn.html + "</div>\n<div class=\"legend\">";
    html += "<span class=\"scale\" id=\"scale\"><b>0 %</b>";
    for (int step = 0; step <= heatSteps; ++step)
      html += fmt::format("<i class=\"b{}\"></i>", step);
    html += "<b>100 % busy</b></span>";
    auto shape = [&](std::string_view className, std::string_view name) {
      html += fmt::format("<span><i class=\"shape {}\"></i>{}</span>", className, name);
    };
    shape("rank", "rank");
    auto hasKind = [&](model::SwitchKind kind) {
      return std::any_of(topology.switches.begin(), topology.switches.end(),
                         [&](const model::Switch &s) { return s.kind == kind; });
    };
    if (hasKind(model::SwitchKind::Switch))
      shape("switch", "switch");
    if (hasKind(model::SwitchKind::Nic))
      shape("nic", "NIC");
    if (hasKind(model::SwitchKind::Pcie))
      shape("pcie", "PCIe switch");
    if (hasKind(model::SwitchKind::Cpu))
      shape("cpu", "CPU");
    html += "</div>\n";
    notes(drawn);
    html += "</section>\n";
  }

  void timeline() {
    const Drawing drawn = drawTimeline(input);
    html += "<section id=\"timeline\"><h2>Timeline</h2>\n";
    if (drawn.html.empty()) {
      add("<p>{}</p></section>",
          report.timeline ? "Nothing took any time." : "The simulation kept no timeline.");
      return;
    }
    html +=
        "<p>A lane for each agent: full bars work, thin ones wait. The critical path is what the "
        "end had to wait for.</p>\n";
    html += drawn.html + "<div class=\"legend\">";
    for (size_t i = 0; i < doings; ++i) {
      const std::string part = fmt::format("<rect class=\"{}\" x", letter(Doing(i)));
      if (drawn.html.find(part) != std::string::npos)
        html += fmt::format("<span><i class=\"key {}{}\"></i>{}</span>", letter(Doing(i)),
                            i == 0 ? "" : " half", name(Doing(i)));
    }
    html += "<span><i class=\"key path\"></i>critical path</span></div>\n";
    notes(drawn);
    html += "</section>\n";
  }

  void tables() {
    const std::string links = linkTable(input), agents = agentTable(input);
    if (!links.empty())
      add("<section id=\"links\"><h2>Busiest links</h2>\n<div class=\"scroll\">{}</div></section>",
          links);
    if (!agents.empty())
      add("<section id=\"agents\"><h2>Where the time went</h2>\n<div class=\"scroll\">{}</div>"
          "</section>",
          agents);
    add("<footer>{} messages of {} in all, {} events.</footer>", report.messages,
        bytes(report.moved), report.events);
  }

  const PageInput &input;
  const model::Topology &topology;
  const model::SimulateReport &report;
  std::string html;
};

} // namespace

std::string page(const PageInput &input) { return Writer(input).write(); }

} // namespace ccl::picture
