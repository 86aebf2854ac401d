// Timelines of random programs, looked at event by event: everything begins exactly when the last
// of what it has to wait for is over, computed from the program anew.

#include "dialect/simulate/Routes.h"

#include "test/unit/simulate/Timing.h"

#include "test/random/Seeds.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

using namespace ccl::model;
using ccl::soak::Dice;

namespace {

/// Random moves between agents of ranks, each in one of four ways. All agents keep to one order of
/// moves, so they never get stuck. What data it is does not matter.
Program randomTraffic(int64_t ranks, Dice &dice) {
  ProgramMaker maker(ranks, {{"x", Role::InOut, 6}, {"s", Role::Scratch, 6}},
                     int32_t(2 + dice.below(3)));
  const int64_t lanes = 1 + dice.below(3);
  for (int64_t moves = 3 + dice.below(40); moves > 0; --moves) {
    const int32_t a = int32_t(dice.below(ranks)), b = int32_t(dice.below(ranks));
    const size_t i = size_t(dice.below(lanes)), j = size_t(dice.below(lanes));
    const int32_t tag = int32_t(4 * (int64_t(i) * lanes + int64_t(j)));
    const int32_t count = int32_t(1 + dice.below(3));
    auto place = [&] { return local(int32_t(dice.below(2)), dice.below(4)); };
    auto at = [&](int32_t rank) { return peer(rank, int32_t(dice.below(2)), dice.below(4)); };
    if (a == b && i == j) {
      maker.add(a, transfer({place()}, {place()}, false, count), i);
      continue;
    }
    switch (dice.below(5)) {
    case 4: // two slots of one channel
      maker.add(a, transfer({place()}, {maker.to(a, b, tag), maker.to(a, b, tag)}, false, count),
                i);
      maker.add(b, transfer({maker.from(b, a, tag), maker.from(b, a, tag)}, {place()}, true, count),
                j);
      break;
    case 0: { // staged, sometimes to a third one, too
      std::vector<Operand> to = {maker.to(a, b, tag)};
      if (dice.chance(20))
        to.push_back(at(int32_t(dice.below(ranks))));
      maker.add(a, transfer({place()}, to, false, count), i);
      maker.add(b, transfer({maker.from(b, a, tag), place()}, {place()}, true, count), j);
      break;
    }
    case 1: // written, then told
      maker.add(a, transfer({place()}, {at(b)}, false, count), i);
      maker.add(a, maker.tell(a, b, tag + 1), i);
      maker.add(b, maker.hear(b, a, tag + 1), j);
      break;
    case 2: // told, then read, and passed on
      maker.add(a, maker.tell(a, b, tag + 2), i);
      maker.add(b, maker.hear(b, a, tag + 2), j);
      maker.add(b, transfer({at(a), at(int32_t(dice.below(ranks)))}, {place(), at(a)}, true, count),
                j);
      break;
    default: // told
      maker.add(a, maker.tell(a, b, tag + 3), i);
      maker.add(b, maker.hear(b, a, tag + 3), j);
    }
  }
  return maker.program;
}

class Replay {
public:
  Replay(const Program &program, const Topology &t, const SimulateOptions &options,
         const SimulateReport &report)
      : program(program), options(options), report(report), line(*report.timeline), routes(t) {
    for (size_t s = 0; s < line.spans.size(); ++s) {
      const Timeline::Span &span = line.spans[s];
      spans[{span.agent, span.batch, span.instruction}] = s;
    }
    for (size_t f = 0; f < line.flights.size(); ++f)
      flights[line.flights[f].span].push_back(f);
    for (const Timeline::Service &service : line.services)
      services[service.flight].push_back(service);
    for (size_t a = 0; a < report.agents.size(); ++a)
      for (int64_t batch = 0; batch < options.batches; ++batch)
        for (size_t i = 0; i < codeOf(a).size(); ++i)
          collect(a, batch, i);
  }

  void checkAll() {
    CHECK(line.spans.size() == expected);
    for (size_t a = 0; a < report.agents.size(); ++a) {
      double free = options.model.launchUs, written = 0;
      for (int64_t batch = 0; batch < options.batches; ++batch) {
        if (batch > 0 && options.batchOrder == BatchOrder::Rank)
          free = std::max(free, batchEnd(report.agents[a].rank, batch - 1));
        for (size_t i = 0; i < codeOf(a).size(); ++i)
          free = checkSpan(a, batch, i, free, written);
      }
    }
    checkLinks();
  }

private:
  using Key = std::tuple<int32_t, int32_t, int32_t>;  // agent, batch, instruction
  using Link = std::tuple<int32_t, int32_t, int32_t>; // from, to, tag

  const std::vector<Instruction> &codeOf(size_t agent) const {
    const AgentUse &use = report.agents[agent];
    return program.ranks[size_t(use.rank)].agents[size_t(use.agent)].code;
  }
  const Timeline::Span &spanOf(size_t agent, int64_t batch, size_t i) const {
    return line.spans[spans.at({int32_t(agent), int32_t(batch), int32_t(i)})];
  }
  Link linkOf(size_t agent, int32_t number) const {
    const int32_t rank = report.agents[agent].rank;
    const Channel &c = program.ranks[size_t(rank)].channels[size_t(number)];
    return c.to ? Link{rank, c.peer, c.tag} : Link{c.peer, rank, c.tag};
  }
  double batchEnd(int32_t rank, int64_t batch) const {
    double end = 0;
    for (size_t a = 0; a < report.agents.size(); ++a)
      if (report.agents[a].rank == rank && !codeOf(a).empty())
        end = std::max(end, spanOf(a, batch, codeOf(a).size() - 1).end);
    return end;
  }

  /// What goes into channels and comes out of them, in order.
  void collect(size_t agent, int64_t batch, size_t i) {
    ++expected;
    const Instruction &instruction = codeOf(agent)[i];
    const Timeline::Span &span = spanOf(agent, batch, i);
    const std::vector<size_t> &mine = flights[int64_t(&span - line.spans.data())];
    const int32_t rank = report.agents[agent].rank;
    if (instruction.kind == Instruction::Kind::Signal) {
      REQUIRE(mine.size() == 1);
      sent[linkOf(agent, instruction.channel)].push_back(mine[0]);
    }
    size_t next = 0;
    for (const Operand &o : instruction.from) {
      next += o.kind == Operand::Kind::Peer && o.peer != rank;
      if (o.kind == Operand::Kind::Channel)
        taken[linkOf(agent, o.channel)].push_back(span.end);
    }
    for (const Operand &o : instruction.to) {
      if (o.kind == Operand::Kind::Channel)
        sent[linkOf(agent, o.channel)].push_back(mine.at(next));
      next += o.kind == Operand::Kind::Channel || (o.kind == Operand::Kind::Peer && o.peer != rank);
    }
  }

  double checkSpan(size_t agent, int64_t batch, size_t i, double free, double &written) {
    const Instruction &instruction = codeOf(agent)[i];
    const Timeline::Span &span = spanOf(agent, batch, i);
    const int32_t rank = report.agents[agent].rank;
    std::vector<size_t> &mine = flights[int64_t(&span - line.spans.data())];
    CAPTURE(agent);
    CAPTURE(batch);
    CAPTURE(i);
    double begin = free;
    auto arrives = [&](int32_t channel) {
      const Link link = linkOf(agent, channel);
      begin = std::max(begin, line.flights[sent[link].at(heard[link]++)].arrive);
    };
    auto needsRoom = [&](int32_t channel) {
      const Link link = linkOf(agent, channel);
      const size_t slots = size_t(program.ranks[size_t(rank)].channels[size_t(channel)].slots);
      if (const size_t n = filled[link]++; n >= slots)
        begin = std::max(begin, taken[link].at(n - slots));
    };
    if (instruction.kind == Instruction::Kind::Wait)
      arrives(instruction.channel);
    for (const Operand &o : instruction.from)
      if (o.kind == Operand::Kind::Channel)
        arrives(o.channel);
    for (const Operand &o : instruction.to)
      if (o.kind == Operand::Kind::Channel)
        needsRoom(o.channel);
    CHECK(span.begin == doctest::Approx(begin).epsilon(1e-12));
    if (instruction.kind == Instruction::Kind::Signal) {
      const Timeline::Flight &flight = line.flights[mine[0]];
      double latency = 0;
      for (int32_t wire : routes.way(flight.src, flight.dst))
        latency += routes.wires()[size_t(wire)].latency;
      CHECK(flight.arrive ==
            doctest::Approx(std::max(span.begin + latency, written) + options.model.syncUs)
                .epsilon(1e-12));
    }
    if (instruction.kind != Instruction::Kind::Transfer) {
      CHECK(span.end == span.begin);
      return span.end;
    }
    size_t next = 0;
    double pulled = span.begin;
    for (const Operand &o : instruction.from)
      if (o.kind == Operand::Kind::Peer && o.peer != rank) {
        checkFlight(mine.at(next), o.peer, rank, span.begin, bytesOf(instruction, batch));
        pulled = std::max(pulled, line.flights[mine[next++]].arrive);
      }
    double end = pulled;
    for (const Operand &o : instruction.to) {
      const bool isSlot = o.kind == Operand::Kind::Channel;
      if (!isSlot && (o.kind != Operand::Kind::Peer || o.peer == rank))
        continue;
      const int32_t dst = isSlot ? std::get<1>(linkOf(agent, o.channel)) : o.peer;
      checkFlight(mine.at(next), rank, dst, pulled, bytesOf(instruction, batch));
      if (!services[int64_t(mine[next])].empty())
        end = std::max(end, services[int64_t(mine[next])][0].end);
      if (!isSlot)
        written = std::max(written, line.flights[mine[next]].arrive);
      ++next;
    }
    CHECK(next == mine.size());
    CHECK(span.end == doctest::Approx(end).epsilon(1e-12));
    return span.end;
  }

  /// Of the first operand in x, of this rank before a peer's; else of the longest chunks.
  double bytesOf(const Instruction &instruction, int64_t batch) const {
    const int64_t m = options.batches, chunks = 6;
    const Operand *place = nullptr;
    for (Operand::Kind kind : {Operand::Kind::Local, Operand::Kind::Peer})
      for (const std::vector<Operand> *operands : {&instruction.from, &instruction.to})
        for (const Operand &o : *operands)
          if (!place && o.kind == kind && o.buffer == 0)
            place = &o;
    int64_t elements = 0;
    for (int64_t k = 0; k < instruction.count; ++k) {
      if (!place) {
        elements += (longestChunk(options.count, chunks) + m - 1) / m;
        continue;
      }
      const int64_t length = linearStart(place->chunk + k + 1, options.count, chunks) -
                             linearStart(place->chunk + k, options.count, chunks);
      elements += length * (batch + 1) / m - length * batch / m;
    }
    return double(elements * options.elementBytes);
  }

  void checkFlight(size_t number, int32_t src, int32_t dst, double issue, double bytes) {
    const Timeline::Flight &flight = line.flights[number];
    CHECK(flight.src == src);
    CHECK(flight.dst == dst);
    CHECK(flight.bytes == bytes);
    CHECK(flight.issue == doctest::Approx(issue).epsilon(1e-12));
    const std::vector<int32_t> way = routes.way(src, dst);
    const std::vector<Timeline::Service> &hops = services[int64_t(number)];
    REQUIRE(hops.size() == way.size());
    double eligible = flight.issue, arrive = flight.issue;
    for (size_t h = 0; h < way.size(); ++h) {
      auto busy = [&](size_t hop) {
        const Wire &wire = routes.wires()[size_t(way[hop])];
        return options.model.overheadUs + bytes / (wire.bandwidth * 1000);
      };
      const Wire &wire = routes.wires()[size_t(way[h])];
      CHECK(hops[h].link == wire.links.front());
      CHECK(hops[h].end - hops[h].begin == doctest::Approx(busy(h)).epsilon(1e-9));
      CHECK(hops[h].begin >= eligible - 1e-9);
      queues[hops[h].link].push_back({eligible, hops[h].begin, hops[h].end});
      arrive = hops[h].end + wire.latency;
      if (h + 1 < way.size())
        eligible = std::max(hops[h].begin + wire.latency, arrive - busy(h + 1));
    }
    CHECK(flight.arrive == doctest::Approx(arrive).epsilon(1e-12));
  }

  /// First come, first served, and never idle while somebody waits.
  void checkLinks() {
    for (auto &[link, queue] : queues) {
      std::sort(queue.begin(), queue.end(), [](const Turn &a, const Turn &b) {
        return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
      });
      double free = 0, before = 0;
      for (const Turn &turn : queue) {
        CHECK(turn.begin == doctest::Approx(std::max(free, turn.eligible)).epsilon(1e-12));
        CHECK(turn.eligible >= before - 1e-9);
        before = turn.eligible, free = turn.end;
        waited += turn.begin > turn.eligible + 1e-9;
      }
    }
  }

  struct Turn {
    double eligible, begin, end;
  };
  const Program &program;
  const SimulateOptions &options;
  const SimulateReport &report;
  const Timeline &line;
  Routes routes;
  size_t expected = 0;
  std::map<Key, size_t> spans;
  std::map<int64_t, std::vector<size_t>> flights; ///< by span, in order
  std::map<int64_t, std::vector<Timeline::Service>> services;
  std::map<Link, std::vector<size_t>> sent; ///< flights
  std::map<Link, std::vector<double>> taken;
  std::map<Link, size_t> heard, filled;
  std::map<int32_t, std::vector<Turn>> queues;

public:
  int64_t waited = 0; ///< services that waited for others
};

} // namespace

TEST_CASE("everything begins when the last thing that it waits for is over") {
  int64_t waited = 0, spans = 0;
  for (uint64_t seed : ccl::random::seeds(300)) {
    CAPTURE(seed);
    Dice dice(seed, 9);
    const int64_t ranks = 2 + dice.below(5);
    Topology t = randomTopology(ranks, dice);
    for (Link &link : t.links) // replayed are links alone
      link.resources.clear();
    const Program program = randomTraffic(ranks, dice);
    SimulateOptions options;
    options.timeline = true;
    options.count = dice.below(100000);
    options.batches = 1 + (dice.chance(50) ? dice.below(4) : 0);
    options.batchOrder = dice.chance(50) ? BatchOrder::Rank : BatchOrder::Agent;
    options.model.launchUs = dice.chance(50) ? 3 : 0;
    options.model.syncUs = dice.chance(50) ? 0.7 : 0;
    options.model.overheadUs = dice.chance(30) ? 0.2 : 0;
    const SimulateReport report = simulate(
        program, makeContract(Collective::AllReduce, ranks, 6, Reduction::Sum), t, options);
    REQUIRE(report.ok());
    Replay replay(program, t, options, report);
    replay.checkAll();
    waited += replay.waited, spans += int64_t(report.timeline->spans.size());
  }
  MESSAGE(spans, " instructions, ", waited, " messages waited for a link");
  CHECK(spans > 0);
}
