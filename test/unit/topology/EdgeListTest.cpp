#include "frontend/topology/EdgeList.h"

#include <doctest/doctest.h>

using namespace ccl;
using namespace ccl::topology;

TEST_CASE("an edge list comes back as it went") {
  std::string text = "3 4 6\n0 3 25\n1 3 12.5\n2 3 0.1\n3 0 25\n3 1 12.5\n3 2 0.1\n";
  std::vector<interchange::Diagnostic> diagnostics;
  std::optional<model::Topology> topology = readEdgeList(
      "# three\n\n3 4 6\n3 2 .1 # back\n0 3 25\r\n1 3 12.5\n2 3 1e-1\n3 0 25\n\t3 1 12.5",
      diagnostics);
  REQUIRE(topology);
  CHECK(diagnostics.empty());
  CHECK(topology->ranks() == 3);
  CHECK(topology->switches.size() == 1);
  CHECK(topology->check() == "");
  CHECK(printEdgeList(*topology) == text);
}

TEST_CASE("what an edge list has no place for") {
  model::Topology topology;
  topology.axes = {{"gpu", 2}};
  topology.links = {{0, 1, 5, 0, {}}, {1, 0, 5, 0, {}}};
  CHECK(lostInEdgeList(topology).empty());
  topology.links[0].latency = 1;
  CHECK(lostInEdgeList(topology) == "latencies");
  topology.switches = {{"nvswitch", true, true}};
  topology.resources = {{"nic", 10}};
  topology.reconfigurable = 11.5;
  CHECK(lostInEdgeList(topology) ==
        "latencies, switches that copy or add, shared resources, reconfiguration");
}

TEST_CASE("an edge list with something wrong says where") {
  struct Row {
    std::string text;
    int32_t line, column;
    std::string what;
  };
  for (const Row &row : std::initializer_list<Row>{
           {"", 1, 1, "no line"},
           {"2 2\n", 1, 1, "the first line has 2 words"},
           {"0 2 1\n", 1, 1, "the number of ranks is `0`"},
           {"2 1 1\n", 1, 3, "the number of nodes is `1`, not an integer from 2 to"},
           {"2 2 -1\n", 1, 5, "the number of links is `-1`"},
           {"2 2 2\n0 1 1\n1 0\n", 3, 1, "a link is `src dst capacity`; here are 2 words"},
           {"2 2 2\n0 2 1\n", 2, 3, "a link's destination is `2`, not an integer from 0 to 1"},
           {"2 2 2\n0 x 1\n", 2, 3, "a link's destination is `x`"},
           {"2 2 2\n0 0 1\n", 2, 3, "the link joins node 0 to itself"},
           {"2 2 2\n0 1 0\n", 2, 5, "the capacity is `0`, not a positive number"},
           {"2 2 2\n0 1 nan\n", 2, 5, "the capacity is `nan`"},
           {"2 2 2\n0 1 inf\n", 2, 5, "the capacity is `inf`"},
           {"2 2 2\n0 1 -1\n", 2, 5, "the capacity is `-1`, not a positive number"},
           {"2 2 2\n0 1 1,5\n", 2, 5, "the capacity is `1,5`, not a positive number"},
           {"2 2 2\n0 1 1e308\n", 2, 5,
            "the capacity is `1e308`, not from 1e-06 to 1000000000 GB/s"},
           {"2 2 2\n0 1 1e-300\n", 2, 5, "the capacity is `1e-300`, not from"},
           {"2 2 2\n0 1 1e400\n", 2, 5, "the capacity is `1e400`, not a positive number"},
           {"2 2 2 2\n", 1, 1, "the first line has 4 words"},
           {"99999999999999999999 2 1\n", 1, 1, "the number of ranks is `99999999999999999999`"},
           {"2 2 2\n0 1 5GB\n", 2, 5, "the capacity is `5GB`"},
           {"2 2 2\n0 1 1\n", 2, 1, "the list ends after 1 of the 2 links"},
           {"2 2 1\n0 1 1\n1 0 1\n", 3, 1, "more than the 1 links"},
           {"# one way\n2 2 1\n0 1 1\n", 2, 1, "rank 1 cannot reach rank 0"}}) {
    CAPTURE(row.text);
    std::vector<interchange::Diagnostic> diagnostics;
    CHECK_FALSE(readEdgeList(row.text, diagnostics));
    REQUIRE(diagnostics.size() == 1);
    CHECK(diagnostics[0].place == interchange::TextPlace{row.line, row.column});
    CHECK(diagnostics[0].text.starts_with(row.what));
  }
}
