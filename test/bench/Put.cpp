//===- Put.cpp - bench-put: what writes between hosts cost --------------------------------===//
//
//   bench-put NIC0 NIC1 SECONDS SIZE...
//
// Two processes, each with a NIC of this machine, and a wire between them. For each size a JSON
// object with the median rate of messages of one slot; then one with the median time of a signal.
//===----------------------------------------------------------------------===//
#include "frontend/cli/Forked.h"
#include "runtime/Backoff.h"
#include "runtime/rdma/Wire.h"

#include <fmt/format.h>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace ccl::rdma {
namespace {

constexpr int rounds = 7;
constexpr auto longest = std::chrono::seconds(60);

using Seconds = std::chrono::duration<double>;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + ptrdiff_t(values.size() / 2), values.end());
  return values[values.size() / 2];
}

uint64_t load(const uint64_t *counter) { return __atomic_load_n(counter, __ATOMIC_ACQUIRE); }
void add(uint64_t *counter) { __atomic_store_n(counter, *counter + 1, __ATOMIC_RELEASE); }

class Side {
public:
  Side(int rank, int socket) : rank(rank), socket(socket) {}

  /// Returns "" or what went wrong.
  std::string open(const std::string &device, int64_t bytes) {
    NicOptions port;
    port.device = device;
    auto nic = openVerbs("", port);
    if (!nic)
      return llvm::toString(nic.takeError());
    std::vector<std::unique_ptr<Nic>> nics;
    nics.push_back(std::move(*nic));
    WireOptions options;
    options.rank = rank;
    options.slotBytes = bytes;
    auto made = Wire::create(std::move(nics), options);
    if (!made)
      return llvm::toString(made.takeError());
    wire = std::move(*made);
    const std::vector<ChannelKey> keys{{0, 1, 0, 4}, {0, 1, 1, 0}, {1, 0, 1, 0}};
    auto offer = wire->offer(1 - rank, keys);
    if (!offer)
      return llvm::toString(offer.takeError());
    if (llvm::Error e = wire->accept(1 - rank, keys, swap(*offer)))
      return llvm::toString(std::move(e));
    swap("ready");
    data = wire->end(keys[0], rank == 0);
    there = wire->end(keys[1], rank == 0);
    back = wire->end(keys[2], rank == 1);
    const std::vector<ChannelEnd *> ends{data, there, back};
    std::vector<ChannelEnd *> sending;
    if (rank == 0)
      sending.push_back(data);
    wire->begin(ends, sending, [bytes](size_t, uint64_t, std::vector<Piece> &pieces) {
      pieces.push_back({0, bytes});
    });
    return "";
  }

  /// Seconds until the peer has freed so many messages more.
  double send(uint64_t messages) {
    const Clock::time_point begun = Clock::now();
    const uint64_t end = *data->depart + messages;
    while (*data->depart != end) {
      wait([&] { return *data->depart - load(data->arrive) < uint64_t(data->numSlots); });
      add(data->depart);
    }
    wait([&] { return load(data->arrive) == end; });
    return Seconds(Clock::now() - begun).count();
  }
  void receive(uint64_t messages) {
    for (const uint64_t end = *data->depart + messages; *data->depart != end; add(data->depart))
      wait([&] { return load(data->arrive) != *data->depart; });
  }
  /// Seconds of a signal there and one back.
  double pingPong() {
    const Clock::time_point begun = Clock::now();
    ChannelEnd *mine = rank == 0 ? there : back, *others = rank == 0 ? back : there;
    const uint64_t number = *mine->depart + 1;
    if (rank == 0)
      add(mine->depart);
    wait([&] { return load(others->arrive) == number; });
    if (rank == 1)
      add(mine->depart);
    return Seconds(Clock::now() - begun).count();
  }
  void end() {
    wait([&] { return wire->isDrained(); });
    wire->end();
    swap("over");
  }

private:
  template <typename Ready>
  void wait(Ready ready) {
    const Clock::time_point deadline = Clock::now() + longest;
    Backoff backoff;
    while (!ready()) {
      if (wire->progress()) {
        backoff = Backoff();
      } else if (backoff.pause()) {
        if (std::optional<RuntimeError> failure = wire->failure())
          give(failure->message);
        if (Clock::now() > deadline)
          give("the peer does not answer");
      }
    }
  }
  [[noreturn]] void give(const std::string &what) {
    fmt::print(stderr, "bench-put: rank {}: {}\n", rank, what);
    std::_Exit(3);
  }
  std::string swap(const std::string &mine) {
    if (write(socket, mine.data(), mine.size()) != ssize_t(mine.size()))
      give("the peer has gone");
    char text[8192];
    const ssize_t got = read(socket, text, sizeof text);
    if (got <= 0)
      give("the peer has gone");
    return {text, size_t(got)};
  }

  const int rank, socket;
  std::unique_ptr<Wire> wire;
  ChannelEnd *data = nullptr, *there = nullptr, *back = nullptr;
};

int runSide(int rank, int socket, const std::string &device, int64_t bytes, double seconds) {
  Side side(rank, socket);
  if (const std::string problem = side.open(device, bytes); !problem.empty()) {
    fmt::print(stderr, "bench-put: {}\n", problem);
    return 3;
  }
  // What the emulation in the VM moves in that time; both sides have to agree.
  const auto messages = uint64_t(std::max(8.0, seconds / rounds * 2e8 / double(bytes)));
  std::vector<double> rates, times;
  for (int round = 0; round <= rounds; ++round) {
    if (rank == 1)
      side.receive(messages);
    else if (const double took = side.send(messages); round > 0)
      rates.push_back(double(bytes) * double(messages) / took / 1e6);
  }
  for (int i = 0; i < 1200; ++i)
    if (const double took = side.pingPong(); i >= 200)
      times.push_back(took / 2 * 1e6);
  side.end();
  if (rank == 0)
    fmt::print("{{\"bytes\": {}, \"messages\": {}, \"MBps\": {:.1f}, \"signal_us\": {:.1f}}}\n",
               bytes, messages, median(rates), median(times));
  return 0;
}

int run(const std::vector<std::string> &words) {
  const double seconds = std::atof(words[2].c_str());
  for (size_t i = 3; i < words.size(); ++i) {
    const int64_t bytes = std::atoll(words[i].c_str());
    int sockets[2];
    if (bytes <= 0 || seconds <= 0 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) != 0)
      return 2;
    const pid_t child = cli::forkChild([&] {
      close(sockets[0]);
      return runSide(1, sockets[1], words[1], bytes, seconds);
    });
    close(sockets[1]);
    const int status = child < 0 ? 3 : runSide(0, sockets[0], words[0], bytes, seconds);
    close(sockets[0]);
    int ended = 0;
    if (child > 0)
      waitpid(child, &ended, 0);
    if (status != 0 || ended != 0)
      return 3;
  }
  return 0;
}

} // namespace
} // namespace ccl::rdma

int main(int argc, char **argv) {
  if (argc < 5) {
    fmt::print(stderr, "usage: bench-put NIC0 NIC1 SECONDS SIZE...\n");
    return 2;
  }
  return ccl::rdma::run({argv + 1, argv + argc});
}
