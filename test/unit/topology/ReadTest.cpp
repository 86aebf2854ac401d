#include "frontend/topology/Read.h"
#include "test/unit/topology/Files.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <unistd.h>

using namespace ccl;
using namespace ccl::topology;

namespace {

/// A file that is gone afterwards.
struct TemporaryFile {
  std::filesystem::path path;
  explicit TemporaryFile(std::string_view text, std::string_view suffix) {
    static int number = 0;
    path = std::filesystem::temp_directory_path() /
           fmt::format("ccl-topology-{}-{}{}", ::getpid(), number++, suffix);
    std::ofstream(path, std::ios::binary) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path); }
};

const std::string box = R"(<system version="1"><cpu numaid="0">
  <pci busid="1:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
    <gpu dev="0" sm="80" rank="0"><nvlink target="2:00.0" count="4"/></gpu></pci>
  <pci busid="2:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
    <gpu dev="1" sm="80" rank="1"><nvlink target="1:00.0" count="4"/></gpu></pci>
  <pci busid="3:00.0" class="0x020700" link_speed="16 GT/s" link_width="16">
    <nic><net name="mlx5_0" dev="0" speed="{}"/></nic></pci></cpu></system>)";

std::string firstError(const ReadResult &result) {
  for (const Diagnostic &diagnostic : result.diagnostics)
    if (diagnostic.isError())
      return diagnostic.text;
  return "";
}

} // namespace

TEST_CASE("formats are told by what they begin with") {
  CHECK(detectFormat("\xef\xbb\xbf\n <system/>") == Format::NcclXml);
  CHECK(detectFormat("<!-- x --><graphs/>") == Format::NcclXml);
  CHECK(detectFormat("$ nvidia-smi topo -m\n\tGPU0\n") == Format::NvidiaSmi);
  CHECK(detectFormat("GPU 0: H100\n") == Format::NvidiaSmi);
  CHECK(detectFormat("=== Weight between two GPUs ===\nGPU0") == Format::RocmSmi);
  CHECK(detectFormat("# of a ring\n8 8 16\n") == Format::EdgeList);
  CHECK_FALSE(detectFormat(""));
  CHECK_FALSE(detectFormat("hello world\n"));
  ReadResult result = readTopologyText("hello", "x", {});
  CHECK(result.failed());
  CHECK(firstError(result).starts_with("neither NCCL's topology XML"));
}

TEST_CASE("a file, joined by its NICs, in either rates") {
  TemporaryFile file(fmt::format(fmt::runtime(box), 200000), ".xml");
  Options options;
  ReadResult one = readTopology(file.path.string(), options);
  REQUIRE(one.topology);
  CHECK(one.topology->ranks() == 2);
  CHECK(one.what == "NCCL or RCCL topology XML: 2 GPUs, 1 NIC, 1 socket, 8 links");
  REQUIRE(one.nics.size() == 1);
  CHECK(one.nics[0].bandwidth == 25);
  CHECK(one.topology->name == file.path.stem().string());

  options.nodes = 4;
  options.rates = Rates::Effective;
  ReadResult four = readTopology(file.path.string(), options);
  REQUIRE_MESSAGE(four.topology, firstError(four));
  CHECK(four.topology->ranks() == 8);
  CHECK(four.topology->links.size() == 4 * (8 + 2));
  CHECK(four.topology->check() == "");
  CHECK(four.topology->links[0].bandwidth == 24);

  TemporaryFile ring("4 4 4\n0 1 5\n1 2 5\n2 3 5\n3 0 5\n", ".txt");
  options.join = "graph:" + ring.path.string();
  ReadResult graph = readTopology(file.path.string(), options);
  REQUIRE_MESSAGE(graph.topology, firstError(graph));
  CHECK(graph.topology->links.size() == 4 * 8 + 4);
  options.join = "graph:/nowhere/at/all";
  CHECK(
      firstError(readTopology(file.path.string(), options)).find("/nowhere/at/all: No such file") ==
      0);
  options.join = "mesh";
  CHECK(firstError(readTopology(file.path.string(), options)).starts_with("`mesh` is no network"));
}

TEST_CASE("what a file leaves open can be told") {
  std::string text = box;
  text.erase(text.find(" speed=\"{}\""), 11);
  Options options;
  options.nodes = 2;
  ReadResult result = readTopologyText(text, "box", options);
  CHECK_FALSE(result.topology);
  CHECK(firstError(result) == "the network speed of mlx5_0 is not known; say which (GB/s a NIC)");
  options.assume.nic = 50;
  result = readTopologyText(text, "box", options);
  REQUIRE(result.topology);
  CHECK(result.topology->links.back().bandwidth == 50);
}

TEST_CASE("too little for a topology is no error") {
  ReadResult result =
      readTopologyText("<system version=\"1\"><cpu numaid=\"0\"/></system>", "empty", {});
  CHECK_FALSE(result.topology);
  CHECK_FALSE(result.failed());
  REQUIRE(result.missing.size() == 1);
  CHECK(result.missing[0].starts_with("GPUs: "));
}

TEST_CASE("names, and what is neither name nor file") {
  ReadResult result = readTopology("dgx-h100:2", {});
  REQUIRE(result.topology);
  CHECK(result.topology->ranks() == 16);
  CHECK(readTopology("unwb:4", {}).topology->links.size() == 320);
  CHECK(readTopology("mtia-300:4", {}).notes.size() == 2);
  CHECK(firstError(readTopology("torus:0", {})) ==
        "`torus:0`: `0` is no positive number; it is written torus:AxBx...");
  std::string error = firstError(readTopology("dgx-h3000", {}));
  CHECK(error.starts_with(
      "dgx-h3000: No such file or directory; nor is it the name of a topology: "));
  CHECK(error.find("dgx-h100") != error.npos);
  CHECK(error.find("unwb") != error.npos);
  Options options;
  options.nodes = 2;
  CHECK(firstError(readTopology("torus:4x4", options)).find("instead of joining 2 copies") !=
        std::string::npos);
  CHECK(readTopology("/", {}).failed()); // a folder
}

TEST_CASE("edge lists have no NICs to be joined by") {
  Options options;
  options.nodes = 2;
  ReadResult result = readTopologyText("2 2 2\n0 1 1\n1 0 1\n", "pair", options);
  CHECK(firstError(result) == "pair has no NICs, so 2 copies of it cannot be joined");
}
