#include "frontend/topology/Read.h"
#include "test/unit/topology/Files.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
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
  CHECK_FALSE(detectFormat(" \n\n"));
  CHECK_FALSE(detectFormat("hello world\n"));
  CHECK_FALSE(detectFormat("N V E\n2 2 2\n"));
  // Words in comments and names say nothing.
  CHECK(detectFormat("# 8 GPUs\n8 8 16\n") == Format::EdgeList);
  CHECK(detectFormat("// 8 GPUs, hops between two GPUs\nccl.topology @GPU ranks(gpu = 2) {\n") ==
        Format::Mlir);
  CHECK(detectFormat("module {\n  ccl.topology @GPUs ranks(gpu = 2) {\n") == Format::Mlir);
  CHECK(detectFormat("module @GPUs {\n") == Format::Mlir);
  CHECK(detectFormat("\"ccl.topology\"() <{sym_name = \"GPU\"}>\n") == Format::Mlir);
  CHECK(detectFormat("$ module load rccl.1\n\tGPU0\tGPU1\n") == Format::NvidiaSmi);
  CHECK(detectFormat("module load cuda\n\tGPU0\tGPU1\n") == Format::NvidiaSmi);
  CHECK(detectFormat("> GPU0 GPU1\n") == Format::NvidiaSmi); // to be refused with the reason
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
  CHECK(readTopology(file.path.string(), options).refusal.starts_with("/nowhere/at/all: No such"));
  TemporaryFile broken("# ends\n4 4 4\n0 1 x\n", ".txt");
  options.join = "graph:" + broken.path.string();
  CHECK(readTopology(file.path.string(), options).refusal ==
        broken.path.string() + ":3:5: the capacity is `x`, not a positive number (GB/s)");
  options.join = "graph:";
  CHECK(readTopology(file.path.string(), options).refusal.starts_with("`graph:` without a file"));
  options.join = "mesh";
  ReadResult mesh = readTopology(file.path.string(), options);
  CHECK(mesh.refusal.starts_with("`mesh` is no network"));
  CHECK(mesh.failed());
  CHECK(mesh.diagnostics.empty()); // the file is not to blame
}

TEST_CASE("what a file leaves open can be told") {
  std::string text = box;
  text.erase(text.find(" speed=\"{}\""), 11);
  Options options;
  options.nodes = 2;
  ReadResult result = readTopologyText(text, "box", options);
  CHECK_FALSE(result.topology);
  CHECK(result.refusal == "the network speed of mlx5_0 is not known; say which (GB/s a NIC)");
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
  CHECK(readTopology("torus:0", {}).refusal ==
        "`torus:0`: `0` is no positive number; it is written torus:AxBx...");
  std::string error = readTopology("dgx-h3000", {}).refusal;
  CHECK(error.starts_with(
      "dgx-h3000: No such file or directory; nor is it the name of a topology: "));
  CHECK(error.find("dgx-h100") != error.npos);
  CHECK(error.find("unwb") != error.npos);
  CHECK(readTopology("/", {}).failed()); // a folder
  // Files that are called like specs, with an ending.
  CHECK(isTopologyName("unwb_64"));
  CHECK(isTopologyName("torus_4x4x4"));
  for (std::string_view file :
       {"unwb_64.txt", "ring_backup.xml", "star_", "full_x.mlir", "mesh_a"}) {
    CAPTURE(file);
    CHECK_FALSE(isTopologyName(file));
  }
}

TEST_CASE("options that say nothing of a source are refused") {
  struct Row {
    Options options;
    std::string_view words;
  };
  const std::string pair = "2 2 2\n0 1 1\n1 0 1\n", file = fmt::format(fmt::runtime(box), 200000);
  for (const Row &row :
       std::initializer_list<Row>{{{2, "", Rates::Nominal, {}}, "nodes cannot be said of "},
                                  {{1, "rail", Rates::Nominal, {}}, "join cannot be said of "},
                                  {{2, "rail", Rates::Nominal, {"H100", 4, 50}},
                                   "nodes, join, gpu, pcie, nic cannot be"}}) {
    CAPTURE(row.words);
    CHECK(readTopology("dgx-h100", row.options).refusal.starts_with(row.words));
    CHECK(readTopologyText(pair, "pair", row.options).refusal.starts_with(row.words));
  }
  auto refusal = [&](const Options &options) {
    return readTopologyText(file, "box", options).refusal;
  };
  CHECK(refusal({1, "rail", Rates::Nominal, {}}) ==
        "join `rail`: there is only one node; say how many by `nodes`");
  CHECK(refusal({1, "", Rates::Nominal, {"H3000", 0, 0}}).starts_with("gpu: no GPU is known as"));
  CHECK(refusal({1, "", Rates::Nominal, {"", 7, 0}}).starts_with("pcie: there is no generation 7"));
  for (double nic : {-1., 1e300, std::nan("")})
    CHECK(refusal({1, "", Rates::Nominal, {"", 0, nic}}).starts_with("nic: "));
  CHECK(refusal({2, "switch", Rates::Nominal, {"H100", 4, 50}}).empty());
}

TEST_CASE("links that have one speed are not called nominal or effective") {
  Options effective;
  effective.rates = Rates::Effective;
  const std::string file = fmt::format(fmt::runtime(box), 200000);
  CHECK(readTopologyText(file, "box", {}).rates == Rates::Nominal);
  CHECK(readTopologyText(file, "box", effective).rates == Rates::Effective);
  CHECK(readTopology("dgx-h100:2", effective).rates == Rates::Effective);
  CHECK(readTopology("pcie-gen4:2", effective).rates == Rates::Effective);
  for (const char *name : {"torus:4x4", "dgxh100:2", "tpu-v4:2x2x2", "mtia-300:2"}) {
    CAPTURE(name);
    CHECK_FALSE(readTopology(name, {}).rates);
    ReadResult result = readTopology(name, effective);
    CHECK_FALSE(result.rates);
    CHECK(test::mentions(result.notes, oneSpeedNote()));
  }
  CHECK_FALSE(readTopologyText("2 2 2\n0 1 1\n1 0 1\n", "pair", effective).rates);
}
