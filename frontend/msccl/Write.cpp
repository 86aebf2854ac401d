#include "frontend/msccl/Blocks.h"
#include "frontend/msccl/Import.h"
#include "frontend/msccl/Meaning.h"
#include "frontend/msccl/Msccl.h"
#include "frontend/msccl/SelfMessages.h"

#include "dialect/model/Network.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace ccl::msccl {
namespace {

using interchange::Diagnostic;
using interchange::Foreign;
using model::Instruction;
using model::Operand;

class Writer {
public:
  Writer(const Foreign &foreign, const WriteOptions &options, std::vector<Diagnostic> &diagnostics)
      : foreign(foreign), diagnostics(diagnostics), layout(foreign),
        limits(limitsOf(options.target)) {}

  std::optional<std::string> write();

private:
  bool refuse(int32_t loc, std::string text);
  bool checkInstruction(int32_t rank, const Instruction &instruction);
  bool checkOperand(int32_t rank, const Instruction &instruction, const Operand &operand);
  bool checkSignal(int32_t rank, const Instruction &instruction);
  bool checkProgram();
  bool checkSize();
  bool describe();
  bool chooseProtocol();
  bool fill();
  bool fillOnce(const Lanes &lanes, const BlockOptions &blocks, bool &hasUnordered);
  /// Cuts what blocks over the limit of steps take part in. False: nothing is left to cut.
  bool cut(const Lanes &lanes);
  bool checkResult();
  int32_t stepsLimit() const { return limits ? limits->stepsPerBlock : 0; }
  bool isTooLong(const Block &block) const {
    return limits && block.steps.size() > size_t(limits->stepsPerBlock);
  }
  bool hasTooManyBlocks() const;
  void finish(const Lanes &lanes);

  const Foreign &foreign;
  std::vector<Diagnostic> &diagnostics;
  const Layout layout;
  const Limits *const limits;
  Document document;
  std::map<int32_t, int32_t> segments; ///< by FIFO
  std::vector<BlocksResult> ranks;
};

bool Writer::refuse(int32_t loc, std::string text) {
  diagnostics.push_back({Diagnostic::Kind::Unsupported, {}, loc, std::move(text), {}});
  return false;
}

//===----------------------------------------------------------------------===//
// What has no counterpart
//===----------------------------------------------------------------------===//

bool Writer::checkOperand(int32_t rank, const Instruction &instruction, const Operand &operand) {
  if (operand.kind == Operand::Kind::Peer)
    return refuse(instruction.loc,
                  fmt::format("rank {} accesses memory of rank {}; MSCCL XML only has messages "
                              "(lower it with channels that have slots)",
                              rank, operand.peer));
  if (operand.kind == Operand::Kind::Local)
    return true;
  const model::Channel &channel =
      foreign.program.ranks[size_t(rank)].channels[size_t(operand.channel)];
  if (channel.peer == rank)
    return refuse(instruction.loc, fmt::format("rank {} sends a message to itself; in MSCCL XML a "
                                               "gpu has no connection with itself",
                                               rank));
  return true;
}

bool Writer::checkSignal(int32_t rank, const Instruction &instruction) {
  const model::Channel &channel =
      foreign.program.ranks[size_t(rank)].channels[size_t(instruction.channel)];
  if (channel.peer == rank)
    return true;
  bool sends = instruction.kind == Instruction::Kind::Signal;
  return refuse(instruction.loc,
                fmt::format("rank {} {} rank {}; MSCCL XML has no signals between gpus", rank,
                            sends ? "signals to" : "waits for a signal of", channel.peer));
}

bool Writer::checkInstruction(int32_t rank, const Instruction &instruction) {
  if (instruction.kind != Instruction::Kind::Transfer)
    return checkSignal(rank, instruction);
  for (const std::vector<Operand> *side : {&instruction.from, &instruction.to})
    for (const Operand &operand : *side)
      if (!checkOperand(rank, instruction, operand))
        return false;
  return true;
}

bool Writer::checkProgram() {
  for (size_t rank = 0; rank < foreign.program.ranks.size(); ++rank)
    for (const model::Agent &agent : foreign.program.ranks[rank].agents)
      for (const Instruction &instruction : agent.code)
        if (!checkInstruction(int32_t(rank), instruction))
          return false;
  return checkSize();
}

/// What is larger would not be read again; and chunks are looked at one by one.
bool Writer::checkSize() {
  int64_t scratch = 0, moves = 0, instructions = 0;
  for (const model::RankProgram &rank : foreign.program.ranks)
    for (const model::Agent &agent : rank.agents)
      instructions += int64_t(agent.code.size());
  const int64_t most = interchange::mostChunks(instructions);
  for (const model::Buffer &buffer : foreign.program.buffers) {
    if (buffer.role == model::Role::Scratch)
      scratch += buffer.chunks;
    if (std::max(buffer.chunks, scratch) > chunkLimit)
      return refuse(buffer.loc, fmt::format("buffers of more than {} chunks", chunkLimit));
  }
  for (const model::RankProgram &rank : foreign.program.ranks)
    for (const model::Agent &agent : rank.agents)
      for (const Instruction &instruction : agent.code)
        if (instruction.kind == Instruction::Kind::Transfer && (moves += instruction.count) > most)
          return refuse(instruction.loc, fmt::format("the transfers up to here move {} chunks; at "
                                                     "most {} are written",
                                                     moves, most));
  return true;
}

//===----------------------------------------------------------------------===//
// The algo
//===----------------------------------------------------------------------===//

/// The runtimes' own parsers know no entities, and keep 254 characters.
static std::string plainName(std::string_view name) {
  std::string result(name.substr(0, stringLimit - 1));
  for (char &c : result)
    if (c == '<' || c == '>' || c == '&' || c == '"' || c == '\'' || uint8_t(c) < 0x20)
      c = '_';
  return result;
}

bool Writer::chooseProtocol() {
  int32_t most = 0;
  std::set<int32_t> protocols;
  for (const model::RankProgram &rank : foreign.program.ranks)
    for (const model::Channel &channel : rank.channels) {
      most = std::max(most, channel.slots);
      if (channel.slots > 0)
        protocols.insert(channel.protocol);
    }
  const bool isLL128 = protocols == std::set{int32_t(Protocol::LL128)};
  int32_t needed = most;
  if (most > slotsOf(Protocol::Simple)) {
    model::Network network(foreign.program);
    std::vector<model::Fault> faults;
    network.build(faults, 1);
    if (!faults.empty())
      return refuse(faults.front().loc,
                    fmt::format("the program is wrong: {}", faults.front().message));
    needed = network.leastSlots();
  }
  // A program with as many slots as LL has came from there, or is to be executed so.
  document.protocol = isLL128 ? Protocol::LL128
                      : needed > slotsOf(Protocol::Simple) || most == slotsOf(Protocol::LL) ||
                              protocols == std::set{int32_t(Protocol::LL)}
                          ? Protocol::LL
                          : Protocol::Simple;
  if (needed > slotsOf(document.protocol))
    return refuse(-1, fmt::format("the program needs {} slots; a connection of protocol {} has {}",
                                  needed, name(document.protocol), slotsOf(document.protocol)));
  return true;
}

bool Writer::describe() {
  document.name = plainName(foreign.name);
  document.gpuCount = int32_t(foreign.program.ranks.size());
  document.inPlace = foreign.inPlace;
  document.outOfPlace = foreign.disjoint;
  document.minBytes = 0;
  // 0 is no limit to the executors; the first runtime takes it as it stands.
  document.maxBytes = limits && limits->isExecutor ? 0 : int64_t(1) << 62;
  return writeContract(foreign.contract, limits, document, diagnostics) && chooseProtocol();
}

//===----------------------------------------------------------------------===//
// The gpus
//===----------------------------------------------------------------------===//

bool Writer::fillOnce(const Lanes &lanes, const BlockOptions &blocks, bool &hasUnordered) {
  ranks.clear();
  document.gpus.clear();
  for (int32_t rank = 0; rank < document.gpuCount; ++rank) {
    Gpu gpu;
    gpu.id = rank;
    gpu.chunks = {layout.inChunks(), layout.outChunks(), layout.scratchChunks()};
    std::vector<std::vector<Op>> agents =
        expand(foreign, layout, lanes, rank, gpu.chunks[size_t(Buf::Scratch)]);
    ranks.push_back(
        makeBlocks(agents, layout, lanes, rank, foreign.program.ranks[size_t(rank)], blocks));
    if (ranks.back().stuck)
      return refuse(*ranks.back().stuck,
                    fmt::format("rank {} waits for a signal of its own that is never sent", rank));
    hasUnordered |= ranks.back().hasUnordered;
    gpu.blocks = std::move(ranks.back().blocks);
    document.gpus.push_back(std::move(gpu));
  }
  return true;
}

bool Writer::cut(const Lanes &lanes) {
  // The lanes of a group are cut alike, so that steps can still join them.
  std::vector<bool> groups(lanes.all().size());
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (size_t b = 0; b < document.gpus[rank].blocks.size(); ++b)
      if (isTooLong(document.gpus[rank].blocks[b]))
        for (int32_t lane : ranks[rank].lanes[b])
          groups[size_t(lanes[lane].group)] = true;
  std::set<int32_t> fifos;
  for (size_t lane = 0; lane < lanes.all().size(); ++lane)
    if (groups[size_t(lanes.all()[lane].group)])
      fifos.insert(lanes.fifoOf(int32_t(lane)));
  bool any = false;
  for (int32_t fifo : fifos) {
    int32_t &length = segments.emplace(fifo, lanes.messagesOf(fifo)).first->second;
    any |= length > 1;
    length = std::min((length + 1) / 2, stepsLimit());
  }
  return any;
}

bool Writer::hasTooManyBlocks() const {
  return limits && std::any_of(document.gpus.begin(), document.gpus.end(), [&](const Gpu &gpu) {
           return gpu.blocks.size() > size_t(limits->blocksPerGpu);
         });
}

bool Writer::fill() {
  BlockOptions blocks;
  blocks.stepsPerBlock = stepsLimit();
  while (true) {
    Lanes lanes(foreign.program, limits, segments);
    bool hasUnordered = false;
    if (!fillOnce(lanes, blocks, hasUnordered))
      return false;
    if (hasUnordered && !blocks.keepsOrder) {
      blocks.keepsOrder = true;
      continue;
    }
    bool tooLong = false;
    for (const Gpu &gpu : document.gpus)
      for (const Block &block : gpu.blocks)
        tooLong |= isTooLong(block);
    if (tooLong && (cut(lanes) || blocks.stepsPerBlock > 1)) {
      blocks.stepsPerBlock = std::max(blocks.stepsPerBlock / 2, 1);
      continue;
    }
    if (!blocks.packs && hasTooManyBlocks()) {
      blocks.packs = true;
      continue;
    }
    finish(lanes);
    return true;
  }
}

void Writer::finish(const Lanes &lanes) {
  document.channels = std::max(lanes.numChannels(), 1);
  for (Gpu &gpu : document.gpus) {
    int64_t used = 0;
    for (Block &block : gpu.blocks)
      for (size_t s = 0; s < block.steps.size(); ++s) {
        Step &step = block.steps[s];
        step.number = int32_t(s);
        if (readsSrc(step.type) && step.src == Buf::Scratch)
          used = std::max(used, int64_t(step.srcOffset) + step.count);
        if (writesDst(step.type) && step.dst == Buf::Scratch)
          used = std::max(used, int64_t(step.dstOffset) + step.count);
        // A flag keeps reductions of different length from being made one.
        if (s > 0 && step.type == StepType::Reduce && block.steps[s - 1].count != step.count)
          block.steps[s - 1].hasDep |= block.steps[s - 1].type == StepType::Reduce;
      }
    gpu.chunks[size_t(Buf::Scratch)] = used;
  }
}

bool Writer::checkResult() {
  bool good = true;
  auto locOf = [&](const Violation &violation) {
    if (violation.gpu < 0 || violation.block < 0)
      return -1;
    const Block &block = document.gpus[size_t(violation.gpu)].blocks[size_t(violation.block)];
    size_t step = violation.step < 0 ? 0 : size_t(violation.step);
    return step < block.steps.size() ? block.steps[step].loc : -1;
  };
  if (limits)
    checkLimits(document, *limits, [&](Violation violation) {
      if (!good)
        return;
      std::string where = violation.gpu >= 0 ? fmt::format("gpu {}: ", violation.gpu) : "";
      good = refuse(locOf(violation),
                    fmt::format("not taken by {}: {}{}", limits->name, where, violation.text));
    });
  if (!good)
    return false;
  // Cut messages are more messages: they may need more slots.
  std::optional<Foreign> again = importDocument(document, foreign.contract, nullptr, diagnostics);
  if (!again)
    return false;
  model::Network network(again->program);
  std::vector<model::Fault> faults;
  network.build(faults, 1);
  if (!faults.empty())
    return refuse(faults.front().loc,
                  fmt::format("the program is wrong: {}", faults.front().message));
  std::vector<int32_t> stops = network.run(/*slots=*/0);
  if (!network.isStuck(stops))
    return true;
  model::Fault fault = network.deadlock(stops, /*slots=*/0);
  return refuse(fault.loc,
                fmt::format("it would get stuck with the {} messages that a connection "
                            "of protocol {} holds: {}",
                            slotsOf(document.protocol), name(document.protocol), fault.message));
}

std::optional<std::string> Writer::write() {
  if (!checkProgram() || !describe() || !fill() || !checkResult())
    return std::nullopt;
  return writeDocument(document);
}

} // namespace

std::optional<std::string> writeXml(const Foreign &foreign, const WriteOptions &options,
                                    std::vector<Diagnostic> &diagnostics) {
  const std::optional<Foreign> changed = withoutSelfMessages(foreign);
  return Writer(changed ? *changed : foreign, options, diagnostics).write();
}

} // namespace ccl::msccl
