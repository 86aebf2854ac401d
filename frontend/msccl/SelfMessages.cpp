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

/// What a rank sends to itself.
class SelfFifos {
public:
  SelfFifos(const RankProgram &program, int32_t rank);

  /// Chunks of scratch that are needed.
  int64_t chunks() const { return needed; }
  void rewrite(RankProgram &program, int32_t buffer);

private:
  /// The messages behind an operand, or null.
  Fifo *fifoOf(const RankProgram &program, const Operand &operand, bool sends) {
    if (operand.kind != Operand::Kind::Channel)
      return nullptr;
    const Channel &channel = program.channels[size_t(operand.channel)];
    auto it = fifos.find(channel.tag);
    return channel.peer == rank && channel.to == sends && it != fifos.end() ? &it->second : nullptr;
  }
  void look(const RankProgram &program, int32_t agent, const Instruction &instruction);

  const int32_t rank;
  std::map<int32_t, Fifo> fifos; ///< by tag
  int64_t needed = 0;
};

SelfFifos::SelfFifos(const RankProgram &program, int32_t rank) : rank(rank) {
  for (const Channel &channel : program.channels)
    if (channel.peer == rank && channel.slots > 0) {
      Fifo &fifo = fifos[channel.tag];
      fifo.slots = fifo.slots > 0 ? std::min(fifo.slots, channel.slots) : channel.slots;
    }
  if (fifos.empty())
    return;
  for (size_t a = 0; a < program.agents.size(); ++a)
    for (const Instruction &instruction : program.agents[a].code)
      look(program, int32_t(a), instruction);
  for (auto &[tag, fifo] : fifos) {
    fifo.fits &= fifo.sent == fifo.received;
    if (!fifo.fits)
      continue;
    fifo.base = needed;
    needed += std::min<int64_t>(fifo.slots, fifo.sent) * fifo.longest;
    fifo.sent = fifo.received = 0;
  }
}

void SelfFifos::look(const RankProgram &program, int32_t agent, const Instruction &instruction) {
  auto see = [&](Fifo &fifo) {
    fifo.fits &= fifo.agent < 0 || fifo.agent == agent;
    fifo.agent = agent;
    fifo.longest = std::max<int64_t>(fifo.longest, instruction.count);
  };
  for (const Operand &operand : instruction.from)
    if (Fifo *fifo = fifoOf(program, operand, /*sends=*/false)) {
      see(*fifo);
      fifo->fits &= ++fifo->received <= fifo->sent;
    }
  for (const Operand &operand : instruction.to)
    if (Fifo *fifo = fifoOf(program, operand, /*sends=*/true)) {
      see(*fifo);
      // A transfer takes a slot before it gives one back.
      auto held =
          std::count_if(instruction.from.begin(), instruction.from.end(), [&](const Operand &from) {
            return fifoOf(program, from, /*sends=*/false) == fifo;
          });
      fifo->fits &= ++fifo->sent - fifo->received + held <= fifo->slots;
    }
}

void SelfFifos::rewrite(RankProgram &program, int32_t buffer) {
  for (model::Agent &agent : program.agents)
    for (Instruction &instruction : agent.code)
      for (bool sends : {false, true})
        for (Operand &operand : sends ? instruction.to : instruction.from)
          if (Fifo *fifo = fifoOf(program, operand, sends); fifo && fifo->fits) {
            int64_t message = (sends ? fifo->sent : fifo->received)++;
            operand = Operand();
            operand.buffer = buffer;
            operand.chunk = fifo->place(message);
          }
}

} // namespace

std::optional<interchange::Foreign> withoutSelfMessages(const interchange::Foreign &foreign) {
  std::vector<SelfFifos> found;
  int64_t chunks = 0;
  for (const RankProgram &program : foreign.program.ranks) {
    found.emplace_back(program, int32_t(found.size()));
    chunks = std::max(chunks, found.back().chunks());
  }
  if (chunks == 0)
    return std::nullopt;
  interchange::Foreign changed = foreign;
  const int32_t buffer = int32_t(changed.program.buffers.size());
  changed.program.buffers.push_back({"self", model::Role::Scratch, chunks});
  for (size_t rank = 0; rank < found.size(); ++rank)
    found[rank].rewrite(changed.program.ranks[rank], buffer);
  return changed;
}

} // namespace ccl::msccl
