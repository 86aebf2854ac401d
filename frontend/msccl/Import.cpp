#include "frontend/msccl/Import.h"

#include <fmt/format.h>

#include <limits>
#include <map>
#include <unordered_map>

namespace ccl::msccl {
namespace {

using interchange::Diagnostic;
using interchange::Foreign;
using model::Channel;
using model::Instruction;
using model::Operand;
using model::RankProgram;
using model::Role;

class Importer {
public:
  Importer(const Document &document, model::Contract contract, const Xml *xml,
           std::vector<Diagnostic> &diagnostics)
      : document(document), contract(std::move(contract)), xml(xml), diagnostics(diagnostics) {}

  std::optional<Foreign> import();

private:
  /// What the dependences of one rank come to: by block and step.
  struct Synchronization {
    std::map<std::pair<size_t, size_t>, std::vector<int32_t>> signals, waits; ///< channels
  };
  bool isInPlaceOnly() const {
    // A custom collective's pointers are nowhere compared, so that the first dialect, which has
    // no outofplace, says nothing about them.
    if (document.coll == "custom" && !document.outOfPlace)
      return false;
    return document.inPlace && !document.outOfPlace.value_or(false);
  }
  void addBuffers();
  void addGpu(const Gpu &gpu, RankProgram &program);
  Synchronization synchronize(const Gpu &gpu, RankProgram &program);
  int32_t dataChannel(RankProgram &program, bool to, int32_t peer, int32_t tag);
  void addBlock(const Gpu &gpu, size_t block, const Synchronization &sync, RankProgram &program);
  Instruction transfer(const Gpu &gpu, const Block &block, const Step &step, RankProgram &program);
  Operand place(const Gpu &gpu, const Step &step, bool isSource);
  int32_t locOf(const Step &step);
  void error(const Step &step, const char *attribute, std::string text);
  void refuse(pugi::xml_node node, std::string text);

  const Document &document;
  const model::Contract contract;
  const Xml *const xml;
  std::vector<Diagnostic> &diagnostics;
  Foreign foreign;
  std::array<int32_t, 3> buffers = {-1, -1, -1};                      ///< by Buf
  std::map<std::tuple<bool, int32_t, int32_t>, int32_t> dataChannels; ///< of the current rank
  int64_t moves = 0;
  bool failed = false;
};

std::optional<Foreign> Importer::import() {
  foreign.name = document.name;
  foreign.contract = contract;
  if (xml)
    foreign.places.push_back(xml->place(document.node));
  addBuffers();
  int64_t chunks = 0, steps = 0;
  for (const model::Buffer &buffer : foreign.program.buffers)
    chunks += buffer.chunks;
  for (const Gpu &gpu : document.gpus)
    for (const Block &block : gpu.blocks)
      steps += int64_t(block.steps.size());
  const int64_t most = interchange::mostChunks(steps);
  if (chunks > most / int64_t(std::max<size_t>(document.gpus.size(), 1))) {
    refuse(document.node, fmt::format("{} ranks with {} chunks each: at most {} in all are read of "
                                      "a file with {} steps",
                                      document.gpus.size(), chunks, most, steps));
    return std::nullopt;
  }
  foreign.program.ranks.resize(document.gpus.size());
  for (const Gpu &gpu : document.gpus) {
    addGpu(gpu, foreign.program.ranks[size_t(gpu.id)]);
    if (moves > most && !failed)
      refuse(gpu.node, fmt::format("the steps so far move {} chunks; at most {} are read of a file "
                                   "with {} steps",
                                   moves, most, steps));
    if (failed)
      return std::nullopt;
  }
  return std::move(foreign);
}

void Importer::addBuffers() {
  std::vector<model::Buffer> &all = foreign.program.buffers;
  auto add = [&](std::string name, Role role, int64_t chunks) {
    if (chunks < 1)
      return -1;
    all.push_back({std::move(name), role, chunks, xml ? 0 : -1});
    return int32_t(all.size() - 1);
  };
  bool whole = isInPlaceOnly();
  if (whole) {
    buffers[0] = buffers[1] = add("x", Role::InOut, contract.inOutChunks());
    foreign.disjoint = false, foreign.inPlace = true;
  } else {
    buffers[0] = add("in", Role::In, contract.inChunks());
    buffers[1] = add("out", Role::Out, contract.outChunks());
    // Of a custom collective `inplace` alone says nothing: see isInPlaceOnly.
    foreign.disjoint = true;
    foreign.inPlace = document.inPlace && document.outOfPlace.value_or(false);
  }
  int64_t scratch = all.empty() ? 1 : 0; // a program has a buffer
  for (const Gpu &gpu : document.gpus)
    scratch = std::max(scratch, gpu.chunks[size_t(Buf::Scratch)]);
  buffers[2] = add("scratch", Role::Scratch, scratch);
}

void Importer::error(const Step &step, const char *attribute, std::string text) {
  failed = true;
  if (diagnostics.size() < errorLimit)
    diagnostics.push_back({Diagnostic::Kind::Malformed,
                           xml ? xml->place(step.node, attribute) : interchange::TextPlace(),
                           xml ? -1 : step.loc,
                           std::move(text),
                           {}});
}

void Importer::refuse(pugi::xml_node node, std::string text) {
  failed = true;
  diagnostics.push_back({Diagnostic::Kind::Unsupported,
                         xml ? xml->place(node) : interchange::TextPlace(),
                         -1,
                         std::move(text),
                         {}});
}

int32_t Importer::locOf(const Step &step) {
  if (!xml)
    return step.loc;
  foreign.places.push_back(xml->place(step.node));
  return int32_t(foreign.places.size() - 1);
}

int32_t Importer::dataChannel(RankProgram &program, bool to, int32_t peer, int32_t tag) {
  auto [it, fresh] = dataChannels.emplace(std::tuple(to, peer, tag), program.channels.size());
  if (fresh)
    program.channels.push_back({to, peer, tag, slotsOf(document.protocol), /*loc=*/-1,
                                /*protocol=*/int32_t(document.protocol)});
  return it->second;
}

Operand Importer::place(const Gpu &gpu, const Step &step, bool isSource) {
  Buf buf = isSource ? step.src : step.dst;
  int64_t chunk = isSource ? step.srcOffset : step.dstOffset;
  Operand operand;
  operand.buffer = buffers[size_t(buf)];
  operand.chunk = chunk;
  if (buf == Buf::Scratch)
    return operand;
  int64_t chunks = buf == Buf::In ? contract.inChunks() : contract.outChunks();
  if (chunk + step.count > chunks)
    error(step, isSource ? "srcoff" : "dstoff",
          fmt::format("chunk {} of `{}` does not exist: the {} of {} on {} ranks has {} of "
                      "nchunksperloop=\"{}\"",
                      std::max(chunk, chunks), letter(buf), buf == Buf::In ? "input" : "output",
                      document.coll, document.gpuCount, chunks, document.chunksPerLoop));
  if (foreign.program.buffers.front().role == Role::InOut)
    operand.chunk =
        buf == Buf::In ? contract.inPosition(gpu.id, chunk) : contract.outPosition(gpu.id, chunk);
  return operand;
}

Instruction Importer::transfer(const Gpu &gpu, const Block &block, const Step &step,
                               RankProgram &program) {
  Instruction result;
  result.reduce = combines(step.type);
  result.count = step.count;
  auto channel = [&](bool to) {
    Operand operand;
    operand.kind = Operand::Kind::Channel;
    operand.channel = dataChannel(program, to, to ? block.send : block.recv, block.channel);
    return operand;
  };
  if (receives(step.type))
    result.from.push_back(channel(/*to=*/false));
  if (step.type == StepType::Reduce)
    result.from.push_back(place(gpu, step, /*isSource=*/false));
  if (readsSrc(step.type))
    result.from.push_back(place(gpu, step, /*isSource=*/true));
  if (writesDst(step.type))
    result.to.push_back(place(gpu, step, /*isSource=*/false));
  if (sends(step.type))
    result.to.push_back(channel(/*to=*/true));
  moves += step.count;
  return result;
}

Importer::Synchronization Importer::synchronize(const Gpu &gpu, RankProgram &program) {
  std::unordered_map<int32_t, size_t> byId;
  // Of each step the first one from there on that stores a flag; behind the last one: none.
  std::vector<std::vector<size_t>> flags;
  for (size_t b = 0; b < gpu.blocks.size(); ++b) {
    const std::vector<Step> &steps = gpu.blocks[b].steps;
    byId.emplace(gpu.blocks[b].id, b);
    std::vector<size_t> next(steps.size());
    size_t found = steps.size();
    for (size_t s = steps.size(); s-- > 0;) {
      if (steps[s].hasDep && steps[s].type != StepType::Nop)
        found = s;
      next[s] = found;
    }
    flags.push_back(std::move(next));
  }
  struct Pair {
    int32_t to = -1, from = -1; ///< channels
    size_t known = 0;           ///< steps of the awaited block that are known to be done
    bool hopeless = false;      ///< the waiter waits for what never comes
  };
  std::map<std::pair<size_t, size_t>, Pair> pairs; ///< (awaited, waiting)
  Synchronization result;
  for (size_t b = 0; b < gpu.blocks.size(); ++b)
    for (size_t s = 0; s < gpu.blocks[b].steps.size(); ++s) {
      const Step &step = gpu.blocks[b].steps[s];
      if (step.depBlock < 0)
        continue;
      size_t awaited = byId.at(step.depBlock), flag = flags[awaited][size_t(step.depStep)];
      if (awaited == b && flag < s)
        continue;
      Pair &pair = pairs[{awaited, b}];
      if (flag < pair.known || pair.hopeless)
        continue;
      if (pair.from < 0) {
        pair.to = int32_t(program.channels.size());
        pair.from = pair.to + 1;
        int32_t tag = int32_t(pairs.size() - 1);
        program.channels.push_back({/*to=*/true, gpu.id, tag, 0});
        program.channels.push_back({/*to=*/false, gpu.id, tag, 0});
      }
      pair.known = flag + 1;
      pair.hopeless = flag == gpu.blocks[awaited].steps.size();
      result.waits[{b, s}].push_back(pair.from);
      if (!pair.hopeless)
        result.signals[{awaited, flag}].push_back(pair.to);
    }
  return result;
}

void Importer::addBlock(const Gpu &gpu, size_t index, const Synchronization &sync,
                        RankProgram &program) {
  const Block &block = gpu.blocks[index];
  model::Agent agent;
  agent.id = block.id;
  int32_t loc = -1;
  auto addAll = [&](const auto &channels, size_t step, Instruction::Kind kind) {
    auto it = channels.find({index, step});
    if (it == channels.end())
      return;
    for (int32_t channel : it->second) {
      Instruction &instruction = agent.code.emplace_back();
      instruction.kind = kind, instruction.channel = channel, instruction.loc = loc;
    }
  };
  for (size_t s = 0; s < block.steps.size(); ++s) {
    const Step &step = block.steps[s];
    loc = locOf(step);
    addAll(sync.waits, s, Instruction::Kind::Wait);
    if (step.type != StepType::Nop) {
      agent.code.push_back(transfer(gpu, block, step, program));
      agent.code.back().loc = loc;
    }
    addAll(sync.signals, s, Instruction::Kind::Signal);
  }
  if (!agent.code.empty())
    program.agents.push_back(std::move(agent));
}

void Importer::addGpu(const Gpu &gpu, RankProgram &program) {
  dataChannels.clear();
  Synchronization sync = synchronize(gpu, program);
  for (size_t b = 0; b < gpu.blocks.size() && !failed; ++b)
    addBlock(gpu, b, sync, program);
}

} // namespace

std::optional<Foreign> importDocument(const Document &document, model::Contract contract,
                                      const Xml *xml, std::vector<Diagnostic> &diagnostics) {
  return Importer(document, std::move(contract), xml, diagnostics).import();
}

} // namespace ccl::msccl
