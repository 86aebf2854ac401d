#include "frontend/picture/Style.h"
#include "test/unit/picture/Cases.h"

#include <doctest/doctest.h>

#include <fmt/format.h>
#include <pugixml.hpp>

#include <cmath>
#include <limits>
#include <set>

using namespace ccl::picture;
using namespace ccl::model;

namespace {

/// What XML asks for that pugixml lets pass: known entities, quoted attributes without "<", each
/// once, no stray "<" and "&" in text.
void checkStrictly(const std::string &text) {
  for (size_t at = text.find('&'); at != std::string::npos; at = text.find('&', at + 1)) {
    const std::string entity = text.substr(at, text.find(';', at) - at + 1);
    CHECK(std::set<std::string>{"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}.count(entity) == 1);
  }
  for (size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const size_t end = text.find('>', at);
    REQUIRE(end != std::string::npos);
    const std::string tag = text.substr(at + 1, end - at - 1);
    CHECK(tag.find('<') == std::string::npos);
    CHECK(std::count(tag.begin(), tag.end(), '"') % 2 == 0);
    std::set<std::string> names;
    bool quoted = false;
    std::string word;
    for (char c : tag) {
      if (c == '"')
        quoted = !quoted;
      else if (quoted)
        continue;
      else if (c == '=') {
        if (!names.insert(word).second)
          FAIL_CHECK("attribute " << word << " twice in <" << tag << ">");
      } else if (c == ' ') {
        word.clear();
      } else {
        word += c;
      }
    }
  }
}

pugi::xml_document parsed(const std::string &text) {
  pugi::xml_document document;
  const pugi::xml_parse_result result = document.load_string(text.c_str());
  CHECK_MESSAGE(result, result.description());
  checkStrictly(text);
  CHECK(document.child("html").child("body").child("main"));
  return document;
}

/// Nothing is loaded from anywhere.
void checkAlone(const std::string &text) {
  for (const char *word : {"http", "//", "url(", "src=", "href", "@import", "xmlns", "import("})
    CHECK_MESSAGE(text.find(word) == std::string::npos, word);
}

std::string textOf(const pugi::xml_document &document, const char *path) {
  return document.select_node(path).node().text().get();
}

} // namespace

TEST_CASE("pages are well-formed and load nothing") {
  for (const Topology &topology : {dgx(2, 8), dgx(2, 8, true), dgx(75, 8), ring(1), ring(8),
                                   ring(600), torus({4, 4}), full(8), star(12), meshes(2, 8)}) {
    CAPTURE(topology.name);
    const SimulateReport report = plainReport(topology);
    PageInput input;
    input.program = "p", input.collective = "all_gather", input.model = "ccl";
    input.topology = &topology, input.report = &report;
    const std::string text = page(input);
    parsed(text);
    checkAlone(text);
    CHECK(text == page(input));
  }
  const Case c = hierarchicalCase(2, 8, 2);
  const std::string text = page(c.input());
  parsed(text);
  checkAlone(text);
  CHECK(text.size() < (1 << 20));
}

TEST_CASE("style and script mean the same in HTML and in XML") {
  for (const std::string &text : {style(), script()}) {
    CHECK(text.find('<') == std::string::npos);
    CHECK(text.find('&') == std::string::npos);
  }
  CHECK(style().find("prefers-color-scheme:dark") != std::string::npos);
  CHECK(style().find("@media print") != std::string::npos);
}

TEST_CASE("the head has the numbers of the report") {
  const Case c = hierarchicalCase(2, 8, 2);
  PageInput input = c.input();
  input.boundGBps = 2 * c.report.algbw;
  input.certificate = "a cut";
  input.facts = {{"micro-batches", "2"}};
  const pugi::xml_document document = parsed(page(input));
  CHECK(textOf(document, "//h1") == "hierarchical all-reduce");
  CHECK(textOf(document, "//*[@id='time']/b") == fmt::format("{:.4g} µs", c.report.us));
  CHECK(textOf(document, "//*[@id='algbw']/b") == fmt::format("{:.4g} GB/s", c.report.algbw));
  CHECK(textOf(document, "//*[@id='bound']/b") == fmt::format("{:.4g} GB/s", input.boundGBps));
  CHECK(textOf(document, "//*[@id='ratio']/b") == "50 %");
  CHECK(textOf(document, "//dt[.='micro-batches']/../dd") == "2");
  CHECK(textOf(document, "//dt[.='size']/../dd") == "64 MiB");
  CHECK(textOf(document, "//dt[.='topology']/../dd") == "dgx-2x8, 16 ranks");
  CHECK(textOf(document, "//main/p") == "Bound: a cut");
  input.boundGBps = 0;
  const std::string without = page(input);
  CHECK(!parsed(without).select_node("//*[@id='bound']"));
}

TEST_CASE("links have the color of their use") {
  const Topology topology = star(4);
  const SimulateReport report = plainReport(topology);
  PageInput input;
  input.topology = &topology, input.report = &report;
  const pugi::xml_document document = parsed(page(input));
  size_t links = 0;
  for (size_t l = 0; l < topology.links.size(); ++l) {
    const std::string name = topology.nodeName(topology.links[l].src) + " → " +
                             topology.nodeName(topology.links[l].dst) + ":";
    for (const pugi::xpath_node &path : document.select_nodes("//g[@class='wires']/path")) {
      const std::string title = path.node().child("title").text().get();
      if (!title.starts_with(name))
        continue;
      ++links;
      CHECK(path.node().attribute("class").value() == fmt::format("h{}", l % 11));
      CHECK(title.find(fmt::format("busy {} %", l % 11 * 10)) != std::string::npos);
    }
  }
  CHECK(links == topology.links.size());
  CHECK(document.select_nodes("//*[@id='scale']/i").size() == 11);
}

TEST_CASE("names may be anything") {
  Case c = hierarchicalCase(2, 2, 1);
  const std::string evil = "<script>alert(\"&amp;'\")</script>]]>\x01\xff-->";
  for (Switch &s : c.topology.switches)
    s.name = evil + s.name;
  c.topology.name = c.topology.axes[0].name = evil;
  PageInput input = c.input();
  input.program = input.collective = input.model = input.certificate = evil;
  input.facts = {{evil, evil}};
  input.boundGBps = 1;
  const pugi::xml_document document = parsed(page(input));
  const std::string shown = "<script>alert(\"&amp;'\")</script>]]>\xEF\xBF\xBD\xEF\xBF\xBD-->";
  CHECK(textOf(document, "//h1") == shown);
  CHECK(document.select_nodes("//script").size() == 1);
  const std::string title = document.select_node("//rect[@class='nic']/title").node().text().get();
  CHECK(title.starts_with(shown));
}

TEST_CASE("faults are shown instead of a result") {
  const Topology topology = ring(4);
  SimulateReport report;
  Fault &fault = report.faults.emplace_back();
  fault.message = "rank 1, block 0 waits <forever>";
  fault.notes.push_back({-1, "with 2 slots it would not"});
  PageInput input;
  input.program = "stuck", input.topology = &topology, input.report = &report;
  const pugi::xml_document document = parsed(page(input));
  CHECK(textOf(document, "//p[@class='fault']") == fault.message);
  CHECK(textOf(document, "//p[@class='fault']/following-sibling::p") == fault.notes[0].message);
  CHECK(!document.select_node("//*[@id='timeline']"));
  CHECK(document.select_node("//svg"));
}

TEST_CASE("reports without sense still make pages") {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  for (double value : {0.0, -1.0, nan, inf, 1e300}) {
    Case c = ringCase(4);
    SUBCASE("time") { c.report.us = value; }
    SUBCASE("links") {
      for (LinkUse &use : c.report.links)
        use = {value, value};
    }
    SUBCASE("no links") { c.report.links.clear(); }
    SUBCASE("agents") {
      for (AgentUse &use : c.report.agents)
        use.busyUs = use.endUs = value;
    }
    SUBCASE("bound") { c.report.algbw = value; }
    SUBCASE("empty timeline") { c.report.timeline.emplace(); }
    PageInput input = c.input();
    input.boundGBps = value;
    const std::string text = page(input);
    parsed(text);
    CHECK(text.find("nan") == std::string::npos);
    CHECK(text.find("inf%") == std::string::npos);
  }
}
