#include "frontend/topology/Detect.h"
#include "frontend/topology/Read.h"
#include "test/unit/topology/Files.h"

#include <doctest/doctest.h>
#include <hwloc.h>

#include <algorithm>

using namespace ccl;
using namespace ccl::topology;
using namespace ccl::test;

namespace {

/// What hwloc writes of a machine that it makes up: "pack:2 [numa] core:4 pu:1".
std::string syntheticXml(const char *description) {
  hwloc_topology_t topology;
  REQUIRE(hwloc_topology_init(&topology) == 0);
  REQUIRE(hwloc_topology_set_synthetic(topology, description) == 0);
  REQUIRE(hwloc_topology_load(topology) == 0);
  char *text = nullptr;
  int length = 0;
  REQUIRE(hwloc_topology_export_xmlbuffer(topology, &text, &length, 0) == 0);
  std::string xml(text);
  hwloc_free_xmlbuffer(topology, text);
  hwloc_topology_destroy(topology);
  return xml;
}

/// The objects of a host bridge with a bridge, two GPUs and a NIC below it, as hwloc writes them.
std::string withDevices(std::string xml, const char *gpuSpeed) {
  auto pci = [](std::string bus, std::string type, std::string speed, std::string inside) {
    return "<object type=\"PCIDev\" gp_index=\"1" + bus + "\" pci_busid=\"0000:" + bus +
           ":00.0\" pci_type=\"" + type + " [10de:2330] [0000:0000] 00\" pci_link_speed=\"" +
           speed + "\">" + inside + "</object>";
  };
  std::string devices =
      "<object type=\"Bridge\" gp_index=\"900\" bridge_type=\"0-1\" depth=\"0\" "
      "bridge_pci=\"0000:[00-40]\">"
      "<object type=\"Bridge\" gp_index=\"901\" bridge_type=\"1-1\" depth=\"1\" "
      "bridge_pci=\"0000:[10-20]\" pci_busid=\"0000:00:01.0\" "
      "pci_type=\"0604 [8086:1901] [0000:0000] 07\" pci_link_speed=\"31.507692\">" +
      pci("11", "0302", gpuSpeed, "") + pci("12", "0302", gpuSpeed, "") + "</object>" +
      pci("30", "0207", "31.507692",
          "<object type=\"OSDev\" gp_index=\"902\" name=\"mlx5_0\" osdev_type=\"3\"/>") +
      "</object>";
  size_t end = xml.find("</object>\n</topology>");
  if (end == xml.npos)
    end =
        xml.rfind("</object>", xml.find("<support") == xml.npos ? xml.npos : xml.find("<support"));
  REQUIRE(end != xml.npos);
  return xml.insert(end, devices);
}

} // namespace

TEST_CASE("this machine makes a topology") {
  DetectOptions options;
  options.copySpeed = 5;
  Machine machine = detect(options);
  CHECK(machine.count(DeviceKind::Gpu) >= 1);
  CHECK(machine.count(DeviceKind::Cpu) >= 1);
  CHECK(makeBox(machine, Rates::Nominal).topology.check() == "");
  CHECK_FALSE(machine.missing.empty());
}

TEST_CASE("a copy takes time") { CHECK(measureCopySpeed() > 0); }

TEST_CASE("without GPUs ranks are NUMA domains, or cores") {
  DetectOptions options;
  options.copySpeed = 5;
  options.hwlocXml = syntheticXml("pack:2 [numa] core:4 pu:2");
  Machine numa = detect(options);
  CHECK(numa.summary() == "2 numas, 2 sockets, 6 links");
  CHECK(numa.notes.back() == "no GPU was found: ranks are the NUMA domains");
  CHECK(nominal(numa, "numa1", "cpu1") == 5);
  CHECK(makeBox(numa, Rates::Nominal).topology.axes[0].name == "numa");

  options.hwlocXml = syntheticXml("pack:1 core:6 pu:2");
  Machine cores = detect(options);
  CHECK(cores.summary() == "6 cores, 1 socket, 12 links");
  CHECK(cores.notes.back() == "no GPU was found: ranks are the cores");
}

TEST_CASE("GPUs, bridges and NICs by PCI class") {
  DetectOptions options;
  options.hwlocXml = withDevices(syntheticXml("pack:1 core:2 pu:1"), "63.015385");
  Machine machine = detect(options);
  CHECK(machine.summary() == "2 GPUs, 1 NIC, 1 PCIe bridge, 1 socket, 8 links");
  CHECK(nominal(machine, "gpu0", "pci0000:00:01.0") == 64);
  CHECK(nominal(machine, "gpu1", "pci0000:00:01.0") == 64);
  CHECK(nominal(machine, "pci0000:00:01.0", "cpu0") == 32);
  CHECK(nominal(machine, "mlx5_0", "cpu0") == 32);
  CHECK(makeBox(machine, Rates::Effective).topology.check() == "");

  options.hwlocXml = withDevices(syntheticXml("pack:1 core:2 pu:1"), "0.000000");
  machine = detect(options);
  CHECK(nominal(machine, "gpu0", "pci0000:00:01.0") == 16);
  CHECK(std::find(machine.missing.begin(), machine.missing.end(),
                  "speed and width of 2 PCI slots: taken as PCIe 3 x16") != machine.missing.end());
}

TEST_CASE("what is told holds where hwloc does not know") {
  DetectOptions options;
  options.hwlocXml = withDevices(syntheticXml("pack:1 core:2 pu:1"), "0.000000");
  options.assume = {"", 5, 50};
  Machine machine = detect(options);
  CHECK(nominal(machine, "gpu0", "pci0000:00:01.0") == 64);
  CHECK(mentions(machine.missing, "speed and width of 2 PCI slots: taken as PCIe 5 x16"));
  CHECK(mentions(machine.missing, "network speed of 1 NIC: taken as 50 GB/s"));
  Options joined;
  joined.nodes = 2;
  ReadResult result = finish(machine, joined);
  REQUIRE_MESSAGE(result.topology, result.refusal);
  CHECK(result.topology->ranks() == 4);
}

TEST_CASE("memory beside other memory holds no rank") {
  DetectOptions options;
  options.copySpeed = 5;
  // A package with two memories, as HBM beside DDR.
  options.hwlocXml = syntheticXml("pack:2 [numa] [numa] core:4 pu:1");
  CHECK(detect(options).summary() == "2 numas, 2 sockets, 6 links");
  options.hwlocXml = syntheticXml("pack:1 [numa] [numa] core:4 pu:1");
  CHECK(detect(options).summary() == "4 cores, 1 socket, 8 links");
}

TEST_CASE("the kind of CPU tells the speed between sockets, or it is missing") {
  DetectOptions options;
  options.copySpeed = 5;
  std::string xml = syntheticXml("pack:2 core:1 pu:1");
  options.hwlocXml = xml;
  Machine unknown = detect(options);
  CHECK(nominal(unknown, "cpu0", "cpu1") == 10);
  CHECK(mentions(unknown.missing, "the kind of CPU, so the speed between sockets"));
  CHECK(mentions(unknown.notes, "hwloc's XML describes another machine"));
  size_t info = xml.find("<info name=\"");
  REQUIRE(info != xml.npos);
  options.hwlocXml = xml.insert(info, "<info name=\"Architecture\" value=\"aarch64\"/>");
  Machine arm = detect(options);
  CHECK(nominal(arm, "cpu0", "cpu1") == 6);
  CHECK_FALSE(mentions(arm.missing, "the kind of CPU"));
}

TEST_CASE("a file of hwloc's that is not there is no reason to take this machine") {
  REQUIRE(setenv("HWLOC_XMLFILE", "/nowhere/at/all.xml", 1) == 0);
  ReadResult result = readTopology("detect", {});
  unsetenv("HWLOC_XMLFILE");
  CHECK(result.refusal == "HWLOC_XMLFILE=/nowhere/at/all.xml: No such file or directory");
}

TEST_CASE("what hwloc cannot read is said") {
  DetectOptions options;
  options.hwlocXml = "<topology/>";
  Machine machine = detect(options);
  CHECK(machine.devices.empty());
  CHECK(machine.missing.size() == 1);
  ReadResult result = finish(std::move(machine), {});
  CHECK_FALSE(result.topology);
}
