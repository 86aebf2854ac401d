//===- Wires.cpp --------------------------------------------------------------===//
#include "test/unit/rdma/Wires.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <cstdlib>
#include <sched.h>

namespace ccl::rdma {

std::vector<std::string> realDevices() {
  const char *names = std::getenv("RDMA_TEST_NICS");
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(names ? names : "").split(parts, ',', -1, false);
  std::vector<std::string> devices;
  for (llvm::StringRef part : parts)
    devices.push_back(part.str());
  return devices;
}

NicOptions realOptions(const std::string &device) {
  NicOptions options;
  options.device = device;
  if (const char *mtu = std::getenv("RDMA_TEST_MTU"))
    options.mtu = std::atoi(mtu);
  return options;
}

Wires makeWires(const Fabric::Options &options) {
  Wires wires;
  wires.fabric = Fabric::create(options);
  wires.name = fmt::format("seed {}, delay {} us", options.seed, options.delay.count());
  wires.nics[0] = wires.fabric->addNic("nic0");
  wires.nics[1] = wires.fabric->addNic("nic1");
  REQUIRE(wires.nics[0]);
  REQUIRE(wires.nics[1]);
  return wires;
}

Wires makeReal() {
  Wires wires;
  const std::vector<std::string> devices = realDevices();
  REQUIRE(devices.size() == 2);
  for (int side = 0; side < 2; ++side) {
    auto nic = openVerbs("", realOptions(devices[size_t(side)]));
    if (!nic)
      FAIL(llvm::toString(nic.takeError()));
    wires.nics[side] = std::move(*nic);
  }
  wires.name = devices[0] + " and " + devices[1];
  return wires;
}

void onEachWire(const std::function<void(Wires &)> &test) {
  if (!realDevices().empty()) {
    Wires wires = makeReal();
    return test(wires);
  }
  using std::chrono::microseconds;
  for (const auto &[seed, delay] :
       {std::pair<uint64_t, int>{0, 0}, {0, 300}, {1, 0}, {2, 100}, {3, 0}}) {
    Fabric::Options options;
    options.seed = seed;
    options.delay = microseconds(delay);
    options.retryTime = std::chrono::milliseconds(150);
    Wires wires = makeWires(options);
    CAPTURE(wires.name);
    test(wires);
  }
}

Buffer::Buffer(Nic &nic, size_t size) : bytes(size) {
  auto registered = nic.registerMemory(bytes.data(), size);
  if (!registered)
    FAIL(llvm::toString(registered.takeError()));
  region = std::move(*registered);
}

Pair::Pair(Wires &wires, const QueueLimits &limits) {
  for (int side = 0; side < 2; ++side) {
    auto queue = wires.nics[side]->createQueuePair(limits);
    if (!queue)
      FAIL(llvm::toString(queue.takeError()));
    ends[side] = std::move(*queue);
  }
  for (int side = 0; side < 2; ++side)
    if (llvm::Error e = ends[side]->connect(ends[1 - side]->address()))
      FAIL(llvm::toString(std::move(e)));
}

ibv_send_wr &Requests::write(const Buffer &source, size_t from, const Buffer &target, size_t to,
                             uint32_t bytes) {
  pieces.push_back({source.at(from), bytes, source.region->localKey});
  ibv_send_wr request{};
  request.wr_id = list.size();
  request.sg_list = &pieces.back();
  request.num_sge = bytes ? 1 : 0;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = target.at(to);
  request.wr.rdma.rkey = target.region->remoteKey;
  list.push_back(request);
  if (list.size() > 1)
    list[list.size() - 2].next = &list.back();
  return list.back();
}

ibv_send_wr &Requests::writeImmediate(const Buffer &source, size_t from, const Buffer &target,
                                      size_t to, uint32_t bytes, uint32_t immediate) {
  ibv_send_wr &request = write(source, from, target, to, bytes);
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.imm_data = immediate;
  return request;
}

int Requests::post(QueuePair &queue) {
  list.back().send_flags |= IBV_SEND_SIGNALED;
  return postAsIs(queue);
}

int Requests::postAsIs(QueuePair &queue, ibv_send_wr **bad) {
  ibv_send_wr *none = nullptr;
  return queue.post(&list.front(), bad ? bad : &none);
}

std::vector<ibv_wc> take(Nic &nic, size_t n, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::vector<ibv_wc> all;
  while (all.size() < n) {
    ibv_wc completions[16];
    const int got = nic.poll(completions, int(std::min<size_t>(16, n - all.size())));
    REQUIRE(got >= 0);
    all.insert(all.end(), completions, completions + got);
    if (got == 0) {
      if (std::chrono::steady_clock::now() > end)
        break;
      sched_yield();
    }
  }
  return all;
}

void fill(Buffer &buffer, uint32_t seed) {
  uint32_t state = seed * 2654435761u + 1;
  for (uint8_t &byte : buffer.bytes) {
    state = state * 1664525 + 1013904223;
    byte = uint8_t(state >> 24);
  }
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace ccl::rdma
