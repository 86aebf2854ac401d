#include "frontend/topology/ReadSmi.h"
#include "test/unit/topology/Files.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>

using namespace ccl;
using namespace ccl::topology;
using namespace ccl::test;

namespace {

std::optional<Machine> readAny(std::string_view text, std::vector<Diagnostic> &diagnostics,
                               const Assume &assume = {}) {
  return isRocmSmi(text) ? readRocmSmi(text, assume, diagnostics)
                         : readNvidiaSmi(text, assume, diagnostics);
}

Machine read(std::string_view text, const Assume &assume = {}) {
  std::vector<Diagnostic> diagnostics;
  std::optional<Machine> machine = readAny(text, diagnostics, assume);
  REQUIRE_MESSAGE(machine, (diagnostics.empty() ? "" : diagnostics[0].text));
  CHECK(diagnostics.empty());
  return *machine;
}

bool isMatrixLine(const std::string &line) {
  return line.find("GPU0") != line.npos && line.find("GPU0:") == line.npos;
}

/// As the tool prints it: header cells underlined, lines ending in CR LF.
std::string withAnsi(const std::string &text) {
  std::istringstream lines(text);
  std::string out, line;
  bool header = true;
  while (std::getline(lines, line)) {
    if (header && isMatrixLine(line)) {
      header = false;
      std::string marked;
      bool inside = false;
      for (char c : line) {
        bool blank = c == ' ' || c == '\t';
        if (blank == inside)
          marked += inside ? "\x1b[0m" : "\x1b[4m";
        inside = !blank;
        marked += c;
      }
      line = marked + (inside ? "\x1b[0m" : "");
    }
    out += line + "\r\n";
  }
  return out;
}

/// With other spacing: blanks doubled, tabs as blanks.
std::string respaced(const std::string &text) {
  std::string out;
  for (char c : text)
    out += c == ' ' || c == '\t' ? std::string("  ") : std::string(1, c);
  return out;
}

void checkEqual(const Machine &a, const Machine &b) {
  CHECK(a.summary() == b.summary());
  REQUIRE(a.cables.size() == b.cables.size());
  for (size_t i = 0; i < a.cables.size(); ++i) {
    CHECK(a.cables[i].from == b.cables[i].from);
    CHECK(a.cables[i].to == b.cables[i].to);
    CHECK(a.cables[i].speed.nominal == b.cables[i].speed.nominal);
  }
}

} // namespace

TEST_CASE("bridges and sockets from PIX, PXB, PHB, NODE and SYS") {
  Machine machine = read("\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tmlx5_1\tCPU Affinity\tNUMA Affinity\n"
                         "GPU0\t X \tPIX\tPXB\tSYS\tPXB\tSYS\t0-7\t0\n"
                         "GPU1\tPIX\t X \tPXB\tSYS\tPXB\tSYS\t0-7\t0\n"
                         "GPU2\tPXB\tPXB\t X \tSYS\tPIX\tSYS\t0-7\t0\n"
                         "GPU3\tSYS\tSYS\tSYS\t X \tSYS\tPHB\t8-15\t1\n"
                         "NIC0\tPXB\tPXB\tPIX\tSYS\t X \tSYS\t\t\n"
                         "mlx5_1\tSYS\tSYS\tSYS\tPHB\tSYS\t X \t\t\n\nLegend:\n\n  X    = Self\n\n"
                         "NIC Legend:\n\n  NIC0: mlx5_0\n");
  // Two bridges below a third: {0, 1}, {2, NIC0}.
  CHECK(machine.summary() == "4 GPUs, 2 NICs, 3 PCIe bridges, 2 sockets, 20 links");
  CHECK(nominal(machine, "GPU0", "pci1") == 16);
  CHECK(nominal(machine, "GPU1", "pci1") == 16);
  CHECK(nominal(machine, "GPU2", "pci2") == 16);
  CHECK(nominal(machine, "mlx5_0", "pci2") == 16);
  CHECK(nominal(machine, "pci1", "pci0") == 16);
  CHECK(nominal(machine, "pci0", "cpu0") == 16);
  CHECK(nominal(machine, "GPU3", "cpu1") == 16);
  CHECK(nominal(machine, "mlx5_1", "cpu1") == 16);
  CHECK(nominal(machine, "cpu0", "cpu1") == 10);
  CHECK(mentions(machine.missing, "taken as PCIe 3 x16"));
  CHECK(mentions(machine.missing, "network speed of 2 NICs"));
}

TEST_CASE("NVLinks are direct as long as a GPU has so many, else go to a switch") {
  std::string text = "GPU0 GPU1 GPU2 GPU3 CPU Affinity\n"
                     "GPU0 X {0} {0} {0} 0-7\nGPU1 {0} X {0} {0} 0-7\n"
                     "GPU2 {0} {0} X {0} 0-7\nGPU3 {0} {0} {0} X 0-7\n";
  Machine mesh = read(fmt::format(fmt::runtime(text), "NV6"));
  CHECK(nominal(mesh, "GPU0", "GPU3") == 150);
  CHECK(mesh.count(DeviceKind::Switch) == 0);
  CHECK(mentions(mesh.missing, "taken as 25 GB/s a link (20 effective)"));
  Machine switched = read(fmt::format(fmt::runtime(text), "NV18"));
  CHECK(nominal(switched, "GPU0", "nvswitch") == 450);
  CHECK(nominal(switched, "GPU0", "GPU3") == 0);
  // A V100 has six links in all.
  Assume assume;
  assume.gpu = "V100";
  CHECK(nominal(read(fmt::format(fmt::runtime(text), "NV6"), assume), "GPU0", "nvswitch") == 150);
  assume.gpu = "GB200";
  Machine blackwell = read(fmt::format(fmt::runtime(text), "NV18"), assume);
  CHECK(nominal(blackwell, "GPU0", "nvswitch") == 900);
  CHECK_FALSE(mentions(blackwell.missing, "kind of GPU"));
}

TEST_CASE("nvlink -s or -L in the same text say which GPUs they are") {
  std::string matrix = "GPU0 GPU1\nGPU0 X NV4\nGPU1 NV4 X\n";
  Machine machine = read("GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-0)\n\t Link 0: 14.062 GB/s\n"
                         "\t Link 1: <inactive>\n" +
                         matrix);
  CHECK(nominal(machine, "GPU0", "GPU1") == 4 * 14.0625);
  machine = read(matrix + "GPU 0: NVIDIA Graphics Device\n Link 0: 53.125 GB/s\n");
  CHECK(nominal(machine, "GPU0", "GPU1") == 200);
  Machine alone = read("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)\n Link 0: 26.562 GB/s\n"
                       " Link 1: 26.562 GB/s\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n");
  CHECK(alone.summary() == "2 GPUs");
  CHECK(mentions(alone.missing, "where each link leads"));
  CHECK(mentions(alone.notes, "GPU 0: NVIDIA H100 80GB HBM3, 2 active links of 26.562 GB/s"));
}

TEST_CASE("a matrix of topo -p2p beside that of topo -m is skipped") {
  std::string ways = "\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n",
              peers = " \tGPU0\tGPU1\t\n GPU0\tX\tGNS\t\n GPU1\tGNS\tX\t\n";
  for (const std::string &text : {ways + "\nLegend:\n\n" + peers, ways + "\n" + peers,
                                  peers + "\n" + ways, peers + ways + peers}) {
    CAPTURE(text);
    CHECK(read(text).summary() == "2 GPUs, 1 socket, 4 links");
  }
}

TEST_CASE("a link that is pasted twice counts once") {
  std::string text = "GPU 0: A\n Link 0: 25 GB/s\n Link 1: <inactive>\n";
  CHECK(mentions(read(text + text).notes, "GPU 0: A, 1 active link of 25 GB/s"));
}

TEST_CASE("colors whose escape character was lost, links and titles of terminals") {
  std::string rows = "GPU0\t X \tNV4\nGPU1\tNV4\t X \n";
  Machine plain = read("\tGPU0\tGPU1\tCPU Affinity\n" + rows);
  for (std::string_view header :
       {"\t[4mGPU0\tGPU1\tCPU Affinity[0m\n", "\t^[[4mGPU0\tGPU1\tCPU Affinity^[[0m\n",
        "\x1b]0;node1: smi\a\t\x1b[4mGPU0\tGPU1\tCPU Affinity\x1b[0m\n",
        "\x1b]8;;http://x\x1b\\\tGPU0\tGPU1\x1b]8;;\x1b\\\tCPU Affinity\n"}) {
    CAPTURE(header);
    checkEqual(plain, read(std::string(header) + rows));
  }
}

TEST_CASE("affinities: two tabs between wide columns, N/A is none") {
  auto sockets = [](std::string_view affinity0, std::string_view affinity1) {
    std::string text = fmt::format("\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
                                   "GPU0\t X \tNV4\t{}\nGPU1\tNV4\t X \t{}\n",
                                   affinity0, affinity1);
    return read(text).count(DeviceKind::Cpu);
  };
  CHECK(sockets("0-31\t0\t\tN/A", "0-31\t0\t\tN/A") == 1);
  CHECK(sockets("0-31\t0\t\tN/A", "32-63\t1\t\tN/A") == 2);
  CHECK(sockets("0-63\t\t0\t\tN/A", "0-63\t\t1\t\tN/A") == 2);
  CHECK(sockets("0-31\t\tN/A\t\tN/A", "32-63\t\tN/A\t\tN/A") == 2);
  CHECK(sockets("N/A\tN/A\t\tN/A", "N/A\tN/A\t\tN/A") == 1); // nothing is said
  CHECK(sockets("\t0\t\tN/A", "\t1\t\tN/A") == 2);
}

TEST_CASE("a sentence that begins with a GPU is no header") {
  CHECK(read("GPU0 is hot\nGPU1 temp 45\n GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X\n").summary() ==
        "2 GPUs, 1 PCIe bridge, 1 socket, 6 links");
}

TEST_CASE("PSB is a bridge on the board") {
  CHECK(read("  GPU0 GPU1\nGPU0 X PSB\nGPU1 PSB X\n").count(DeviceKind::Pcie) == 1);
}

TEST_CASE("GPUs of several kinds, and kinds told by the speed of a link") {
  std::string matrix = "GPU0 GPU1\nGPU0 X NV4\nGPU1 NV4 X\n";
  Machine mixed = read("GPU 0: NVIDIA A100\nGPU 1: NVIDIA GeForce RTX 3090\n" + matrix);
  CHECK(nominal(mixed, "GPU0", "GPU1") == 4 * 14.0625);
  CHECK(mentions(mixed.notes, "GPUs are of several kinds"));
  struct Row {
    const char *speed;
    double nominal, effective;
  };
  for (Row row : {Row{"14.062", 56.25, 48}, Row{"19.531", 80, 72}, Row{"25", 100, 80},
                  Row{"25.781", 100, 80}, Row{"26.562", 100, 82.4}, Row{"50", 200, 160.4}}) {
    CAPTURE(row.speed);
    Machine machine = read(fmt::format("GPU 0: X\n Link 0: {} GB/s\n", row.speed) + matrix);
    CHECK(nominal(machine, "GPU0", "GPU1") == row.nominal);
    CHECK(effective(machine, "GPU0", "GPU1") == doctest::Approx(row.effective));
  }
}

TEST_CASE("rows may be in another order") {
  Machine machine =
      read("     GPU0 NIC1 NIC0\nNIC0 SYS PIX X\nGPU0 X SYS SYS 0-3\n\nNIC1 SYS X PIX\n");
  CHECK(machine.summary() == "1 GPU, 2 NICs, 1 PCIe bridge, 2 sockets, 10 links");
}

TEST_CASE("what is wrong with a matrix is said with its row and column") {
  struct Row {
    std::string text;
    int32_t line, column;
    std::string words;
  };
  for (const Row &row : std::initializer_list<Row>{
           {"  GPU0 GPU1\nGPU0 X NV2\nGPU1 NV1 X\n", 3, 6,
            "row GPU1, column GPU0 differs from row GPU0, column GPU1"},
           {"  GPU0 GPU1\nGPU0 X PIX\nGPU1 PXB X\n", 3, 6,
            "row GPU1, column GPU0 differs from row GPU0, column GPU1"},
           {"  GPU0 GPU1\nGPU0 X PIG\nGPU1 PXB X\n", 2, 8,
            "row GPU0, column GPU1: `PIG` is none of X, NV#"},
           {"  GPU0 GPU1\nGPU0 X NV0\nGPU1 NV0 X\n", 2, 8, "`NV0` is none of"},
           {"  GPU0 GPU1\nGPU0 PIX X\nGPU1 X PIX\n", 2, 6,
            "row GPU0, column GPU0: `PIX`, but a device is X to itself"},
           {"  GPU0 GPU1\nGPU0 X X\nGPU1 X X\n", 2, 8,
            "has X in column GPU1, which is another device"},
           {"  GPU0 GPU1\nGPU0 X\nGPU1 PIX X\n", 2, 6, "the row of GPU0 ends after 1 of 2 cells"},
           {"  GPU0 GPU1\nGPU0 X PIX\n", 1, 3, "the matrix has a column GPU1, but no row of it"},
           {"  GPU0 GPU1\nGPU0 X PIX\nLegend:\n", 1, 3, "has a column GPU1, but no row"},
           {"  GPU0 GPU1\nGPU0 X PIX\nGPU0 X PIX\n", 3, 1, "a second row of GPU0"},
           {"  GPU0 GPU1\nGPU0 X PIX\nGPU2 PIX X\n", 3, 1, "a row `GPU2` was expected to begin"},
           {"  GPU0 GPU0\nGPU0 X X\n", 1, 8, "two columns are named GPU0"},
           {"GPU0\nGPU0 X\nGPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X\n", 3, 1, "a second matrix"},
           {"// GPU0 GPU1\n// GPU0 X PIX\n", 1, 1, "nothing stands before a line"},
           {"Link 0: 25 GB/s\n", 1, 1, "a link before any `GPU n:` line"},
           {"GPU 0: A\n Link 0: fast\n", 2, 10, "`fast` is neither a speed"},
           {"GPU x: A\n", 1, 5, "is no number of a GPU"},
           // Too much is as wrong as too little.
           {"  GPU0 GPU1\nGPU0 X PIX NV4\nGPU1 PIX X NV4\n", 2, 12,
            "the row of GPU0 has more cells than the header has columns (2)"},
           {"  GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X\n\nGPU2 PIX PIX\n", 5, 1,
            "a row of GPU2 behind the rows of all 2 columns"},
           {"  GPU0 GPU1\nGPU0 X GNS\nGPU1 GNS X\n", 1, 3, "is that of `nvidia-smi topo -p2p`"},
           {"GPU 0: A\n Link y: 25 GB/s\n", 2, 7, "`y:` is no number of a link"},
           {"GPU 0: A\n Link 0: 25 MB/s\n", 2, 10, "`25` is neither a speed in GB/s"},
           {"GPU 0: A\n Link 0: 25 GB/s\nGPU 0: A\n Link 0: 20 GB/s\n", 4, 10,
            "GPU 0, link 0 for the second time, and otherwise"},
           {"hello\n", 1, 1, "neither a matrix of `nvidia-smi topo -m`"}}) {
    CAPTURE(row.text);
    std::vector<Diagnostic> diagnostics;
    CHECK_FALSE(readNvidiaSmi(row.text, {}, diagnostics));
    REQUIRE(diagnostics.size() == 1);
    CHECK(diagnostics[0].place == TextPlace{row.line, row.column});
    CHECK(diagnostics[0].text.find(row.words) != std::string::npos);
  }
}

TEST_CASE("places are those of the text as it was, escape sequences and all") {
  std::vector<Diagnostic> diagnostics;
  CHECK_FALSE(
      readNvidiaSmi("\t\x1b[4mGPU0\tGPU1\x1b[0m\nGPU0\t X \t\x1b[1mNVX\x1b[0m\n", {}, diagnostics));
  REQUIRE(diagnostics.size() == 1);
  CHECK(diagnostics[0].place == TextPlace{2, 14});
}

TEST_CASE("rocm-smi: direct xGMI, NUMA nodes") {
  std::string text =
      "=== ROCm System Management Interface ===\n"
      "=== Weight between two GPUs ===\n      GPU0 GPU1 GPU2\n"
      "GPU0 0 15 72\nGPU1 15 0 30\nGPU2 72 30 0\n\n"
      "=== Hops between two GPUs ===\n      GPU0 GPU1 GPU2\n"
      "GPU0 0 1 3\nGPU1 1 0 2\nGPU2 3 2 0\n\n"
      "=== Link Type between two GPUs ===\n      GPU0 GPU1 GPU2\n"
      "GPU0 0 XGMI PCIE\nGPU1 XGMI 0 XGMI\nGPU2 PCIE XGMI 0\n\n"
      "=== Numa Nodes ===\nGPU[0]\t\t: (Topology) Numa Node: 0\n"
      "GPU[0]\t\t: (Topology) Numa Affinity: 0\nGPU[1]\t\t: (Topology) Numa Node: 0\n"
      "GPU[2]\t\t: (Topology) Numa Node: 1\n=== End of ROCm SMI Log ===\n";
  Assume assume;
  assume.gpu = "MI100";
  Machine machine = read(text, assume);
  CHECK(machine.summary() == "3 GPUs, 2 sockets, 10 links");
  CHECK(nominal(machine, "GPU0", "GPU1") == 46);
  CHECK(nominal(machine, "GPU1", "GPU2") == 0); // two hops are no link
  CHECK(nominal(machine, "GPU1", "cpu0") == 16);
  CHECK(nominal(machine, "GPU2", "cpu1") == 16);
  CHECK(mentions(machine.missing, "how many xGMI links are bonded"));
  CHECK(mentions(read(text).missing, "the kind of GPU, so the speed of xGMI"));

  auto refused = [&](std::string_view from, std::string_view to, std::string_view words) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    std::vector<Diagnostic> diagnostics;
    CAPTURE(words);
    CHECK_FALSE(readRocmSmi(changed, {}, diagnostics));
    REQUIRE(diagnostics.size() == 1);
    CHECK(diagnostics[0].text.find(words) != std::string::npos);
  };
  refused("GPU1 15 0 30", "GPU1 14 0 30",
          "\"Weight between two GPUs\", row GPU1, column GPU0: `14`, but `15` the other way");
  refused("GPU2 3 2 0", "GPU2 3 2 1", "the diagonal is 0");
  refused("0 XGMI PCIE", "0 XGMI AGP", "row GPU0, column GPU2: `AGP` is no XGMI or PCIE");
  refused("GPU1 1 0 2\n", "", "the row of GPU1 was expected, not `GPU2`");
  refused("GPU1 1 0 2", "GPU1 1 0", "the row of GPU1 has 2 cells, the header 3 GPUs");
  refused("Link Type between", "Type between", "no matrix \"Link Type between two GPUs\"");
  refused("Numa Node: 1", "Numa Node: ?", "`?` is no NUMA node");
  refused("GPU[2]", "GPU[3]", "GPU3 has a NUMA node, but is in no matrix");
}

TEST_CASE("rocm-smi: sections in any order, others between, some missing") {
  std::string weights = "=== Weight between two GPUs ===\n  GPU0 GPU1\nGPU0 0 15\nGPU1 15 0\n",
              hops = "=== Hops between two GPUs ===\n  GPU0 GPU1\nGPU0 0 1\nGPU1 1 0\n",
              types = "=== Link Type between two GPUs ===\n  GPU0 GPU1\nGPU0 0 XGMI\nGPU1 XGMI 0\n",
              numa = "GPU[0] : (Topology) Numa Node: 0\nGPU[1] : (Topology) Numa Node: 0\n",
              other =
                  "=== Weight between two GPUs ===\n=== Link accessibility between two GPUs ===\n"
                  "  GPU0 GPU1\nGPU0 True True\nGPU1 True True\n";
  Machine machine = read(weights + hops + types + numa);
  CHECK(machine.summary() == "2 GPUs, 1 socket, 6 links");
  CHECK_FALSE(mentions(machine.missing, "NUMA nodes"));
  for (const std::string &text : {numa + types + hops + weights, types + numa,
                                  types + weights + numa, other + types + hops + numa}) {
    CAPTURE(text);
    checkEqual(machine, read(text));
  }
  CHECK(mentions(read(types).missing, "NUMA nodes: GPUs of two hops"));
  std::vector<Diagnostic> diagnostics;
  CHECK_FALSE(readRocmSmi("x\n" + weights, {}, diagnostics));
  CHECK(diagnostics[0].place == TextPlace{2, 1});
}

TEST_CASE("texts of real machines, as pasted, with escape sequences, respaced") {
  struct Known {
    int64_t gpus, nics, switches;
    double nvlinks; ///< nominal GB/s of GPU0 to its peers or the switch
  };
  const std::map<std::string, Known> known = {{"a100pcie-x2-nic1-sys", {2, 1, 0, 0}},
                                              {"a100x2-nic-nolines", {2, 1, 0, 300}},
                                              {"gh200-x4-nv6", {4, 0, 0, 450}},
                                              {"h100-x6-nic2", {6, 2, 1, 450}},
                                              {"h100-x8-compact-spacing", {8, 0, 1, 450}},
                                              {"h20-x8-nic8-pix", {8, 8, 1, 450}},
                                              {"igx-x1-nic2-mp", {1, 2, 0, 0}},
                                              {"powernv-v100-x3-before", {3, 0, 0, 100}},
                                              {"rocm-showtopo-pcie-x4", {4, 0, 0, 0}},
                                              {"tab-a100-x4-nv4-mlx5", {4, 1, 0, 300}},
                                              {"tab-v100-power9-x1-nic4", {1, 4, 0, 0}},
                                              {"tab-h100-x4-emptyaffinity", {4, 0, 1, 450}},
                                              {"v100sxm2-x4-mlx5-x4", {4, 4, 0, 75}},
                                              {"v100sxm2-x8-nodes", {8, 1, 0, 150}},
                                              {"nvlink-s-rtx3090-x2", {2, 0, 0, 0}},
                                              {"gpu-x8-pxb-mlx5-x2", {8, 2, 0, 0}}};
  size_t files = 0, refused = 0, topologies = 0, found = 0;
  for (const std::filesystem::path &path : test::corpusFiles("smi-topo", ".txt")) {
    std::string name = path.stem().string(), text = test::readWhole(path);
    CAPTURE(name);
    ++files;
    std::vector<Diagnostic> diagnostics;
    std::optional<Machine> machine = readAny(text, diagnostics);
    if (name.starts_with("MALFORMED")) {
      CHECK_FALSE(machine);
      REQUIRE(diagnostics.size() == 1);
      CHECK(diagnostics[0].place.line == (name.find("x4rows") != name.npos ? 3 : 1));
      CHECK(diagnostics[0].text.size() > 20);
      ++refused;
      continue;
    }
    REQUIRE(machine);
    CHECK(diagnostics.empty());
    checkEqual(*machine, read(withAnsi(text)));
    if (name.starts_with("tab-") == false)
      checkEqual(*machine, read(respaced(text)));
    Box box = makeBox(*machine, Rates::Effective);
    if (name.starts_with("nvlink-s"))
      CHECK(mentions(machine->missing, "where each link leads"));
    else
      CHECK(box.topology.check() == "");
    topologies += box.topology.check().empty();
    auto row = known.find(name);
    if (row == known.end())
      continue;
    ++found;
    double nvlinks = nominal(*machine, "GPU0", "nvswitch");
    for (int i = 0; i < 8; ++i)
      nvlinks += nominal(*machine, "GPU0", fmt::format("GPU{}", i));
    CHECK(machine->count(DeviceKind::Gpu) == row->second.gpus);
    CHECK(machine->count(DeviceKind::Nic) == row->second.nics);
    CHECK(machine->count(DeviceKind::Switch) == row->second.switches);
    CHECK(nvlinks == row->second.nvlinks);
  }
  MESSAGE(files << " files, " << refused << " refused, " << topologies << " topologies");
  CHECK((files == 0 || found == known.size()));
}
