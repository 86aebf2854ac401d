//===- Wires.h - Two NICs on one wire, for tests ---------------------------------===//
//
// The same cases run on the emulation (in order, and with what the standard leaves open drawn
// from seeds) and on real devices: the environment variable RDMA_TEST_NICS names two, "rxe0,rxe1",
// or one twice. Cases of one kind alone end with a message on the other.
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/rdma/Nic.h"

#include <doctest/doctest.h>

#include <deque>
#include <functional>

namespace ccl::rdma {

/// "rxe0", "rxe1"; empty: the emulation.
std::vector<std::string> realDevices();

struct Wires {
  std::shared_ptr<Fabric> fabric; ///< null: real devices
  std::string name;               ///< "seed 3"
  std::unique_ptr<Nic> nics[2];
};

/// Options of the real devices, from RDMA_TEST_MTU.
NicOptions realOptions(const std::string &device);
Wires makeWires(const Fabric::Options &options);
Wires makeReal();
/// On the real devices if there are any, else on emulations of several kinds.
void onEachWire(const std::function<void(Wires &)> &test);

/// Memory that is registered.
struct Buffer {
  Buffer(Nic &nic, size_t bytes);
  std::vector<uint8_t> bytes;
  std::unique_ptr<Region> region;
  uint64_t at(size_t offset) const { return reinterpret_cast<uint64_t>(bytes.data()) + offset; }
};

/// A queue pair of each NIC, connected.
struct Pair {
  explicit Pair(Wires &wires, const QueueLimits &limits = {});
  std::unique_ptr<QueuePair> ends[2];
};

/// A list of work requests.
class Requests {
public:
  /// Bytes [from, from + bytes) of `source` to `to` of `target`.
  ibv_send_wr &write(const Buffer &source, size_t from, const Buffer &target, size_t to,
                     uint32_t bytes);
  ibv_send_wr &writeImmediate(const Buffer &source, size_t from, const Buffer &target, size_t to,
                              uint32_t bytes, uint32_t immediate);
  /// Signals the last one and posts all. Returns what post() does.
  int post(QueuePair &queue);
  /// The same without a signal of its own accord.
  int postAsIs(QueuePair &queue, ibv_send_wr **bad = nullptr);
  std::deque<ibv_send_wr> list;

private:
  std::deque<ibv_sge> pieces;
};

/// The next `n` completions; less if they do not come within `limit`.
std::vector<ibv_wc> take(Nic &nic, size_t n,
                         std::chrono::milliseconds limit = std::chrono::seconds(20));
/// Fills with what differs from byte to byte and from seed to seed.
void fill(Buffer &buffer, uint32_t seed);
bool contains(const std::string &text, const std::string &part);

} // namespace ccl::rdma
