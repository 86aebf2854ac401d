// Timelines as pages have them.
#pragma once

#include "frontend/picture/Page.h"

#include <doctest/doctest.h>

#include <pugixml.hpp>

#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace ccl::picture {

/// A rect as a page has it.
struct Drawn {
  std::string kind;
  double x = 0, width = 0; ///< percent
  double begin = 0, end = 0, work = -1;
  int64_t count = 1;
};

struct DrawnLane {
  std::string kind;
  int32_t id = 0;
  std::vector<Drawn> bars;
};

inline double percentOf(const char *text) {
  const std::string value = text;
  REQUIRE(value.ends_with("%"));
  return std::stod(value);
}

inline Drawn drawnOf(const pugi::xml_node &rect) {
  return {rect.attribute("class").value(),
          percentOf(rect.attribute("x").value()),
          percentOf(rect.attribute("width").value()),
          rect.attribute("data-begin").as_double(),
          rect.attribute("data-end").as_double(),
          rect.attribute("data-work").as_double(-1),
          rect.attribute("data-count").as_llong(1)};
}

struct DrawnTimeline {
  explicit DrawnTimeline(const PageInput &input) {
    const std::string text = page(input);
    size = text.size();
    REQUIRE(document.load_string(text.c_str()));
    for (const pugi::xpath_node &lane : document.select_nodes("//g[@data-lane]")) {
      lanes.push_back({lane.node().attribute("data-lane").value(),
                       lane.node().attribute("data-id").as_int(),
                       {}});
      for (const pugi::xml_node &rect : lane.node().children("rect"))
        if (rect.attribute("data-begin"))
          lanes.back().bars.push_back(drawnOf(rect));
    }
    for (const pugi::xpath_node &rect : document.select_nodes("//g[@class='critical']/rect"))
      outline.push_back(drawnOf(rect.node()));
  }
  std::string text(const char *path) const {
    std::string result;
    for (const pugi::xpath_node &node : document.select_nodes(path))
      result += std::string(node.node().text().get()) + "\n";
    return result;
  }
  pugi::xml_document document;
  std::vector<DrawnLane> lanes;
  std::vector<Drawn> outline;
  size_t size = 0;
};

/// Every bar is where its times are, to a hundredth of a pixel of a plot 1000 wide.
inline void checkScale(const std::vector<Drawn> &bars, double us) {
  double last = 0;
  for (const Drawn &bar : bars) {
    CHECK(std::abs(bar.x - 100 * bar.begin / us) < 0.001);
    CHECK(std::abs(bar.width - 100 * (bar.end - bar.begin) / us) < 0.001);
    CHECK(bar.begin >= last - 1e-6 * us); // nothing twice
    last = bar.end;
  }
  CHECK(last <= us * (1 + 1e-6));
}

inline std::map<std::string, double> sums(const std::vector<Drawn> &bars) {
  std::map<std::string, double> result;
  for (const Drawn &bar : bars) {
    REQUIRE(bar.kind != "m");
    result[bar.kind] += bar.end - bar.begin;
  }
  return result;
}

} // namespace ccl::picture
