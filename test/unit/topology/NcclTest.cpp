#include "frontend/topology/ReadNccl.h"
#include "test/unit/topology/Files.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>

using namespace ccl;
using namespace ccl::topology;
using namespace ccl::test;

namespace {

Machine read(std::string_view text, const Assume &assume = {}) {
  std::vector<Diagnostic> diagnostics;
  std::optional<Machine> machine = readNccl(text, assume, diagnostics);
  REQUIRE_MESSAGE(machine, (diagnostics.empty() ? "" : diagnostics[0].text));
  CHECK(diagnostics.empty());
  return *machine;
}

/// Two GPUs below a bridge, one at the socket, with links between them as given.
std::string system(std::string_view links0, std::string_view links1, std::string_view more = "") {
  return fmt::format(R"(<system version='1'>
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:1B:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="1" gdr="1">{}</gpu>
      </pci>
      <pci busid="0000:1c:00.0" class="0x030200" link_speed="16 GT/s" link_width="8">
        <gpu dev="1" sm="90" rank="0" gdr="1">{}</gpu>
      </pci>
    </pci>{}
  </cpu>
</system>)",
                     links0, links1, more);
}

} // namespace

TEST_CASE("a tree of PCI Express with a hidden NVSwitch") {
  Machine machine =
      read(system(R"(<nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>)",
                  R"(<nvlink target="fffffff:ffff:ff.0" count="9" tclass="0x068000"/>
                                   <nvlink target="0000:AA:00.0" count="9" tclass="0x068000"/>)"));
  CHECK(machine.summary() == "2 GPUs, 1 switch, 1 PCIe bridge, 1 socket, 12 links");
  CHECK(nominal(machine, "gpu0", "pci0000:10:00.0") == 64);
  CHECK(effective(machine, "gpu0", "pci0000:10:00.0") == 48);
  CHECK(nominal(machine, "pci0000:10:00.0", "gpu1") == 16);
  CHECK(effective(machine, "gpu1", "pci0000:10:00.0") == 12);
  CHECK(nominal(machine, "cpu0", "pci0000:10:00.0") == 64);
  // All switches are one.
  CHECK(nominal(machine, "gpu0", "nvswitch") == 450);
  CHECK(nominal(machine, "nvswitch", "gpu1") == 450);
  CHECK(effective(machine, "gpu1", "nvswitch") == doctest::Approx(370.8));
  CHECK(machine.missing.empty());
  // Ranks count by `rank`: gpu1 is rank 0.
  Box box = makeBox(machine, Rates::Effective);
  CHECK(box.topology.check() == "");
  double rank0 = 0;
  for (const model::Link &link : box.topology.links)
    if (link.src == 0 && box.topology.nodeName(link.dst).starts_with("pci"))
      rank0 += link.bandwidth;
  CHECK(rank0 == 12);
  CHECK(box.topology.switches.back().multicast);
}

TEST_CASE("links to GPUs, sockets and CPUs on the same package") {
  Machine machine = read(system(R"(<nvlink target="0000:1C:00.0" count="6" tclass="0x030200"/>
                                   <nvlink target="0004:00:00.0" count="3" tclass="0x068001"/>
                                   <c2c bw="44712" count="10"/>)",
                                R"(<nvlink target="0000:1b:00.0" count="6" tclass="0x030200"/>)"));
  CHECK(nominal(machine, "gpu0", "gpu1") == 150);
  CHECK(effective(machine, "gpu1", "gpu0") == doctest::Approx(6 * 20.6));
  CHECK(nominal(machine, "gpu0", "cpu0") == doctest::Approx(75 + 447.12));
}

TEST_CASE("NICs: ports of a device share its slot, `nic` below `cpu` has none") {
  Machine machine = read(system("", "", R"(
    <pci busid="0000:20:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
      <nic><net name="mlx5_0" dev="0" speed="200000" latency="1.5" port="1"/></nic>
    </pci>
    <pci busid="0000:21:00.0" class="0x020000" link_speed="8 GT/s" link_width="4">
      <nic><net name="a" dev="1" speed="0"/><net dev="2"/></nic>
    </pci>
    <nic><net name="eth0" dev="3" speed="100000"/></nic>)"));
  CHECK(machine.count(DeviceKind::Nic) == 4);
  CHECK(nominal(machine, "mlx5_0", "cpu0") == 32);
  CHECK(effective(machine, "cpu0", "mlx5_0") == 24);
  CHECK(nominal(machine, "a", "pci0000:21:00.0") == 4);
  CHECK(nominal(machine, "cpu0", "pci0000:21:00.0") == 4);
  CHECK(nominal(machine, "eth0", "cpu0") == 12.5);
  CHECK(effective(machine, "eth0", "cpu0") == 5000);
  Box box = makeBox(machine, Rates::Effective);
  REQUIRE(box.nics.size() == 4);
  CHECK(box.nics[0].bandwidth == 25);
  CHECK(box.nics[0].latency == 1.5);
  CHECK(box.nics[1].bandwidth == 1.25); // NCCL: no speed is 10 Gbit/s
  CHECK(box.nics[2].bandwidth == 0);
  CHECK(box.nics[3].bandwidth == 12.5);
  CHECK(mentions(machine.missing, "network speed of 1 NIC"));
}

TEST_CASE("xGMI, bridges' own links, several hosts") {
  std::string host = R"(
  <cpu host_hash="{}" numaid="{}" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1">
    <pci busid="0000:c1:00.0" class="0x060400" vendor="0x1000" link_speed="16 GT/s" link_width="16">
      <pcilink target="0000:c2:00.0"/>
      <pci busid="0000:01:00.0" class="0x038000" link_speed="16 GT/s" link_width="16">
        <gpu dev="0" sm="104" gcn="910" arch="38911" rank="{}" gdr="1">
          <xgmi target="0000:02:00.0" count="4" tclass="0x038000"/></gpu></pci></pci>
    <pci busid="0000:c2:00.0" class="0x060400" vendor="0x1000" link_speed="16 GT/s" link_width="16">
      <pcilink target="0000:c1:00.0"/>
      <pci busid="0000:02:00.0" class="0x038000" link_speed="16 GT/s" link_width="16">
        <gpu dev="1" sm="104" gcn="910" arch="38911" rank="{}" gdr="1">
          <xgmi target="0000:01:00.0" count="4" tclass="0x038000"/></gpu></pci></pci></cpu>)";
  Machine machine =
      read("<system version=\"2\">" + fmt::format(fmt::runtime(host), "0xa", 0, 0, 1) +
           fmt::format(fmt::runtime(host), "0xb", 0, 2, 3) + "</system>");
  CHECK(machine.warnings.empty()); // the same bus numbers on two hosts are two devices
  CHECK(machine.count(DeviceKind::Cpu) == 2);
  CHECK(nominal(machine, "gpu0", "gpu1") == 2 * 200); // one pair a host
  CHECK(effective(machine, "gpu0", "gpu1") == 2 * 144);
  CHECK(effective(machine, "pci0000:c1:00.0", "pci0000:c2:00.0") == 2 * 5000);
  CHECK(nominal(machine, "cpu0", "host1.cpu0") == 0);
  model::Topology topology = makeBox(machine, Rates::Nominal).topology;
  REQUIRE(topology.axes.size() == 2);
  CHECK(topology.axes[0].size == 2);
  CHECK(topology.check() == "rank 0 cannot reach rank 2: no path of links");
}

TEST_CASE("GPUs by PCI class, without consoles, where no `gpu` is named") {
  std::string text = R"(<system version="1"><cpu numaid="-1">
    <pci busid="1:00.0" class="0x030200" link_speed="" link_width="0"/>
    <pci busid="2:00.0" class="0x120000" link_speed="16 GT/s" link_width="16"/>
    <pci busid="3:00.0" class="0x030000" vendor="0x1a03"/>
    <pci busid="4:00.0" class="0x010802"/>
    <pci busid="5:00.0"/>
    {}</cpu></system>)";
  Machine machine = read(fmt::format(fmt::runtime(text), ""));
  CHECK(machine.summary() == "2 GPUs, 1 socket, 4 links");
  CHECK(effective(machine, "gpu0", "cpu") == 12); // NCCL: 8 GT/s and 16 lanes
  CHECK(mentions(machine.missing, "2 GPUs are known by PCI class alone"));
  CHECK(mentions(machine.missing, "what PCI devices without `class` are (1 of them)"));
  CHECK(mentions(machine.missing, "taken as 16 lanes of 8 GT/s"));
  Assume assume;
  assume.pcie = 5;
  CHECK(nominal(read(fmt::format(fmt::runtime(text), ""), assume), "gpu0", "cpu") == 64);
  // Once some are named, the class makes no others.
  machine = read(fmt::format(fmt::runtime(text),
                             R"(<pci busid="6:00.0" class="0x030200"><gpu dev="7"/></pci>)"));
  CHECK(machine.count(DeviceKind::Gpu) == 1);
}

TEST_CASE("links whose GPU is not known take common figures, or what is told") {
  std::string text = system(R"(<nvlink target="0000:1c:00.0" count="2"/>)",
                            R"(<nvlink target="0000:1b:00.0" count="2"/>)");
  for (size_t at; (at = text.find("sm=\"90\"")) != text.npos;)
    text.erase(at, 7);
  Machine machine = read(text);
  CHECK(nominal(machine, "gpu0", "gpu1") == 50);
  CHECK(effective(machine, "gpu0", "gpu1") == 40);
  CHECK(mentions(machine.missing, "the kind of some GPUs, so the speed of 2 links"));
  Assume assume;
  assume.gpu = "B200";
  machine = read(text, assume);
  CHECK(nominal(machine, "gpu0", "gpu1") == 100);
  CHECK(machine.missing.empty());
}

TEST_CASE("what is odd in a file is warned of") {
  auto warns = [](std::string_view text, std::string_view words) {
    Machine machine = read(text);
    bool found = false;
    for (const Diagnostic &warning : machine.warnings)
      found |= warning.text.find(words) != warning.text.npos && warning.place.line > 0;
    CAPTURE(words);
    CHECK(found);
    return machine;
  };
  warns(system("", "", "<disk/>"), "`disk` in a `cpu` is ignored");
  warns(system(R"(<nvlink target="0000:77:00.0" count="2"/>)", ""), "leads to no GPU of this file");
  warns(system(R"(<nvlink target="0000:1c:00.0" count="19"/>)",
               R"(<nvlink target="0000:1b:00.0" count="19"/>)"),
        "19 NVLinks, but a H100 has 18");
  Machine oneEnd = warns(system(R"(<nvlink target="0000:1c:00.0" count="2"/>)", ""),
                         "gpu1 names no link back to gpu0");
  CHECK(nominal(oneEnd, "gpu1", "gpu0") == 50);
  warns(system("", "", R"(<pci busid="0000:10:00.0" class="0x060400"/>)"), "is also in line 3");
  // Each bundle is within what a GPU has, both are not.
  warns(system(R"(<nvlink target="0000:1c:00.0" count="12"/><nvlink target="0:0.0" count="12"/>)",
               R"(<nvlink target="0000:1b:00.0" count="12"/>)"),
        "24 NVLinks, but a H100 has 18");
  // What nothing is made of.
  std::string pci = R"(<pci busid="0000:20:00.0" class="0x020700">{}</pci>)";
  warns(system("", "", fmt::format(fmt::runtime(pci), "<nic/><pci busid=\"0:1.0\"/>")),
        "`pci` in a `pci` is ignored");
  warns(system("", "", fmt::format(fmt::runtime(pci), "<nic/><nic/>")),
        "a second `nic` in a `pci`");
  warns(system("", "", fmt::format(fmt::runtime(pci), "<gpu dev=\"2\"/><nic/>")),
        "`nic` in a `pci` is ignored");
  warns(system("", "", "</cpu><cpu numaid=\"0\" arch=\"arm64\">"),
        "numaid=\"0\" for the second time");
}

TEST_CASE("several hosts in one file are one NVLink domain, as in NCCL") {
  std::string host = R"(<cpu host_hash="{0}" numaid="0" arch="arm64">
    <pci busid="0008:06:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="100" rank="{1}"><nvlink target="0" count="18" tclass="0x068000"/></gpu>
    </pci></cpu>)";
  Machine machine = read("<system version=\"1\">" + fmt::format(fmt::runtime(host), "0xa", 0) +
                         fmt::format(fmt::runtime(host), "0xb", 1) + "</system>");
  CHECK(machine.summary() == "2 GPUs, 1 switch, 2 sockets, 8 links");
  CHECK(nominal(machine, "gpu0", "nvswitch") == 2 * 900); // one GPU of this name a host
  CHECK(nominal(machine, "cpu0", "host1.cpu0") == 0);
  model::Topology topology = makeBox(machine, Rates::Nominal).topology;
  CHECK(topology.check() == "");
  CHECK(topology.axes.size() == 2);
}

TEST_CASE("parts of one GPU share its slot and its links") {
  Machine machine = read(R"(<system version="1"><cpu numaid="0" arch="arm64">
    <pci busid="0008:06:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="100" rank="0" mlopart="0"><nvlink target="0" count="18" tclass="0x068000"/>
        <c2c bw="40000" count="10"/></gpu>
      <gpu dev="1" sm="100" rank="1" mlopart="1"><nvlink target="0" count="18" tclass="0x068000"/>
        <c2c bw="40000" count="10"/></gpu>
    </pci></cpu></system>)");
  CHECK(machine.count(DeviceKind::Gpu) == 2);
  CHECK(nominal(machine, "gpu0", "nvswitch") == 450);
  CHECK(effective(machine, "gpu1", "nvswitch") == doctest::Approx(9 * 40.1));
  CHECK(nominal(machine, "gpu0", "cpu0") == 200);
  CHECK(nominal(machine, "pci0008:06:00.0", "cpu0") == 64);
}

TEST_CASE("what a file does not say is taken, and said") {
  std::string text = R"(<system version="1"><cpu numaid="0" arch="x86_64" vendor="{0}">
    <pci busid="1:00.0" class="0x030200" link_speed="{1}" link_width="{2}"><gpu dev="0" sm="80"/></pci>
    </cpu><cpu numaid="1" arch="x86_64" vendor="{0}">
    <pci busid="2:00.0" class="0x030200" link_speed="8 GT/s" link_width="16"><gpu dev="1" sm="80"/>
    </pci></cpu></system>)";
  auto made = [&](std::string_view vendor, std::string_view speed, std::string_view width) {
    return read(fmt::format(fmt::runtime(text), vendor, speed, width));
  };
  Machine known = made("AuthenticAMD", "8.0 GT/s PCIe", "16");
  CHECK(known.missing.empty());
  CHECK(nominal(known, "cpu0", "cpu1") == 16);
  Machine unknown = made("HygonGenuine", "8 GT/s", "16");
  CHECK(nominal(unknown, "cpu0", "cpu1") == 10);
  CHECK(mentions(unknown.missing, "the kind of 2 CPUs, so the speed between them: taken as 10"));
  // Linux says 255 lanes and an unknown speed of devices without a slot of their own.
  Machine slotless = made("AuthenticAMD", "Unknown speed", "255");
  CHECK(nominal(slotless, "gpu0", "cpu0") == 16);
  CHECK(mentions(slotless.missing, "speed or width of 1 PCI slot"));
}

TEST_CASE("a contradiction or a wrong value is an error with its place") {
  struct Row {
    std::string text;
    int32_t line;
    std::string words;
  };
  std::string two = R"(<nvlink target="0000:1c:00.0" count="2"/>)",
              three = R"(<nvlink target="0000:1b:00.0" count="3"/>)";
  for (const Row &row : std::initializer_list<Row>{
           {"<system version=\"3\"/>", 1,
            "version=\"3\" of a `system` is not an integer from 1 to 2"},
           {"<sistem/>", 1, "the element at the top is `sistem`"},
           {"<system version=\"1\"><cpu/></system>", 1, "a `cpu` needs the attribute `numaid`"},
           {system(two, three), 5, "2 links to gpu1, which names 3 back"},
           {system(R"(<nvlink target="0000:1b:00.0" count="1"/>)", ""), 5, "from a GPU to itself"},
           {system("<nvlink count=\"1\"/>", ""), 5, "a `nvlink` needs the attribute `target`"},
           {system(R"(<nvlink target="0000:1c:00.0"/>)", ""), 5, "needs the attribute `count`"},
           {system(R"(<nvlink target="0000:1c:00.0" count="x"/>)", ""), 5, "count=\"x\""},
           {system(R"(<nvlink target="0000:1c:00.0" count="1" tclass="zz"/>)", ""), 5,
            "is not a hexadecimal number"},
           {system("", "", "\n<pci class=\"0x060400\"/>"), 11,
            "a `pci` needs the attribute `busid`"},
           {system("", "", "\n<pci busid=\"1:00.0\" link_speed=\"12 GT/s\"/>"), 11,
            "is no speed of PCI Express"},
           {system("", "", "\n<pci busid=\"1:00.0\" link_width=\"-1\"/>"), 11, "link_width=\"-1\""},
           {system("", "", "\n<pci busid=\"1:00.0\" link_width=\"48\"/>"), 11, "up to 32 lanes"},
           {"<?xml version=\"1.0\"?>\n<topology version=\"2.0\"/>", 2, "read by --detect"},
           {"<graphs version=\"1\">\n<graph id=\"0\" pattern=\"4\" speedintra=\"1\"\n "
            "speedinter=\"0\"><channel><net dev=\"0\"/><gpu dev=\"0\"/></channel></graph></graphs>",
            3, "needs a positive speedinter"},
           {system("", "", "\n<pci busid=\"0000:1b:00.0\"><gpu/></pci>"), 11,
            "a second GPU on bus"},
           {system("", "", "\n<nic><net latency=\"-1\"/></nic>"), 11, "latency=\"-1\""},
           {"<graphs version=\"1\"/>", 1, "`graphs` without a `graph`"},
           {"<graphs version=\"1\">\n<graph id=\"0\" pattern=\"4\" "
            "speedintra=\"0\"><channel/></graph>"
            "</graphs>",
            2, "needs a positive speedintra"},
           {"<graphs>\n<graph id=\"0\" pattern=\"4\" "
            "speedintra=\"1\"><channel><cpu/></channel></graph>"
            "</graphs>",
            2, "`cpu` in a `channel`"},
           {"<graphs>\n<graph id=\"0\" pattern=\"4\" "
            "speedintra=\"1\"><channel><gpu/></channel></graph>"
            "</graphs>",
            2, "a `gpu` needs the attribute `dev`"},
           {"<system version=\"1\">\n<cpu numaid=\"0\"></system>", 2, "not well-formed XML"}}) {
    CAPTURE(row.text);
    std::vector<Diagnostic> diagnostics;
    CHECK_FALSE(readNccl(row.text, {}, diagnostics));
    REQUIRE_FALSE(diagnostics.empty());
    CHECK(diagnostics[0].place.line == row.line);
    CHECK(diagnostics[0].text.find(row.words) != std::string::npos);
  }
}

TEST_CASE("graphs: neighbours on channels, a ring closes in one machine") {
  std::string text = R"(<graphs version="1">
  <graph id="1" pattern="1" nchannels="1" speedintra="9" speedinter="9">
    <channel><gpu dev="0"/><gpu dev="2"/></channel></graph>
  <graph id="0" pattern="4" nchannels="2" speedintra="12" speedinter="6">
    <channel>{0}<gpu dev="0"/><gpu dev="1"/><gpu dev="2"/>{0}</channel>
    <channel>{0}<gpu dev="0"/><gpu dev="1"/><gpu dev="2"/>{0}</channel></graph></graphs>)";
  Machine machine = read(fmt::format(fmt::runtime(text), ""));
  CHECK(machine.summary() == "3 GPUs, 6 links");
  CHECK(nominal(machine, "gpu0", "gpu1") == 24);
  CHECK(nominal(machine, "gpu0", "gpu2") == 24);
  machine = read(fmt::format(fmt::runtime(text), "<net dev=\"0\"/>"));
  CHECK(nominal(machine, "gpu0", "gpu2") == 0);
  CHECK(nominal(machine, "gpu0", "net0") == 12);
  CHECK(nominal(machine, "net0", "gpu2") == 12);
  CHECK(makeBox(machine, Rates::Nominal).nics[0].bandwidth == 6);
  CHECK(machine.warnings.empty());
  text.replace(text.find("nchannels=\"2\""), 13, "nchannels=\"3\"");
  machine = read(fmt::format(fmt::runtime(text), ""));
  REQUIRE(machine.warnings.size() == 1);
  CHECK(machine.warnings[0].text == "nchannels=\"3\", but there are 2 here, which count");
  CHECK(mentions(machine.notes, "links are those of graph 0: 2 channels of 12 GB/s"));
}

TEST_CASE("files of real machines") {
  // GPUs, and links between them or to a switch, counted by hand from some of the files.
  struct Known {
    int64_t gpus, nics, direct;
    double speed; ///< effective GB/s of gpu0 to other GPUs
  };
  const std::map<std::string, Known> known = {{"azurehist-ncv4-topo-72d3c1", {4, 1, 4, 240}},
                                              {"misc-panlichen-3090-8gpu", {8, 1, 0, 0}},
                                              {"misc-rtp-llm-l20-8gpu", {8, 12, 0, 0}},
                                              {"rccl-topo_16p1h_vm", {16, 8, 56, 7 * 36}},
                                              {"rccl-topo_8p1h", {8, 4, 24, 7 * 36}},
                                              {"rccl-topo_8p_940vm", {8, 8, 56, 7 * 48}},
                                              {"rccl-topo_4p_940", {4, 4, 12, 3 * 48}},
                                              {"rccl-topo_4p2h", {8, 1, 16, 2 * 24}},
                                              {"azure-ndv5-topo", {8, 8, 0, 0}},
                                              {"aws-p4d-24xl-topo", {8, 4, 0, 0}},
                                              {"misc-panlichen-3090-8gpu-graph", {8, 1, 14, 4}},
                                              {"msccl-graph-1c9254", {4, 0, 8, 48}}};
  size_t files = 0, topologies = 0, found = 0;
  for (const std::filesystem::path &path : test::corpusFiles("nccl-topo", ".xml")) {
    std::string name = path.stem().string();
    CAPTURE(name);
    Machine machine = read(test::readWhole(path));
    ++files;
    int64_t gpus = machine.count(DeviceKind::Gpu);
    if (gpus < 2) {
      CHECK(name == "aws-g5.48xl-topo");
      CHECK(mentions(machine.missing, "what PCI devices without `class` are (9 of them)"));
      continue;
    }
    for (Rates rates : {Rates::Nominal, Rates::Effective}) {
      Box box = makeBox(machine, rates);
      CHECK(box.topology.check() == "");
      CHECK(box.topology.ranks() == gpus);
      CHECK(box.topology.links.size() == machine.cables.size());
    }
    ++topologies;
    auto row = known.find(name);
    if (row == known.end())
      continue;
    ++found;
    int64_t direct = 0;
    double first = 0;
    for (const Cable &cable : machine.cables) {
      const Device &a = machine.devices[size_t(cable.from)], &b = machine.devices[size_t(cable.to)];
      bool both = a.kind == DeviceKind::Gpu && b.kind == DeviceKind::Gpu;
      direct += both;
      first += both && a.name == "gpu0" ? cable.speed.effective : 0;
    }
    CHECK(gpus == row->second.gpus);
    CHECK(machine.count(DeviceKind::Nic) == row->second.nics);
    CHECK(direct == row->second.direct);
    CHECK(first == doctest::Approx(row->second.speed));
  }
  MESSAGE(files << " files, " << topologies << " topologies");
  CHECK((files == 0 || found == known.size()));
}
