// How long proofs of large programs take: `./dev bench proof`.
//
// Three all-reduces on n ranks in `lanes` parallel lanes, each with chunks of its own:
//   ring     staged, an agent for a lane: receive, reduce, send
//   handoff  the same with two agents for a lane, one that receives and one that sends, which
//            hand chunks over by signals within the rank
//   direct   everybody reads everybody's memory, guarded by signals
// Every case runs in a process of its own, so that its peak memory is its own.

#include "dialect/model/Check.h"
#include "test/unit/model/Algorithms.h"

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <map>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace ccl::model;

namespace {

/// The program of one rank under construction.
class Rank {
public:
  explicit Rank(RankProgram &rank) : rank(rank) {}

  Agent &addAgent() {
    rank.agents.push_back({false, int32_t(rank.agents.size()), {}});
    return rank.agents.back();
  }
  Operand slot(bool to, int32_t other, int32_t tag) {
    return ccl::model::channel(end(to, other, tag, 2));
  }
  Instruction counter(bool to, int32_t other, int32_t tag) {
    return to ? signal(end(to, other, tag, 0)) : wait(end(to, other, tag, 0));
  }

private:
  int32_t end(bool to, int32_t other, int32_t tag, int32_t slots) {
    auto [it, added] = numbers.try_emplace({to, other, tag}, int32_t(rank.channels.size()));
    if (added)
      rank.channels.push_back({to, other, tag, slots});
    return it->second;
  }
  RankProgram &rank;
  std::map<std::tuple<bool, int32_t, int32_t>, int32_t> numbers;
};

Instruction combine(std::vector<Operand> from, std::vector<Operand> to) {
  const bool reduces = from.size() > 1;
  return transfer(std::move(from), std::move(to), reduces);
}

/// What a lane of a ring knows: its neighbours' slots and the chunk that is handled `step` steps
/// after its own.
struct Lane {
  Rank &rank;
  int32_t ranks, me, number;
  Operand next, prev;
  Operand at(int32_t step) const {
    return local(0, int64_t(number) * ranks + (me + 3 * ranks - step) % ranks);
  }
};

Program onRings(int32_t n, int32_t lanes, const std::function<void(Lane &)> &addAgents) {
  Program program;
  program.buffers = {{"x", Role::InOut, int64_t(n) * lanes, -1}};
  program.ranks.resize(size_t(n));
  for (int32_t me = 0; me < n; ++me) {
    Rank rank(program.ranks[size_t(me)]);
    for (int32_t number = 0; number < lanes; ++number) {
      Lane lane{rank,
                n,
                me,
                number,
                rank.slot(true, (me + 1) % n, number),
                rank.slot(false, (me + n - 1) % n, number)};
      addAgents(lane);
    }
  }
  return program;
}

Program ring(int32_t n, int32_t lanes) {
  return onRings(n, lanes, [n](Lane &lane) {
    std::vector<Instruction> &code = lane.rank.addAgent().code;
    code.push_back(combine({lane.at(0)}, {lane.next}));
    for (int32_t s = 1; s < n - 1; ++s)
      code.push_back(combine({lane.prev, lane.at(s)}, {lane.next}));
    code.push_back(combine({lane.prev, lane.at(n - 1)}, {lane.at(n - 1), lane.next}));
    for (int32_t s = 0; s < n - 2; ++s)
      code.push_back(combine({lane.prev}, {lane.at(s), lane.next}));
    code.push_back(combine({lane.prev}, {lane.at(n - 2)}));
  });
}

Program handoff(int32_t n, int32_t lanes) {
  return onRings(n, lanes, [n](Lane &lane) {
    std::vector<Instruction> receives, sends;
    sends.push_back(combine({lane.at(0)}, {lane.next}));
    for (int32_t s = 1; s <= 2 * n - 2; ++s) {
      std::vector<Operand> from = {lane.prev};
      if (s <= n - 1) // reduced, not only copied
        from.push_back(lane.at(s));
      receives.push_back(combine(from, {lane.at(s)}));
      if (s == 2 * n - 2)
        break;
      receives.push_back(lane.rank.counter(true, lane.me, lane.number));
      sends.push_back(lane.rank.counter(false, lane.me, lane.number));
      sends.push_back(combine({lane.at(s)}, {lane.next}));
    }
    lane.rank.addAgent().code = std::move(receives);
    lane.rank.addAgent().code = std::move(sends);
  });
}

Program direct(int32_t n, int32_t lanes) {
  Program program;
  program.buffers = {{"in", Role::In, int64_t(n) * lanes, -1},
                     {"out", Role::Out, int64_t(n) * lanes, -1}};
  program.ranks.resize(size_t(n));
  for (int32_t me = 0; me < n; ++me) {
    Rank rank(program.ranks[size_t(me)]);
    for (int32_t lane = 0; lane < lanes; ++lane) {
      std::vector<Instruction> &code = rank.addAgent().code;
      auto others = [&](bool to, int32_t tag) {
        for (int32_t d = 1; d < n; ++d)
          code.push_back(rank.counter(to, (me + d) % n, 2 * lane + tag));
      };
      int64_t mine = int64_t(lane) * n + me;
      std::vector<Operand> sources = {local(0, mine)};
      for (int32_t d = 1; d < n; ++d)
        sources.push_back(peer((me + d) % n, 0, mine));
      code.push_back(combine(std::move(sources), {local(1, mine)}));
      others(true, 0);
      others(false, 0);
      for (int32_t d = 1; d < n; ++d) {
        int64_t theirs = int64_t(lane) * n + (me + d) % n;
        code.push_back(combine({peer((me + d) % n, 1, theirs)}, {local(1, theirs)}));
      }
      others(true, 1);
      others(false, 1);
    }
  }
  return program;
}

struct Case {
  const char *name;
  std::function<Program(int32_t, int32_t)> make;
  int32_t ranks, lanes;
  double secondsLimit;
};

void measure(const Case &c) {
  Program program = c.make(c.ranks, c.lanes);
  Contract contract =
      makeContract(Collective::AllReduce, c.ranks, int64_t(c.ranks) * c.lanes, Reduction::Sum);
  size_t agents = 0;
  for (const RankProgram &rank : program.ranks)
    agents += rank.agents.size();
  auto start = std::chrono::steady_clock::now();
  ProgramReport report = check(program, contract);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("{:<8} {:>6} {:>6} {:>7} {:>12} {:>9.3f} {:>7.1f} {:>9} {:>6}  {}\n", c.name, c.ranks,
             c.lanes, agents, report.instructions, seconds, c.secondsLimit, usage.ru_maxrss / 1024,
             report.minSlots, report.ok() ? "ok" : report.faults.front().message);
  fflush(stdout);
  _exit(report.ok() ? 0 : 1);
}

} // namespace

int main() {
  const std::vector<Case> cases = {
      {"ring", ring, 25, 80, 0.5},       {"handoff", handoff, 14, 138, 0.5},
      {"direct", direct, 14, 100, 0.5},  {"ring", ring, 64, 128, 10},
      {"handoff", handoff, 32, 128, 10}, {"direct", direct, 26, 315, 10},
  };
  fmt::print("{:<8} {:>6} {:>6} {:>7} {:>12} {:>9} {:>7} {:>9} {:>6}  {}\n", "program", "ranks",
             "lanes", "agents", "instructions", "seconds", "limit", "peak_MiB", "slots", "verdict");
  fflush(stdout);
  int failures = 0;
  for (const Case &c : cases) {
    pid_t child = fork();
    if (child == 0)
      measure(c);
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
      ++failures;
  }
  return failures ? 1 : 0;
}
