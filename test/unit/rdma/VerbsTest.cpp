//===- VerbsTest.cpp - Devices, ports, GIDs and memory of real NICs ------------------===//
//
// Changes the network devices of the two NICs, so it is for a machine that is thrown away.
//===----------------------------------------------------------------------===//
#include "runtime/rdma/NicSettings.h"
#include "test/unit/rdma/Wires.h"

#include <algorithm>
#include <cstdlib>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace ccl;
using namespace ccl::rdma;
using std::chrono::milliseconds;

namespace {

std::string realDevice(size_t index) {
  const std::vector<std::string> devices = realDevices();
  REQUIRE(devices.size() == 2);
  return devices[index];
}

std::string errorOf(const NicOptions &options) {
  auto nic = openVerbs("", options);
  return nic ? "" : llvm::toString(nic.takeError());
}

NicFacts factsOf(const std::string &device) {
  for (const NicFacts &facts : llvm::cantFail(listVerbs("")))
    if (facts.device == device)
      return facts;
  return {};
}

void run(const std::string &command) {
  INFO(command);
  REQUIRE(std::system(command.c_str()) == 0);
}

/// Waits until what is said of the port changes.
bool becomes(const std::string &device, bool isUsable) {
  for (int i = 0; i < 200; ++i) {
    if (factsOf(device).problem.empty() == isUsable)
      return true;
    usleep(10000);
  }
  return false;
}

/// Takes or gives the right to lock more memory than the limit.
void allowLocking(bool isAllowed) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  REQUIRE(syscall(SYS_capget, &header, data) == 0);
  if (isAllowed)
    data[0].effective |= 1u << CAP_IPC_LOCK;
  else
    data[0].effective &= ~(1u << CAP_IPC_LOCK);
  REQUIRE(syscall(SYS_capset, &header, data) == 0);
}

} // namespace

TEST_CASE("rdma verbs: ports are listed with their facts") {
  const std::string names[] = {realDevice(0), realDevice(1)};
  const std::vector<NicFacts> all = llvm::cantFail(listVerbs(""));
  REQUIRE(all.size() == 2);
  for (const NicFacts &facts : all) {
    CHECK(std::count(std::begin(names), std::end(names), facts.device) == 1);
    CHECK(facts.problem == "");
    CHECK(facts.port == 1);
    CHECK(facts.ethernet);
    CHECK(facts.gid == fmt::format("::ffff:10.77.0.{}", facts.device == names[0] ? 1 : 2));
    CHECK(facts.netdev == (facts.device == names[0] ? "nic0" : "nic1"));
    CHECK((facts.mtu == 1024 || facts.mtu == 2048 || facts.mtu == 4096));
    CHECK(facts.gbits > 0);
    CHECK(facts.mostBytes >= 1 << 20);
    CHECK(facts.mostWorkRequests >= 1024);
    CHECK(facts.mostCompletions >= 4096);
  }
  NicOptions first;
  CHECK(llvm::cantFail(openVerbs("", first))->facts().device == names[0]);
  first.device = names[1] + ":1";
  CHECK(llvm::cantFail(openVerbs("", first))->facts().device == names[1]);
}

TEST_CASE("rdma verbs: what does not exist is named with what does") {
  NicOptions options;
  options.device = "mlx5_9";
  std::string text = errorOf(options);
  CHECK(contains(text, "no RDMA device mlx5_9"));
  CHECK(contains(text, realDevice(0)));
  CHECK(contains(text, "CCL_NICS"));
  options.device = realDevice(0) + ":7";
  text = errorOf(options);
  CHECK(contains(text, "has no port 7"));
  options = realOptions(realDevice(0));
  options.gidIndex = 5000;
  text = errorOf(options);
  CHECK(contains(text, "GID index 5000 is out of range"));
  CHECK(contains(text, "RoCE v2 ::ffff:10.77.0.1"));
  CHECK(contains(text, "CCL_GID_INDEX"));
  options.gidIndex = 250;
  text = errorOf(options);
  CHECK(contains(text, "the GID at index 250 is empty"));
  CHECK(contains(text, "RoCE v2 ::ffff:10.77.0.1"));
  options = realOptions(realDevice(0));
  options.pkeyIndex = 6000;
  text = errorOf(options);
  CHECK(contains(text, "partition key index 6000"));
  CHECK(contains(text, "CCL_PKEY_INDEX"));
}

TEST_CASE("rdma verbs: the GID that is chosen, by index too") {
  NicOptions options = realOptions(realDevice(0));
  const NicFacts facts = factsOf(options.device);
  for (int index = 0; index < 4; ++index) {
    options.gidIndex = index;
    auto nic = openVerbs("", options);
    if (!nic) {
      CHECK(contains(llvm::toString(nic.takeError()), fmt::format("index {} is empty", index)));
      continue;
    }
    CHECK((*nic)->facts().gidIndex == index);
    CHECK((index == facts.gidIndex) == ((*nic)->facts().gid == facts.gid));
  }
}

TEST_CASE("rdma verbs: a peer that no route leads to, or of the other family") {
  Wires wires = makeReal();
  auto queue = llvm::cantFail(wires.nics[0]->createQueuePair({}));
  QueueAddress peer = llvm::cantFail(wires.nics[1]->createQueuePair({}))->address();
  peer.gid[13] = 99; // 10.99.0.2
  std::string text = llvm::toString(queue->connect(peer));
  CHECK(contains(text, realDevice(0) + " port 1, GID index"));
  CHECK(contains(text, "cannot connect to GID ::ffff:10.99.0.2"));
  CHECK(contains(text, "no route from nic0"));
  CHECK(contains(text, "ip route get 10.99.0.2"));
  CHECK(contains(text, "CCL_GID_INDEX"));
  queue = llvm::cantFail(wires.nics[0]->createQueuePair({}));
  peer.gid = {0xfd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  text = llvm::toString(queue->connect(peer));
  CHECK(contains(text, "fd01:203:"));
  CHECK(contains(text, "IPv6"));
  peer.linkLayer = IBV_LINK_LAYER_INFINIBAND;
  text = llvm::toString(queue->connect(peer));
  CHECK(contains(text, "its link layer is Ethernet"));
  CHECK(contains(text, "CCL_NICS"));
}

TEST_CASE("rdma verbs: a port that goes down and comes back") {
  const std::string device = realDevice(1);
  Wires wires = makeReal();
  Buffer source(*wires.nics[0], 100), target(*wires.nics[1], 100);
  Pair pair(wires);
  // The other end of its cable: routes through it stay.
  run("ip link set port1 down");
  CHECK(becomes(device, false));
  CHECK(contains(factsOf(device).problem, "down"));
  const std::string text = errorOf(realOptions(device));
  CHECK(contains(text, fmt::format("port 1 of {} cannot be used: it is down", device)));
  CHECK(contains(text, "ip link set nic1 up"));
  CHECK(llvm::cantFail(listVerbs(""))[0].device == realDevice(0));
  CHECK(contains(wires.nics[1]->events(), fmt::format("port 1 of {} went down", device)));
  CHECK(wires.nics[0]->events() == "");
  Requests requests;
  requests.write(source, 0, target, 0, 100);
  REQUIRE(requests.post(*pair.ends[0]) == 0);
  const std::vector<ibv_wc> ended = take(*wires.nics[0], 1);
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].status == IBV_WC_RETRY_EXC_ERR);
  run("ip link set port1 up");
  CHECK(becomes(device, true));
  CHECK(contains(wires.nics[1]->events(), fmt::format("port 1 of {} is active again", device)));
  Pair again(wires);
  REQUIRE(again.ends[1]->postReceives(1, 0) == 0);
  Requests fine;
  fine.writeImmediate(source, 0, target, 0, 100, 3);
  REQUIRE(fine.post(*again.ends[0]) == 0);
  const std::vector<ibv_wc> arrived = take(*wires.nics[1], 1);
  REQUIRE(arrived.size() == 1);
  CHECK(arrived[0].status == IBV_WC_SUCCESS);
}

TEST_CASE("rdma verbs: ports of different MTUs take the smaller one") {
  const int before = factsOf(realDevice(0)).mtu;
  run("ip link set nic1 mtu 1500");
  CHECK(factsOf(realDevice(1)).mtu == 1024);
  CHECK(factsOf(realDevice(0)).mtu == before);
  {
    Wires wires = makeReal();
    Buffer source(*wires.nics[0], 300000), target(*wires.nics[1], 300000);
    fill(source, 5);
    Pair pair(wires);
    CHECK(pair.ends[1]->address().mtu <= IBV_MTU_1024); // RDMA_TEST_MTU may say less
    REQUIRE(pair.ends[1]->postReceives(1, 0) == 0);
    Requests requests;
    requests.writeImmediate(source, 0, target, 0, 300000, 0);
    REQUIRE(requests.post(*pair.ends[0]) == 0);
    const std::vector<ibv_wc> arrived = take(*wires.nics[1], 1);
    REQUIRE(arrived.size() == 1);
    CHECK(arrived[0].status == IBV_WC_SUCCESS);
    CHECK(source.bytes == target.bytes);
  }
  run("ip link set nic1 mtu $(cat /sys/class/net/nic0/mtu)");
  CHECK(factsOf(realDevice(1)).mtu == before);
  NicOptions options = realOptions(realDevice(0));
  options.mtu = 512;
  auto nic = llvm::cantFail(openVerbs("", options));
  CHECK(llvm::cantFail(nic->createQueuePair({}))->address().mtu == IBV_MTU_512);
}

TEST_CASE("rdma verbs: memory over the limit of what may be locked says what to raise") {
  Wires wires = makeReal();
  std::vector<uint8_t> memory(1 << 20);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_MEMLOCK, &before) == 0);
  const rlimit low{64 << 10, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_MEMLOCK, &low) == 0);
  allowLocking(false);
  auto refused = wires.nics[0]->registerMemory(memory.data(), memory.size());
  allowLocking(true);
  REQUIRE(setrlimit(RLIMIT_MEMLOCK, &before) == 0);
  REQUIRE_FALSE(bool(refused));
  const std::string text = llvm::toString(refused.takeError());
  CHECK(contains(text, realDevice(0) + " port 1: cannot register 1048576 bytes"));
  CHECK(contains(text, "(RLIMIT_MEMLOCK) is 65536 bytes, 0 are in use"));
  CHECK(contains(text, "ulimit -l unlimited"));
  // Once it is raised it works.
  CHECK(bool(wires.nics[0]->registerMemory(memory.data(), memory.size())));
}

TEST_CASE("rdma verbs: memory that the device refuses, and that is none") {
  Wires wires = makeReal();
  constexpr size_t bytes = (size_t(1) << 30) + 4096;
  void *mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(mapped != MAP_FAILED);
  auto refused = wires.nics[0]->registerMemory(mapped, bytes);
  if (contains(realDevice(0), "rxe")) { // others take it
    REQUIRE_FALSE(bool(refused));
    const std::string text = llvm::toString(refused.takeError());
    CHECK(contains(text, "cannot register 1073745920 bytes"));
    CHECK(contains(text, "rxe takes up to 1 GiB"));
    CHECK(contains(text, "CCL_SLOT_BYTES"));
  }
  REQUIRE(mprotect(mapped, 4096, PROT_NONE) == 0);
  refused = wires.nics[0]->registerMemory(mapped, 4096);
  REQUIRE_FALSE(bool(refused));
  CHECK(contains(llvm::toString(refused.takeError()), "this process may read and write"));
  munmap(mapped, bytes);
}

TEST_CASE("rdma verbs: many queue pairs make the queue of completions grow") {
  Wires wires = makeReal();
  Buffer source(*wires.nics[0], 100), target(*wires.nics[1], 100);
  QueueLimits limits;
  limits.sends = 1000;
  limits.receives = 1000;
  std::vector<Pair> pairs;
  for (uint32_t i = 0; i < 12; ++i) {
    pairs.emplace_back(wires, limits);
    REQUIRE(pairs.back().ends[1]->postReceives(700, i) == 0);
  }
  for (Pair &pair : pairs) {
    Requests requests;
    for (uint32_t i = 0; i < 700; ++i)
      requests.writeImmediate(source, 0, target, 0, 1, i).send_flags = IBV_SEND_SIGNALED;
    REQUIRE(requests.post(*pair.ends[0]) == 0);
  }
  // None is lost, although nobody has polled in between.
  REQUIRE(take(*wires.nics[0], 12 * 700).size() == 12 * 700);
  const std::vector<ibv_wc> arrived = take(*wires.nics[1], 12 * 700);
  REQUIRE(arrived.size() == 12 * 700);
  CHECK(std::all_of(arrived.begin(), arrived.end(),
                    [](const ibv_wc &c) { return c.status == IBV_WC_SUCCESS; }));
}

TEST_CASE("rdma verbs: without a setting all ports that can be used are chosen") {
  const char *environment[] = {nullptr};
  const Settings settings = llvm::cantFail(Settings::fromEnvironment(environment));
  std::vector<NicOptions> chosen = llvm::cantFail(chooseNics(settings));
  REQUIRE(chosen.size() == 2);
  CHECK(chosen[0].device == realDevice(0) + ":1");
  run("ip link set port0 down");
  CHECK(becomes(realDevice(0), false));
  chosen = llvm::cantFail(chooseNics(settings));
  REQUIRE(chosen.size() == 1);
  CHECK(chosen[0].device == realDevice(1) + ":1");
  run("ip link set port1 down");
  CHECK(becomes(realDevice(1), false));
  const std::string text = llvm::toString(chooseNics(settings).takeError());
  CHECK(contains(text, "no RDMA NIC can be used: port 1 of " + realDevice(0)));
  CHECK(contains(text, "ip link set nic1 up"));
  run("ip link set port0 up");
  run("ip link set port1 up");
  CHECK(becomes(realDevice(0), true));
  CHECK(becomes(realDevice(1), true));
}
