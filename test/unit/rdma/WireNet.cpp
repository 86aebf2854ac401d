//===- WireNet.cpp ------------------------------------------------------------===//
#include "WireNet.h"

#include "runtime/Backoff.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdlib>
#include <cstring>
#include <thread>

namespace ccl::test {
namespace {

constexpr char untouched = char(0xee);

uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

/// One end of a flow in one launch: does what a kernel does, but never waits.
class Agent {
public:
  Agent(const Flow &flow, ChannelEnd *end, bool sized)
      : flow(flow), end(*end), sized(sized), left(flow.messages) {
    if (!this->end.to && this->end.numSlots > 0)
      expected.resize(size_t(this->end.slotBytes));
  }
  bool isDone() const { return left == 0; }
  /// Whether something was done; what was wrong goes to `why`.
  bool step(std::string &why) {
    if (isDone() || !isReady())
      return false;
    if (end.numSlots > 0 && end.to)
      fill();
    else if (end.numSlots > 0)
      check(why);
    --left;
    ++end.next;
    if (end.to || end.numSlots > 0)
      __atomic_store_n(end.depart, end.next, __ATOMIC_RELEASE);
    return true;
  }
  std::string describe() const {
    return fmt::format("tag {} {} {}: {} left, next {}, arrive {}", end.tag, end.to ? "to" : "from",
                       end.peer, left, end.next, __atomic_load_n(end.arrive, __ATOMIC_ACQUIRE));
  }

private:
  bool isReady() const {
    if (end.to && end.numSlots == 0)
      return true;
    const uint64_t needed = end.next + 1 - (end.to ? uint64_t(end.numSlots) : 0);
    return int64_t(__atomic_load_n(end.arrive, __ATOMIC_ACQUIRE) - needed) >= 0;
  }
  char *slot() const {
    return end.slots + int64_t(end.next % uint64_t(end.numSlots)) * end.slotBytes;
  }
  void fill() {
    size_t position = 0;
    for (const rdma::Piece &piece : flow.pieces(end.next)) {
      fillMessage(flow.key, end.next, slot() + piece.offset, position, size_t(piece.bytes));
      position += size_t(piece.bytes);
    }
    if (sized)
      __atomic_store_n(end.depart + 1 + end.next % uint64_t(end.numSlots), position,
                       __ATOMIC_RELAXED);
  }
  /// The pieces must be there. What is not of them must be as it was left: only small slots.
  void check(std::string &why) {
    size_t position = 0;
    const bool all = end.slotBytes <= 65536;
    const bool first = end.next < uint64_t(end.numSlots);
    if (all)
      std::memset(expected.data(), first ? 0 : untouched, expected.size());
    for (const rdma::Piece &piece : flow.pieces(end.next)) {
      fillMessage(flow.key, end.next, expected.data() + piece.offset, position,
                  size_t(piece.bytes));
      if (std::memcmp(expected.data() + piece.offset, slot() + piece.offset, size_t(piece.bytes)) !=
          0)
        return complain(why, piece.offset, piece.bytes);
      position += size_t(piece.bytes);
    }
    if (all && std::memcmp(expected.data(), slot(), expected.size()) != 0)
      return complain(why, 0, end.slotBytes);
    if (all)
      std::memset(slot(), untouched, expected.size());
  }
  void complain(std::string &why, int64_t offset, int64_t bytes) const {
    for (int64_t i = offset; i < offset + bytes; ++i)
      if (expected[size_t(i)] != slot()[i]) {
        why = fmt::format("{} -> {} (tag {}, {} slots), message {}: byte {} is {:#x}, not {:#x}",
                          flow.key.source, flow.key.destination, flow.key.tag, flow.key.slots,
                          end.next, i, uint8_t(slot()[i]), uint8_t(expected[size_t(i)]));
        return;
      }
  }

  const Flow &flow;
  ChannelEnd &end;
  const bool sized;
  int left;
  std::vector<char> expected;
};

std::vector<ChannelKey> keysBetween(const std::vector<Flow> &flows, int a, int b) {
  std::vector<ChannelKey> keys;
  for (const Flow &flow : flows)
    if ((flow.key.source == a && flow.key.destination == b) ||
        (flow.key.source == b && flow.key.destination == a))
      keys.push_back(flow.key);
  return keys;
}

/// What RDMA_TEST_NICS names.
std::vector<std::string> devices() {
  const char *names = std::getenv("RDMA_TEST_NICS");
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(names ? names : "").split(parts, ',', -1, false);
  return {parts.begin(), parts.end()};
}

std::unique_ptr<rdma::Nic> openDevice(int index) {
  const std::vector<std::string> names = devices();
  rdma::NicOptions options;
  options.device = names[size_t(index) % names.size()];
  return llvm::cantFail(rdma::openVerbs("", options));
}

std::string textOf(llvm::Error error) { return llvm::toString(std::move(error)); }

} // namespace

void fillMessage(const ChannelKey &key, uint64_t message, char *to, size_t from, size_t bytes) {
  const uint64_t seed = mix(mix(uint64_t(key.source) << 32 | uint32_t(key.destination)) +
                            uint64_t(key.tag) * 1000003 + uint64_t(key.slots)) +
                        message * 0x10001;
  size_t i = 0;
  for (; i < bytes && (from + i) % 8 != 0; ++i)
    to[i] = char(mix(seed + (from + i) / 8) >> (from + i) % 8 * 8);
  for (; i + 8 <= bytes; i += 8) {
    const uint64_t word = mix(seed + (from + i) / 8);
    std::memcpy(to + i, &word, 8);
  }
  for (; i < bytes; ++i)
    to[i] = char(mix(seed + (from + i) / 8) >> (from + i) % 8 * 8);
}

std::function<std::vector<rdma::Piece>(uint64_t)> whole(int64_t bytes) {
  return [bytes](uint64_t) { return std::vector<rdma::Piece>{{0, bytes}}; };
}

std::function<std::vector<rdma::Piece>(uint64_t)> drawn(uint64_t seed, int64_t mostBytes) {
  return [seed, mostBytes](uint64_t m) {
    std::vector<rdma::Piece> pieces;
    uint64_t random = mix(seed * 7919 + m);
    auto draw = [&](uint64_t below) { return (random = mix(random)) % below; };
    int64_t at = 0;
    for (uint64_t n = draw(5); n > 0 && at < mostBytes; --n) {
      if (draw(2))
        at += int64_t(draw(uint64_t(mostBytes - at) / 4 + 1));
      const int64_t bytes = draw(4) == 0 ? 0 : int64_t(draw(uint64_t(mostBytes - at) + 1));
      pieces.push_back({at, bytes});
      at += bytes;
    }
    return pieces;
  };
}

bool Net::isOnDevices() { return !devices().empty(); }

Net::Net(const NetOptions &options)
    : options(options), fabric(isOnDevices() ? nullptr : rdma::Fabric::create(options.fabric)) {
  for (int rank = 0; rank < options.ranks; ++rank) {
    std::vector<std::unique_ptr<rdma::Nic>> nics;
    nics.reserve(size_t(nicsOf(rank)));
    for (int nic = 0; nic < nicsOf(rank); ++nic)
      nics.push_back(fabric ? fabric->addNic(nicName(rank, nic)) : openDevice(rank + nic));
    rdma::WireOptions wireOptions;
    wireOptions.rank = rank;
    wireOptions.slotBytes = options.slotBytes;
    wireOptions.limits = options.limits;
    wireOptions.queues = options.queues;
    wireOptions.sized = options.sized;
    wireOptions.memory = options.memory;
    wires.push_back(llvm::cantFail(rdma::Wire::create(std::move(nics), wireOptions)));
  }
}

void Net::setLink(int rank, int nic, bool up) {
  if (fabric)
    return fabric->setLink(nicName(rank, nic), up);
  const std::vector<std::string> names = devices();
  const std::string &name = names[size_t(rank + nic) % names.size()];
  // Not `ip link`: that takes routes and GIDs away.
  const std::string command = fmt::format("tc qdisc {} dev nic{} root netem loss 100%",
                                          up ? "del" : "replace", name.substr(3));
  if (std::system(command.c_str()) != 0)
    fmt::print(stderr, "{}: failed\n", command);
}

std::string Net::portText(int rank, int nic) {
  const std::vector<std::string> names = devices();
  return fmt::format("{} (port 1, GID ",
                     names.empty() ? nicName(rank, nic) : names[size_t(rank + nic) % names.size()]);
}

std::string Net::open(const std::vector<Flow> &flows) {
  for (int a = 0; a < options.ranks; ++a)
    for (int b = a + 1; b < options.ranks; ++b) {
      const std::vector<ChannelKey> keys = keysBetween(flows, a, b);
      if (keys.empty())
        continue;
      llvm::Expected<std::string> ofA = wires[size_t(a)]->offer(b, keys);
      if (!ofA)
        return textOf(ofA.takeError());
      llvm::Expected<std::string> ofB = wires[size_t(b)]->offer(a, keys);
      if (!ofB)
        return textOf(ofB.takeError());
      if (llvm::Error e = wires[size_t(a)]->accept(b, keys, *ofB))
        return textOf(std::move(e));
      if (llvm::Error e = wires[size_t(b)]->accept(a, keys, *ofA))
        return textOf(std::move(e));
    }
  return "";
}

std::string Net::runRank(int rank, const std::vector<Flow> &flows) {
  rdma::Wire &wire = *wires[size_t(rank)];
  std::vector<Agent> agents;
  std::vector<ChannelEnd *> ends, sending;
  std::vector<std::function<std::vector<rdma::Piece>(uint64_t)>> pieces;
  std::vector<uint64_t> first;
  for (const Flow &flow : flows) {
    const bool to = flow.key.source == rank;
    if (!to && flow.key.destination != rank)
      continue;
    ChannelEnd *end = wire.end(flow.key, to);
    if (!end)
      return fmt::format("rank {} has no end of tag {}", rank, flow.key.tag);
    ends.push_back(end);
    agents.emplace_back(flow, end, options.sized);
    if (to && flow.key.slots > 0) {
      sending.push_back(end);
      pieces.push_back(flow.pieces);
      first.push_back(end->next);
    }
  }
  if (options.sized)
    wire.begin(ends, {}, nullptr);
  else
    wire.begin(ends, sending, [&](size_t index, uint64_t message, std::vector<rdma::Piece> &list) {
      const auto of = pieces[index](first[index] + message);
      list.insert(list.end(), of.begin(), of.end());
    });
  std::string why;
  const Clock::time_point end = Clock::now() + options.deadline;
  auto wait = [&](Backoff &backoff) {
    if (options.ranksHelp && wire.progress())
      backoff = Backoff();
    if (backoff.pause() && Clock::now() > end)
      why = fmt::format("rank {}: timed out", rank);
    if (const std::optional<RuntimeError> failure = wire.failure())
      why = failure->message;
    else if (isStopped)
      why = stopped;
  };
  Backoff backoff;
  for (bool done = false; !done && why.empty();) {
    done = true;
    bool any = false;
    for (Agent &agent : agents) {
      any |= agent.step(why);
      done &= agent.isDone();
    }
    if (any)
      backoff = Backoff();
    else if (!done)
      wait(backoff);
  }
  while (why.empty() && !wire.isDrained())
    wait(backoff);
  wire.end();
  if (why.find("timed out") != std::string::npos)
    for (const Agent &agent : agents)
      why += "\n  " + agent.describe();
  return why;
}

std::vector<std::string> Net::run(const std::vector<Flow> &flows, int times,
                                  const std::vector<int> &except) {
  std::vector<std::string> said(size_t(options.ranks));
  std::vector<std::thread> threads;
  isStopped = false;
  for (int rank = 0; rank < options.ranks; ++rank)
    if (std::find(except.begin(), except.end(), rank) == except.end())
      threads.emplace_back([&, rank] {
        for (int i = 0; i < times && said[size_t(rank)].empty(); ++i)
          said[size_t(rank)] = runRank(rank, flows);
        if (!said[size_t(rank)].empty())
          isStopped = true;
      });
  for (std::thread &thread : threads)
    thread.join();
  return said;
}

std::string Net::runAll(const std::vector<Flow> &flows, int times) {
  if (std::string why = open(flows); !why.empty())
    return why;
  std::string all;
  for (const std::string &said : run(flows, times))
    all += said.empty() ? "" : said + "\n";
  return all;
}

} // namespace ccl::test
