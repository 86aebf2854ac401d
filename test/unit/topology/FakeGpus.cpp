//===- FakeGpus.cpp ---------------------------------------------------------===//
#include "test/unit/topology/FakeGpus.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

using namespace ccl::topology;

namespace ccl::test {

std::string gpuXml(const std::vector<int> &buses) {
  const std::string sets = R"(os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1")"
                           R"( complete_nodeset="0x1")";
  std::string xml = fmt::format(
      R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
<object type="Machine" {0} allowed_cpuset="0x1" allowed_nodeset="0x1" gp_index="1">
<object type="Package" {0} gp_index="2"><object type="NUMANode" {0} gp_index="3"/>
<object type="Core" {0} gp_index="4"><object type="PU" {0} gp_index="5"/></object>
</object>
<object type="Bridge" gp_index="6" bridge_type="0-1" depth="0" bridge_pci="0000:[00-ff]">
)",
      sets);
  for (int bus : buses)
    xml += fmt::format(R"(<object type="PCIDev" gp_index="{0}" pci_busid="0000:{1:02x}:00.0")"
                       R"( pci_type="0302 [10de:2330] [0000:0000] a1" pci_link_speed="4.0"/>)"
                       "\n",
                       100 + bus, bus);
  return xml + "</object></object></topology>\n";
}

Machine detectFake(const std::string &xml, const std::string &text, const char *visible,
                   DetectOptions options) {
  const std::string path = fmt::format("/tmp/ccl-gpus-{}", getpid());
  std::ofstream(path) << text;
  setenv("TEST_GPUS", path.c_str(), 1);
  setenv("HWLOC_THISSYSTEM", "1", 1);
  if (visible)
    setenv("CUDA_VISIBLE_DEVICES", visible, 1);
  options.hwlocXml = xml;
  Machine machine = detect(options);
  unsetenv("TEST_GPUS");
  unsetenv("HWLOC_THISSYSTEM");
  unsetenv("CUDA_VISIBLE_DEVICES");
  unlink(path.c_str());
  CHECK(makeBox(machine, Rates::Effective).topology.check() == "");
  return machine;
}

std::vector<int> rankBuses(const Machine &machine) {
  std::vector<int> buses;
  for (const std::string &note : machine.notes) {
    unsigned bus = 0;
    if (size_t at = note.find(", PCI 0000:");
        at != note.npos && note.starts_with(fmt::format("gpu{}: ", buses.size())) &&
        sscanf(note.c_str() + at, ", PCI 0000:%x", &bus) == 1)
      buses.push_back(int(bus));
  }
  return buses;
}

} // namespace ccl::test
