//===- NvmlTest.cpp - What NVML and CUDA tell, and what they fail to ------------------===//
#include "frontend/topology/Nvml.h"
#include "frontend/topology/Graphs.h"
#include "frontend/topology/Presets.h"
#include "frontend/topology/Read.h"
#include "test/unit/topology/FakeGpus.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>
#include <thread>
#include <unistd.h>

using namespace ccl;
using namespace ccl::topology;
using namespace ccl::test;

namespace {

constexpr const char *v100 = "name=Tesla_V100-SXM2-16GB sm=70 gen=3 lanes=16 most=16";
constexpr const char *h100 = "name=NVIDIA_H100_80GB_HBM3 sm=90 gen=5 lanes=16 most=16";

/// GPUs on these buses, each followed by what `links` says of its place.
template <typename Links>
std::string gpus(const std::vector<int> &buses, const char *facts, Links links) {
  std::string text = "driver 550.54.15\n";
  for (size_t i = 0; i < buses.size(); ++i)
    text += fmt::format("gpu 0000:{:02x}:00 {}\n{}", buses[i], facts, links(i));
  return text;
}
std::string noLinks(size_t) { return ""; }

/// Two GPUs on buses 0x10 and 0x20 with these links.
std::string twoGpus(const std::string &first, const std::string &second, const char *facts = v100) {
  return gpus({0x10, 0x20}, facts, [&](size_t i) { return i ? second : first; });
}

std::string all(const std::vector<std::string> &texts) {
  return fmt::format("{}", fmt::join(texts, "\n"));
}

bool hasLink(const Machine &machine) {
  return std::any_of(machine.cables.begin(), machine.cables.end(), [&](const Cable &cable) {
    return machine.devices[size_t(cable.from)].kind == DeviceKind::Gpu &&
           machine.devices[size_t(cable.to)].kind != DeviceKind::Cpu;
  });
}

} // namespace

TEST_CASE("a DGX H100: 18 links of each GPU to the NVSwitches, which add up") {
  std::vector<int> buses = {0x1b, 0x2b, 0x3b, 0x4b, 0x5b, 0x6b, 0x7b, 0x8b};
  Machine machine =
      detectFake(gpuXml(buses), gpus(buses, h100, [](size_t) { return "link 0-17 switch\n"; }));
  CHECK(machine.summary() == "8 GPUs, 1 switch, 1 socket, 32 links");
  std::string error;
  const model::Topology preset = namedTopology("dgx-h100", Rates::Nominal, error)->topology;
  std::vector<double> expected;
  for (const model::Link &link : preset.links)
    if (link.dst == preset.ranks()) // the preset's first switch
      expected.push_back(link.bandwidth);
  REQUIRE(expected.size() == 8);
  for (int i = 0; i < 8; ++i) {
    const std::string name = fmt::format("gpu{}", i);
    CHECK(nominal(machine, name, "nvswitch") == expected[size_t(i)]);
    CHECK(nominal(machine, "nvswitch", name) == expected[size_t(i)]);
    CHECK(effective(machine, name, "nvswitch") == 370.8);
    // Not the 4 GB/s that an idle GPU has slowed down to.
    CHECK(nominal(machine, name, "cpu0") == 64);
  }
  auto nvswitch = std::find_if(machine.devices.begin(), machine.devices.end(),
                               [](const Device &d) { return d.kind == DeviceKind::Switch; });
  CHECK(nvswitch->multicast);
  CHECK(nvswitch->reduce);
  CHECK(mentions(machine.notes, "NVLinks are as NVML tells, driver 550.54.15"));
  CHECK(machine.missing.empty());
}

TEST_CASE("a DGX-1: the hybrid mesh") {
  std::vector<int> buses = {0x06, 0x07, 0x0a, 0x0b, 0x85, 0x86, 0x89, 0x8a};
  auto links = [&](size_t gpu) {
    std::string text;
    int number = 0;
    for (const Bond &bond : hybridMesh())
      for (int i = 0; i < bond.links; ++i)
        if (bond.a == int(gpu) || bond.b == int(gpu))
          text += fmt::format("link {} gpu 0000:{:02x}:00\n", number++,
                              buses[size_t(bond.a == int(gpu) ? bond.b : bond.a)]);
    return text;
  };
  Machine machine = detectFake(gpuXml(buses), gpus(buses, v100, links));
  CHECK(machine.summary() == "8 GPUs, 1 socket, 48 links");
  for (int a = 0; a < 8; ++a)
    for (int b = 0; b < 8; ++b) {
      double expected = 0;
      for (const Bond &bond : hybridMesh())
        if (std::minmax(a, b) == std::minmax(bond.a, bond.b))
          expected = 25. * bond.links;
      CHECK_MESSAGE(nominal(machine, fmt::format("gpu{}", a), fmt::format("gpu{}", b)) == expected,
                    a << " to " << b);
    }
}

TEST_CASE("two GPUs and a bridge of 4 links; the kind of GPU sets the speed") {
  Machine machine =
      detectFake(gpuXml({0x10, 0x20}),
                 twoGpus("link 0-3 gpu 0000:20:00\n", "link 0-3 gpu 0000:10:00\n",
                         "name=NVIDIA_GeForce_RTX_3090 sm=86 gen=4 lanes=8 most=16 speed=14062"));
  CHECK(nominal(machine, "gpu0", "gpu1") == 56.25);
  CHECK(effective(machine, "gpu1", "gpu0") == 48);
  CHECK(nominal(machine, "gpu0", "cpu0") == 16);
  CHECK(mentions(machine.notes, "GPU 0000:10:00.0 has 8 of 16 PCIe lanes"));
  CHECK(machine.missing.empty());
}

TEST_CASE("inactive links are none, and are told of") {
  Machine machine =
      detectFake(gpuXml({0x10, 0x20}), twoGpus("link 0-1 gpu 0000:20:00\nlink 2-5 inactive\n",
                                               "link 0-1 gpu 0000:10:00\n"));
  CHECK(nominal(machine, "gpu0", "gpu1") == 50);
  CHECK(mentions(machine.notes, "inactive NVLinks: 4 of gpu0's 6"));
}

TEST_CASE("GPUs without NVLink") {
  Machine machine =
      detectFake(gpuXml({0x10, 0x20}),
                 gpus({0x10, 0x20}, "name=NVIDIA_L40S sm=89 gen=4 lanes=16 most=16", noLinks));
  CHECK_FALSE(hasLink(machine));
  CHECK(nominal(machine, "gpu0", "cpu0") == 32);
  CHECK_MESSAGE(machine.missing.empty(), all(machine.missing));
}

TEST_CASE("a GPU that is split up has no NVLinks") {
  std::string text = twoGpus("link 0-3 gpu 0000:20:00\n", "link 0-3 gpu 0000:10:00\n", h100);
  text.replace(text.find(" sm=90"), 0, " mig");
  Machine machine = detectFake(gpuXml({0x10, 0x20}), text);
  CHECK_FALSE(hasLink(machine));
  CHECK(mentions(machine.notes, "MIG splits gpu0: CUDA shows one part of each GPU to a process"));
}

TEST_CASE("an old library lacks functions: what they would tell is missing") {
  DetectOptions options{"", 5, {}, oldGpuLibrary, gpuLibrary};
  // Without the kind of the far end its address tells a GPU.
  Machine machine =
      detectFake(gpuXml({0x10, 0x20}),
                 twoGpus("link 0 gpu 0000:20:00\nlink 1 switch\n", "link 0 gpu 0000:10:00\n"),
                 nullptr, options);
  CHECK(nominal(machine, "gpu0", "gpu1") == 25);
  CHECK(mentions(machine.missing, "NVML of driver 550.54.15 has no nvmlDeviceGetMigMode, "
                                  "nvmlDeviceGetNvLinkRemoteDeviceType, nvmlDeviceGetFieldValues"));
  CHECK(mentions(machine.notes, "1 NVLink of gpu0 lead to what NVML does not tell"));
}

TEST_CASE("calls that fail are told of, and the rest counts") {
  Machine machine = detectFake(
      gpuXml({0x10, 0x20}), twoGpus("link 0-1 gpu 0000:20:00\nfail nvmlDeviceGetName 999\n"
                                    "fail nvmlDeviceGetNvLinkVersion 999\n",
                                    "link 0-1 gpu 0000:10:00\nfail nvmlDeviceGetNvLinkState 15\n"));
  CHECK(mentions(machine.missing, "NVML says no name of GPU 0000:10:00.0: Unknown Error"));
  CHECK(mentions(machine.missing,
                 "NVML says no version of an NVLink of GPU 0000:10:00.0: Unknown Error (2 times)"));
  CHECK(mentions(machine.missing,
                 "NVML says no state of an NVLink of GPU 0000:20:00.0: GPU is lost"));
  CHECK(mentions(machine.missing, "some NVLinks of gpu1: NVML did not tell"));
  CHECK(mentions(machine.notes, "gpu1 does not tell its links: the 2 of gpu0 to it"));
  CHECK(nominal(machine, "gpu0", "gpu1") == 50);
  CHECK(nominal(machine, "gpu1", "gpu0") == 50);

  Machine handle = detectFake(gpuXml({0x10}),
                              "driver 1\ngpu 0000:10:00 sm=90\nfail nvmlDeviceGetPciInfo_v3 15\n");
  CHECK(mentions(handle.missing, "NVML says no address of GPU 0: GPU is lost"));
}

TEST_CASE("ends that do not fit") {
  SUBCASE("different counts: the less") {
    Machine machine = detectFake(gpuXml({0x10, 0x20}),
                                 twoGpus("link 0-3 gpu 0000:20:00\n", "link 0-1 gpu 0000:10:00\n"));
    CHECK(nominal(machine, "gpu0", "gpu1") == 50);
    CHECK(nominal(machine, "gpu1", "gpu0") == 50);
    CHECK(mentions(machine.notes,
                   "gpu0 tells of 4 NVLinks to gpu1, which tells of 2 back; the less is taken"));
  }
  SUBCASE("one end alone") {
    Machine machine = detectFake(gpuXml({0x10, 0x20}), twoGpus("", "link 0-1 gpu 0000:10:00\n"));
    CHECK_FALSE(hasLink(machine));
    CHECK(mentions(machine.notes, "gpu1 tells of 2 NVLinks to gpu0, which tells of 0 back"));
  }
  SUBCASE("to nothing that is known, to itself, to a hidden switch, to a POWER9 socket") {
    Machine machine = detectFake(gpuXml({0x10, 0x20}),
                                 twoGpus("link 0-1 gpu 0000:99:00\nlink 2 gpu 0000:10:00\n"
                                         "link 3 unknown fffffff:ffff:ff\nlink 4 npu\nlink 5 gpu\n",
                                         ""));
    CHECK(mentions(machine.notes, "2 NVLinks of gpu0 lead to 0000:99:00.0, which is no GPU of "
                                  "this machine, and are left out"));
    CHECK(mentions(machine.notes, "1 NVLink of gpu0 lead to the GPU itself"));
    CHECK(mentions(machine.notes, "1 NVLink of gpu0 lead to what NVML does not tell"));
    CHECK(nominal(machine, "gpu0", "nvswitch") == 25);
    CHECK(nominal(machine, "gpu0", "cpu0") == 16 + 25);
  }
  SUBCASE("more than there are") {
    Machine machine = detectFake(gpuXml({0x10, 0x20}),
                                 twoGpus("link 0-7 gpu 0000:20:00\n", "link 0-7 gpu 0000:10:00\n"));
    CHECK(mentions(machine.notes, "gpu0 has 8 NVLinks, but a V100 has 6"));
  }
}

TEST_CASE("links that run slower, and kinds that are not known") {
  std::string slow = twoGpus("link 0 gpu 0000:20:00\n", "link 0 gpu 0000:10:00\n",
                             "name=Tesla_V100 sm=70 speed=12500");
  Machine machine = detectFake(gpuXml({0x10, 0x20}), slow);
  CHECK(nominal(machine, "gpu0", "gpu1") == 12.5);
  CHECK(effective(machine, "gpu0", "gpu1") == 10);
  CHECK(mentions(machine.notes, "1 NVLink of gpu0 run at 12.5 GB/s, not a V100's 25"));
  // PCIe is not told, so it is hwloc's.
  CHECK(nominal(machine, "gpu0", "cpu0") == 4);

  std::string fresh = twoGpus("link 0 gpu 0000:20:00\n", "link 0 gpu 0000:10:00\n",
                              "name=NVIDIA_R9000 sm=150 speed=100000");
  machine = detectFake(gpuXml({0x10, 0x20}), fresh);
  CHECK(nominal(machine, "gpu0", "gpu1") == 100);
  CHECK(effective(machine, "gpu0", "gpu1") == 100);
  machine =
      detectFake(gpuXml({0x10, 0x20}), twoGpus("link 0 gpu 0000:20:00\n", "link 0 gpu 0000:10:00\n",
                                               "name=NVIDIA_R9000 sm=150"));
  CHECK(nominal(machine, "gpu0", "gpu1") == 25);
  CHECK(mentions(machine.missing, "the kind of some GPUs, so the speed of 2 NVLinks: taken as 25"));
  DetectOptions told{"", 5, {"B200", 0, 0}, gpuLibrary, gpuLibrary};
  machine = detectFake(
      gpuXml({0x10, 0x20}),
      twoGpus("link 0 gpu 0000:20:00\n", "link 0 gpu 0000:10:00\n", "name=NVIDIA_R9000 sm=150"),
      nullptr, told);
  CHECK(nominal(machine, "gpu0", "gpu1") == 50);
}

TEST_CASE("ranks are the GPUs that CUDA shows, in its order") {
  std::vector<int> buses = {0x10, 0x20, 0x30, 0x40};
  auto ring = [&](size_t i) {
    return fmt::format("link 0 gpu 0000:{:02x}:00\nlink 1 gpu 0000:{:02x}:00\n", buses[(i + 1) % 4],
                       buses[(i + 3) % 4]);
  };
  Machine machine = detectFake(gpuXml(buses), gpus(buses, v100, ring), "3,0,1");
  CHECK(rankBuses(machine) == std::vector<int>{0x40, 0x10, 0x20});
  CHECK(nominal(machine, "gpu0", "gpu1") == 25); // 0x40 and 0x10
  CHECK(nominal(machine, "gpu0", "gpu2") == 0);  // by way of the third
  CHECK(nominal(machine, "gpu1", "gpu2") == 25);
  CHECK(mentions(machine.notes, "CUDA does not show 0000:30:00.0: no rank"));
  const model::Topology topology = makeBox(machine, Rates::Nominal).topology;
  CHECK(topology.ranks() == 3);
  CHECK(topology.links.size() == 2 * 2 + 2 * 3);

  // As parts of one GPU are shown.
  machine = detectFake(gpuXml(buses), gpus(buses, v100, ring), "1,1,2");
  CHECK(rankBuses(machine) == std::vector<int>{0x20, 0x30});
  CHECK(mentions(machine.missing, "how CUDA's GPU 1 shares 0000:20:00.0 with another"));

  // CUDA's driver is asked, so what it refuses is said, and all GPUs are taken.
  machine = detectFake(gpuXml(buses), gpus(buses, v100, ring), "");
  CHECK(rankBuses(machine) == buses);
  CHECK(mentions(machine.missing, "which GPUs CUDA shows: it shows none (is CUDA_VISIBLE_DEVICES "
                                  "set?); taken as all, in order of PCI"));
}

TEST_CASE("GPUs that do not reach each other") {
  std::string text = gpus({0x10, 0x20, 0x30}, v100, noLinks);
  Machine machine = detectFake(gpuXml({0x10, 0x20, 0x30}), text + "apart 0 2\napart 2 0\n");
  CHECK(mentions(machine.notes, "cannot use memory of each other: CUDA's GPU 0 that of 2, CUDA's "
                                "GPU 2 that of 0; a communicator needs GPUs that can"));
  for (const char *pair : {"0 1", "1 0", "0 2", "2 0", "1 2", "2 1"})
    text += fmt::format("apart {}\n", pair);
  machine = detectFake(gpuXml({0x10, 0x20, 0x30}), text);
  CHECK(mentions(machine.notes, "CUDA: no GPU can use memory of another"));
}

TEST_CASE("what hwloc sees and the driver does not, and the other way") {
  DetectOptions nvmlOnly{"", 5, {}, gpuLibrary, "/nowhere/libcuda.so"};
  Machine machine =
      detectFake(gpuXml({0x10, 0x20, 0x30}),
                 twoGpus("link 0 gpu 0000:20:00\n", "link 0 gpu 0000:10:00\n"), nullptr, nvmlOnly);
  CHECK(rankBuses(machine) == std::vector<int>{0x10, 0x20});
  CHECK(mentions(machine.notes, "NVML does not list 0000:30:00.0: no rank"));
  CHECK(mentions(machine.missing, "which GPUs CUDA shows: cannot load CUDA's driver: /nowhere"));

  machine = detectFake(gpuXml({}), twoGpus("link 0 gpu 0000:20:00\n", "link 0 gpu 0000:10:00\n"));
  CHECK(machine.rankName == "gpu");
  CHECK(rankBuses(machine) == std::vector<int>{0x10, 0x20});
  CHECK(nominal(machine, "gpu0", "gpu1") == 25);
  CHECK(nominal(machine, "gpu0", "cpu0") == 16);
  CHECK(mentions(machine.missing, "where GPU 0000:10:00.0 hangs: hwloc sees no such device"));
}

TEST_CASE("without NVML it is said what to install, and CUDA's order holds") {
  DetectOptions cudaOnly{"", 5, {}, "/nowhere/libnvidia-ml.so", gpuLibrary};
  Machine machine = detectFake(gpuXml({0x10, 0x20}), twoGpus("", ""), "1,0", cudaOnly);
  CHECK(rankBuses(machine) == std::vector<int>{0x20, 0x10});
  CHECK(mentions(machine.missing, "NVLinks and kinds of GPUs: cannot load NVML: /nowhere"));
  CHECK(mentions(machine.missing, "it comes with NVIDIA's driver (Debian: libnvidia-ml1"));
  CHECK(mentions(machine.missing, "links between GPUs beyond PCI Express"));

  DetectOptions shim{"", 5, {}, gpuLibrary, "shim"};
  machine = detectFake(gpuXml({0x10, 0x20}), twoGpus("", ""), nullptr, shim);
  CHECK(mentions(machine.missing, "CCL_CUDA_LIBRARY=shim is a stand-in"));
}

TEST_CASE("libraries that cannot be used") {
  CHECK(askNvml("libm.so.6", std::chrono::seconds(10)).error ==
        "libm.so.6 has no nvmlInit_v2: it is no NVML, or that of a driver too old; update "
        "NVIDIA's driver");
  Machine machine = detectFake(gpuXml({0x10}), "fail nvmlInit_v2 9\ngpu 0000:10:00 sm=70\n");
  CHECK_MESSAGE(mentions(machine.missing, "test-gpus.so): Driver Not Loaded; is NVIDIA's kernel "
                                          "module loaded"),
                all(machine.missing));
  machine = detectFake(gpuXml({0x10}), "fail nvmlDeviceGetCount_v2 999\ngpu 0000:10:00 sm=70\n");
  CHECK(mentions(machine.missing, "NVML cannot count the GPUs: Unknown Error"));
  CHECK(rankBuses(machine) == std::vector<int>{0x10});
  machine = detectFake(gpuXml({0x10}), "gpu 0000:10:00 sm=70\nfail cuDeviceGetName 999\n");
  CHECK(mentions(machine.missing, "which GPUs CUDA shows: cannot ask GPU 0 for its name"));
}

TEST_CASE("a driver that does not answer is left alone") {
  const std::string file = fmt::format("/tmp/ccl-stuck-{}", getpid());
  // One that nobody else has opened: whether it is closed again can be seen.
  const std::string library = file + ".so";
  std::filesystem::copy_file(gpuLibrary, library);
  auto isOpen = [&] {
    void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
    return handle && (dlclose(handle), true);
  };
  const std::string twoLinks = "gpu 0000:10:00 sm=70\nlink 0 switch\nlink 1 switch\n";
  for (const auto &[text, call] : std::vector<std::pair<std::string, std::string>>{
           {"hang nvmlInit_v2\n" + twoLinks, "nvmlInit_v2"},
           {"hang nvmlDeviceGetCount_v2\n" + twoLinks, "nvmlDeviceGetCount_v2"},
           {twoLinks + "hang nvmlDeviceGetName\n", "nvmlDeviceGetName"},
           {twoLinks + "hang nvmlDeviceGetNvLinkState\n", "nvmlDeviceGetNvLinkState"},
           {twoLinks + "hang nvmlDeviceGetFieldValues\n", "nvmlDeviceGetFieldValues"}}) {
    CAPTURE(call);
    std::ofstream(file) << text;
    setenv("TEST_GPUS", file.c_str(), 1);
    const auto begin = std::chrono::steady_clock::now();
    const NvmlReport report = askNvml(library, std::chrono::milliseconds(300));
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
    CHECK(report.isStuck);
    CHECK(report.gpus.empty());
    CHECK(report.error.find("NVML has not answered for 0.3 s, in " + call +
                            ": the driver is "
                            "stuck") == 0);
    CHECK(report.error.find("nvidia-smi") != std::string::npos);
    CHECK(isOpen());
    // When the call returns after all, whoever made it ends and leaves nothing.
    unlink(file.c_str());
    for (int i = 0; i < 2000 && isOpen(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK_FALSE(isOpen());
  }
  std::ofstream(file) << twoLinks;
  CHECK(askNvml(library, std::chrono::seconds(10)).gpus.size() == 1);
  unsetenv("TEST_GPUS");
  unlink(file.c_str());

  DetectOptions options{"", 5, {}, library, gpuLibrary, std::chrono::milliseconds(300)};
  const Machine machine =
      detectFake(gpuXml({0x10, 0x20}), "hang nvmlInit_v2\n" + twoLinks, nullptr, options);
  CHECK(rankBuses(machine) == std::vector<int>{0x10, 0x20});
  CHECK(mentions(machine.missing, "NVLinks and kinds of GPUs: NVML has not answered for 0.3 s"));
  CHECK(mentions(machine.missing, "which GPUs CUDA shows: not asked, as NVML does not answer"));
  for (int i = 0; i < 2000 && isOpen(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK_FALSE(isOpen());
  unlink(library.c_str());
}

TEST_CASE("CUDA's driver that does not answer is left alone, too") {
  const std::string library = fmt::format("/tmp/ccl-stuck-cuda-{}.so", getpid());
  std::filesystem::copy_file(gpuLibrary, library);
  DetectOptions options{"", 5, {}, gpuLibrary, library, std::chrono::milliseconds(300)};
  const std::string two = twoGpus("link 0 gpu 0000:20:00\n", "link 0 gpu 0000:10:00\n");
  const auto begin = std::chrono::steady_clock::now();
  Machine machine =
      detectFake(gpuXml({0x10, 0x20}), two + "hang cuDeviceGetName\n", nullptr, options);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  CHECK(mentions(machine.missing, "which GPUs CUDA shows: CUDA's driver " + library +
                                      " has not answered for 0.3 s: it is stuck"));
  // What NVML says holds.
  CHECK(rankBuses(machine) == std::vector<int>{0x10, 0x20});
  CHECK(hasLink(machine));
  machine = detectFake(gpuXml({0x10, 0x20}), two, nullptr, options);
  CHECK_FALSE(mentions(machine.missing, "has not answered"));
  unlink(library.c_str());
}

TEST_CASE("another machine's XML has nothing to do with the GPUs of this one") {
  DetectOptions options{gpuXml({0x10, 0x20}), 5, {}, "/nowhere/nvml.so", "/nowhere/cuda.so"};
  Machine machine = detect(options);
  CHECK(machine.count(DeviceKind::Gpu) == 2);
  CHECK_FALSE(mentions(machine.missing, "/nowhere"));
}

TEST_CASE("settings that are wrong are refused") {
  setenv("CCL_TIMEOUT", "never", 1);
  ReadResult result = readTopology("detect", {});
  unsetenv("CCL_TIMEOUT");
  CHECK(result.refusal.find("CCL_TIMEOUT=never") == 0);
}
