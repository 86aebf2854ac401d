//===- WritePlan.cpp - From a program to a plan of generation 2 -----------===//
#include "dialect/model/Check.h"
#include "frontend/mscclpp/DirectProgram.h"
#include "frontend/mscclpp/PlanFile.h"
#include "frontend/mscclpp/PlanText.h"
#include "frontend/mscclpp/PortProxies.h"
#include "frontend/mscclpp/Trace.h"
#include "frontend/mscclpp/WriteOps.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

namespace ccl::mscclpp {

using interchange::Diagnostic;
using interchange::Foreign;
using model::Agent;
using model::Collective;
using model::Contract;
using model::Instruction;
using model::Operand;
using model::Program;
using model::Role;

namespace {

/// What an end of a channel is in the plan.
struct End {
  enum class Kind : uint8_t { Memory, Port, Semaphore, Trigger, Done };
  Kind kind = Kind::Memory;
  int32_t number = -1; ///< channel or semaphore of the rank; Trigger, Done: the proxy
};

class PlanMaker {
public:
  PlanMaker(const Foreign &foreign, Program program)
      : foreign(foreign), program(std::move(program)) {}
  Plan make();

private:
  void describe();
  void layOutScratch();
  void findProxies();
  void findEnds();
  void connect(int32_t a, int32_t b);
  void writeRank(int32_t rank);
  void writeBlock(int32_t rank, size_t agent, ThreadBlock &block);
  void writeSync(int32_t rank, const Instruction &sync, BlockWriter &writer);
  void writeTriggered(int32_t rank, size_t proxy, BlockWriter &writer);
  BufferUse useOf(int32_t rank, const Operand &operand, int32_t count) const;
  std::vector<BufferUse> usesOf(int32_t rank, const std::vector<Operand> &operands,
                                int32_t count) const;
  static void countTables(ThreadBlock &block);

  const Foreign &foreign;
  Program program;
  Plan plan;
  std::vector<int64_t> scratchOffsets;               ///< by buffer
  int64_t scratchChunks = 0;                         ///< of all scratch buffers
  BufferType inOut = BufferType::Input;              ///< as what `inout` is addressed
  std::vector<std::map<size_t, PortProxy>> proxies;  ///< by rank and agent
  std::vector<std::map<size_t, int32_t>> portOf;     ///< by rank and proxy: the port channel
  std::vector<std::map<size_t, size_t>> nextOfProxy; ///< by rank and proxy: next instruction
  std::vector<std::vector<End>> ends;                ///< by rank and channel
};

std::string collectiveName(const Contract &contract) {
  switch (contract.collective) {
  case Collective::Permute: return "sendrecv";
  case Collective::AllToAllV: return "alltoall";
  default: {
    std::string name(model::name(contract.collective));
    std::erase(name, '_');
    return name;
  }
  }
}

} // namespace

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

void PlanMaker::layOutScratch() {
  scratchOffsets.assign(program.buffers.size(), 0);
  for (size_t i = 0; i < program.buffers.size(); ++i)
    if (program.buffers[i].role == Role::Scratch) {
      scratchOffsets[i] = scratchChunks;
      scratchChunks += program.buffers[i].chunks;
    }
}

void PlanMaker::describe() {
  const Contract &contract = foreign.contract;
  plan.name = foreign.name;
  plan.collective = collectiveName(contract);
  plan.inPlace = !foreign.disjoint;
  plan.own = {contract, foreign.disjoint, foreign.inPlace};
  int64_t in = contract.inChunks(), out = contract.outChunks();
  for (const model::Buffer &buffer : program.buffers) {
    if (contract.collective != Collective::Custom || buffer.role == Role::Scratch)
      continue;
    // An unchecked contract leaves its sizes to the buffers.
    if (buffer.role != Role::Out && in == 0)
      in = buffer.chunks;
    if (buffer.role != Role::In && out == 0)
      out = buffer.chunks;
  }
  plan.own->contract.customInChunks = contract.collective == Collective::Custom ? in : 0;
  plan.own->contract.customOutChunks = contract.collective == Collective::Custom ? out : 0;
  // The larger one begins where `inout` does.
  inOut = out > in ? BufferType::Output : BufferType::Input;
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    Gpu &gpu = plan.gpus.emplace_back();
    gpu.inputChunks = in;
    gpu.outputChunks = out;
  }
}

BufferUse PlanMaker::useOf(int32_t rank, const Operand &operand, int32_t count) const {
  const model::Buffer &buffer = program.buffers[size_t(operand.buffer)];
  BufferUse use;
  bool remote = operand.kind == Operand::Kind::Peer && operand.peer != rank;
  use.kind = remote ? BufferUse::Kind::Remote : BufferUse::Kind::Local;
  use.remote = remote ? operand.peer : -1;
  use.type = buffer.role == Role::In      ? BufferType::Input
             : buffer.role == Role::Out   ? BufferType::Output
             : buffer.role == Role::InOut ? inOut
                                          : BufferType::Scratch;
  use.index = operand.chunk + scratchOffsets[size_t(operand.buffer)];
  use.size = count;
  return use;
}

std::vector<BufferUse> PlanMaker::usesOf(int32_t rank, const std::vector<Operand> &operands,
                                         int32_t count) const {
  std::vector<BufferUse> uses;
  for (const Operand &operand : operands)
    uses.push_back(useOf(rank, operand, count));
  return uses;
}

//===----------------------------------------------------------------------===//
// Channels
//===----------------------------------------------------------------------===//

// What is no port channel of a block becomes a block.
void PlanMaker::findProxies() {
  proxies.resize(program.ranks.size());
  portOf.resize(program.ranks.size());
  nextOfProxy.resize(program.ranks.size());
  for (int32_t rank = 0; size_t(rank) < program.ranks.size(); ++rank) {
    std::vector<Agent> &agents = program.ranks[size_t(rank)].agents;
    for (size_t i = 0; i < agents.size(); ++i)
      if (agents[i].proxy) {
        if (std::optional<PortProxy> proxy = findPortProxy(program.ranks[size_t(rank)], rank, i))
          proxies[size_t(rank)].emplace(i, *proxy);
        else
          agents[i].proxy = false;
      }
  }
}

// The k-th channel of a to b pairs with the k-th of b to a, and signals go both ways.
void PlanMaker::connect(int32_t a, int32_t b) {
  struct Side {
    int32_t rank, peer;
    size_t memory = 0, port = 0;
  };
  Side sides[2] = {{a, b}, {b, a}};
  auto firstOf = [&](bool port, int32_t rank) {
    return int32_t((port ? plan.gpus[size_t(rank)].port : plan.gpus[size_t(rank)].memory).size());
  };
  int32_t bases[2][2] = {{firstOf(false, a), firstOf(true, a)},
                         {firstOf(false, b), firstOf(true, b)}};
  for (int s = 0; s < 2; ++s) {
    Side &side = sides[s];
    const std::vector<model::Channel> &mine = program.ranks[size_t(side.rank)].channels;
    const std::vector<model::Channel> &theirs = program.ranks[size_t(side.peer)].channels;
    std::map<int32_t, std::pair<bool, int32_t>> byTag; ///< of what goes out: port?, ordinal
    for (auto &[agent, proxy] : proxies[size_t(side.rank)])
      if (proxy.peer == side.peer) {
        int32_t ordinal = int32_t(side.port++);
        portOf[size_t(side.rank)][agent] = bases[s][1] + ordinal;
        if (proxy.remote >= 0)
          byTag[mine[size_t(proxy.remote)].tag] = {true, ordinal};
      }
    auto place = [&](int32_t tag) {
      auto [it, isNew] = byTag.try_emplace(tag, false, int32_t(side.memory));
      side.memory += isNew;
      return it->second;
    };
    auto set = [&](int32_t rank, size_t channel, int base, int32_t tag) {
      auto [port, ordinal] = place(tag);
      ends[size_t(rank)][channel] = {port ? End::Kind::Port : End::Kind::Memory,
                                     bases[base][port] + ordinal};
    };
    for (size_t c = 0; c < mine.size(); ++c)
      if (mine[c].to && mine[c].peer == side.peer)
        set(side.rank, c, s, mine[c].tag);
    for (size_t c = 0; c < theirs.size(); ++c)
      if (!theirs[c].to && theirs[c].peer == side.rank)
        set(side.peer, c, 1 - s, theirs[c].tag);
  }
  for (const Side &side : sides) {
    Gpu &gpu = plan.gpus[size_t(side.rank)];
    gpu.memory.resize(gpu.memory.size() + std::max(sides[0].memory, sides[1].memory),
                      {side.peer, {}});
    gpu.port.resize(gpu.port.size() + std::max(sides[0].port, sides[1].port), {side.peer, {}});
  }
}

void PlanMaker::findEnds() {
  std::set<std::pair<int32_t, int32_t>> pairs;
  ends.resize(program.ranks.size());
  for (int32_t rank = 0; size_t(rank) < program.ranks.size(); ++rank) {
    const model::RankProgram &source = program.ranks[size_t(rank)];
    ends[size_t(rank)].resize(source.channels.size());
    std::map<int32_t, End> local; ///< by tag
    for (auto &[agent, proxy] : proxies[size_t(rank)]) {
      pairs.insert(std::minmax(rank, proxy.peer));
      local[source.channels[size_t(proxy.trigger)].tag] = {End::Kind::Trigger, int32_t(agent)};
      if (proxy.done >= 0)
        local[source.channels[size_t(proxy.done)].tag] = {End::Kind::Done, int32_t(agent)};
    }
    for (size_t c = 0; c < source.channels.size(); ++c) {
      const model::Channel &channel = source.channels[c];
      if (channel.peer != rank) {
        pairs.insert(std::minmax(rank, channel.peer));
        continue;
      }
      Gpu &gpu = plan.gpus[size_t(rank)];
      auto [it, isNew] =
          local.try_emplace(channel.tag, End{End::Kind::Semaphore, int32_t(gpu.semaphores.size())});
      if (isNew)
        gpu.semaphores.push_back(0);
      ends[size_t(rank)][c] = it->second;
    }
  }
  for (auto [a, b] : pairs)
    connect(a, b);
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

// One turn of a proxy: what it does after a signal until it waits for the next.
void PlanMaker::writeTriggered(int32_t rank, size_t number, BlockWriter &writer) {
  const std::vector<Instruction> &code = program.ranks[size_t(rank)].agents[number].code;
  const PortProxy &proxy = proxies[size_t(rank)].at(number);
  int32_t channel = portOf[size_t(rank)].at(number);
  size_t &next = nextOfProxy[size_t(rank)][number];
  for (++next; next < code.size() && code[next].kind != Instruction::Kind::Wait; ++next) {
    const Instruction &instruction = code[next];
    writer.loc = instruction.loc;
    if (instruction.kind == Instruction::Kind::Transfer) {
      bool signals = next + 1 < code.size() && code[next + 1].kind == Instruction::Kind::Signal &&
                     code[next + 1].channel == proxy.remote;
      writer.putByPort(useOf(rank, instruction.from.front(), instruction.count),
                       useOf(rank, instruction.to.front(), instruction.count), channel, signals);
      next += signals;
    } else if (instruction.channel == proxy.remote) {
      writer.signal(ChannelType::Port, channel);
    }
  }
}

void PlanMaker::writeSync(int32_t rank, const Instruction &sync, BlockWriter &writer) {
  const End &end = ends[size_t(rank)][size_t(sync.channel)];
  bool signals = sync.kind == Instruction::Kind::Signal;
  ChannelType type = end.kind == End::Kind::Port ? ChannelType::Port : ChannelType::Memory;
  switch (end.kind) {
  case End::Kind::Memory:
  case End::Kind::Port:
    signals ? writer.signal(type, end.number) : writer.wait(type, end.number);
    return;
  case End::Kind::Semaphore:
    signals ? writer.release(end.number) : writer.acquire(end.number);
    return;
  case End::Kind::Trigger: writeTriggered(rank, size_t(end.number), writer); return;
  case End::Kind::Done: writer.flush(portOf[size_t(rank)].at(size_t(end.number))); return;
  }
}

void PlanMaker::countTables(ThreadBlock &block) {
  std::set<int32_t> channels[2];
  std::set<std::pair<int32_t, BufferType>> buffers[2];
  for (const Op &op : block.ops) {
    bool port = op.channelType == ChannelType::Port;
    channels[port].insert(op.channels.begin(), op.channels.end());
    for (const std::vector<BufferUse> *side : {&op.src, &op.dst})
      for (const BufferUse &use : *side)
        if (use.kind == BufferUse::Kind::Remote)
          buffers[port].insert({use.remote, use.type});
  }
  block.memoryChannels = int32_t(channels[0].size());
  block.portChannels = int32_t(channels[1].size());
  block.memoryBuffers = int32_t(buffers[0].size());
  block.portBuffers = int32_t(buffers[1].size());
}

void PlanMaker::writeBlock(int32_t rank, size_t number, ThreadBlock &block) {
  Gpu &gpu = plan.gpus[size_t(rank)];
  const Contract &contract = foreign.contract;
  BlockWriter writer(block, contract.reduction == model::Reduction::None
                                ? "sum"
                                : model::name(contract.reduction));
  BufferUse temporary;
  temporary.type = BufferType::Scratch;
  temporary.index = gpu.scratchChunks;
  int64_t temporaries = 0;
  for (const Instruction &instruction : program.ranks[size_t(rank)].agents[number].code) {
    writer.loc = instruction.loc;
    if (instruction.kind != Instruction::Kind::Transfer) {
      writeSync(rank, instruction, writer);
      continue;
    }
    std::vector<BufferUse> from = usesOf(rank, instruction.from, instruction.count);
    std::vector<BufferUse> to = usesOf(rank, instruction.to, instruction.count);
    temporary.size = instruction.count;
    if (BlockWriter::needsTemporary(from, to))
      temporaries = std::max(temporaries, temporary.size);
    writer.transfer(from, to, temporary);
  }
  gpu.scratchChunks += temporaries;
  countTables(block);
}

void PlanMaker::writeRank(int32_t rank) {
  Gpu &gpu = plan.gpus[size_t(rank)];
  gpu.scratchChunks = scratchChunks;
  const std::vector<Agent> &agents = program.ranks[size_t(rank)].agents;
  for (size_t i = 0; i < agents.size(); ++i)
    if (!agents[i].proxy) {
      ThreadBlock &block = gpu.blocks.emplace_back();
      block.id = int32_t(gpu.blocks.size()) - 1;
      block.place.line = agents[i].code.empty() ? 0 : agents[i].code.front().loc + 1;
      writeBlock(rank, i, block);
    }
}

Plan PlanMaker::make() {
  findProxies();
  guardEntry(program);
  describe();
  layOutScratch();
  findEnds();
  for (int32_t rank = 0; size_t(rank) < program.ranks.size(); ++rank)
    writeRank(rank);
  // Offsets have 32 bits, so a longer message is refused there.
  int64_t chunks = 1;
  for (const Gpu &gpu : plan.gpus)
    chunks = std::max({chunks, gpu.inputChunks, gpu.outputChunks, gpu.scratchChunks});
  const Gpu &first = plan.gpus.front();
  bool gathers = foreign.contract.collective == Collective::AllGather;
  int64_t counted = std::max<int64_t>(1, gathers ? first.outputChunks : first.inputChunks);
  plan.maxBytes = std::numeric_limits<uint32_t>::max() / chunks * counted;
  return std::move(plan);
}

//===----------------------------------------------------------------------===//
// Whole programs
//===----------------------------------------------------------------------===//

static std::string_view warnedOf(model::Reduction reduction) {
  return reduction == model::Reduction::Sum || reduction == model::Reduction::None
             ? std::string_view()
             : model::name(reduction);
}

std::optional<std::string> writePlan(const Foreign &foreign, std::vector<Diagnostic> &diagnostics) {
  if (auto missing = findMissing(foreign.program, foreign.contract.ranks)) {
    report(diagnostics, Diagnostic::Kind::Unsupported, {}, missing->second).loc = missing->first;
    return std::nullopt;
  }
  std::optional<Program> program = withoutDataChannels(foreign.program, diagnostics);
  if (!program)
    return std::nullopt;
  model::ProgramCheckOptions options;
  options.inPlace = !foreign.disjoint;
  if (model::check(*program, foreign.contract, options).exitBarrier) {
    // Also what proxies do has to be over.
    for (model::RankProgram &rank : program->ranks)
      for (Agent &agent : rank.agents)
        agent.proxy = false;
    guardExit(*program);
  }
  Plan plan = PlanMaker(foreign, std::move(*program)).make();
  std::vector<Diagnostic> none;
  Log log(none);
  if (std::string_view reduction = warnedOf(foreign.contract.reduction); !reduction.empty())
    log.warn({}, fmt::format("MSCCL++ always adds, also where this plan says {}", reduction));
  tellCautions(plan, log);
  for (Diagnostic &warning : log.takeWarnings()) {
    warning.loc = warning.place.line - 1;
    warning.place = {};
    for (Diagnostic::Note &note : warning.notes) {
      note.loc = note.place.line - 1;
      note.place = {};
    }
    diagnostics.push_back(std::move(warning));
  }
  report(diagnostics, Diagnostic::Kind::Warning, {},
         fmt::format("MSCCL++ counts bytes in 32 bits: messages of up to {} bytes fit",
                     plan.maxBytes.value_or(0)));
  return planText(plan);
}

} // namespace ccl::mscclpp
