//===- SelfMessages.cpp ----------------------------------------------------------------===//
#include "frontend/msccl/SelfMessages.h"

#include <algorithm>
#include <map>

namespace ccl::msccl {
namespace {

using model::Channel;
using model::Instruction;
using model::Operand;
using model::RankProgram;

/// The messages of one rank with one tag.
struct Fifo {
  int32_t slots = 0, agent = -1;
  int64_t sent = 0, received = 0, longest = 1;
  bool fits = true; ///< one agent does all, and never waits
  int64_t base = 0; ///< first chunk of its slots
  int64_t place(int64_t message) const { return base + message % slots * longest; }
};

class Rank {
public:
  Rank(RankProgram &program, int32_t rank) : program(program), rank(rank) {}

  /// Chunks of scratch that are needed.
  int64_t look();
  void rewrite(int32_t buffer);

private:
  /// The messages behind an operand, or null.
  Fifo *fifoOf(const Operand &operand, bool sends) {
    if (operand.kind != Operand::Kind::Channel)
      return nullptr;
    const Channel &channel = program.channels[size_t(operand.channel)];
    if (channel.peer != rank || channel.slots == 0 || channel.to != sends)
      return nullptr;
    Fifo &fifo = fifos[channel.tag];
    fifo.slots = fifo.slots ? std::min(fifo.slots, channel.slots) : channel.slots;
    return &fifo;
  }

  RankProgram &program;
  const int32_t rank;
  std::map<int32_t, Fifo> fifos; ///< by tag
};

int64_t Rank::look() {
  for (size_t a = 0; a < program.agents.size(); ++a)
    for (const Instruction &i : program.agents[a].code) {
      auto see = [&](const Operand &operand, bool sends) {
        Fifo *fifo = fifoOf(operand, sends);
        if (!fifo)
          return;
        fifo->fits &= fifo->agent < 0 || fifo->agent == int32_t(a);
        fifo->agent = int32_t(a);
        fifo->longest = std::max<int64_t>(fifo->longest, i.count);
        (sends ? fifo->sent : fifo->received)++;
        fifo->fits &= fifo->received <= fifo->sent;
      };
      // A transfer takes a slot before it gives one back.
      std::map<int32_t, int64_t> before;
      for (auto &[tag, fifo] : fifos)
        before[tag] = fifo.received;
      for (const Operand &operand : i.from)
        see(operand, false);
      for (const Operand &operand : i.to)
        see(operand, true);
      for (auto &[tag, fifo] : fifos)
        fifo.fits &= fifo.sent - before[tag] <= fifo.slots;
    }
  int64_t chunks = 0;
  for (auto &[tag, fifo] : fifos) {
    fifo.fits &= fifo.sent == fifo.received;
    if (!fifo.fits)
      continue;
    fifo.base = chunks;
    chunks += std::min<int64_t>(fifo.slots, fifo.sent) * fifo.longest;
    fifo.sent = fifo.received = 0;
  }
  return chunks;
}

void Rank::rewrite(int32_t buffer) {
  for (model::Agent &agent : program.agents)
    for (Instruction &i : agent.code)
      for (bool sends : {false, true})
        for (Operand &operand : sends ? i.to : i.from)
          if (Fifo *fifo = fifoOf(operand, sends); fifo && fifo->fits) {
            int64_t message = (sends ? fifo->sent : fifo->received)++;
            operand = Operand();
            operand.buffer = buffer;
            operand.chunk = fifo->place(message);
          }
}

} // namespace

static bool hasSelfMessages(const interchange::Foreign &foreign) {
  for (size_t rank = 0; rank < foreign.program.ranks.size(); ++rank)
    for (const Channel &channel : foreign.program.ranks[rank].channels)
      if (channel.peer == int32_t(rank) && channel.slots > 0)
        return true;
  return false;
}

std::optional<interchange::Foreign> withoutSelfMessages(const interchange::Foreign &foreign) {
  if (!hasSelfMessages(foreign))
    return std::nullopt;
  interchange::Foreign changed = foreign;
  std::vector<RankProgram> &ranks = changed.program.ranks;
  std::vector<Rank> found;
  int64_t chunks = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    found.emplace_back(ranks[rank], int32_t(rank));
    chunks = std::max(chunks, found.back().look());
  }
  if (chunks == 0)
    return std::nullopt;
  const int32_t buffer = int32_t(changed.program.buffers.size());
  changed.program.buffers.push_back({"self", model::Role::Scratch, chunks});
  for (Rank &rank : found)
    rank.rewrite(buffer);
  return changed;
}

} // namespace ccl::msccl
