//===- Explain.cpp - ccl explain: in words --------------------------------------===//
#include "frontend/cli/Commands.h"
#include "frontend/cli/Output.h"
#include "frontend/cli/ProgramText.h"
#include "frontend/cli/Proof.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include <map>

namespace ccl::cli {

namespace {

using model::Move;
using model::MoveKind;

// Longer lists say how many lines they leave out.
constexpr size_t maxMovesShown = 8, maxStepsShown = 40, maxInstructionsShown = 64,
                 maxRanksShown = 16;

struct ExplainFlags {
  InputOptions input;
  LoweringFlags lowering;
  int64_t rank = 0;
};

class Explanation {
public:
  Explanation(const Proof &proof, const Input &input, const Instance &instance, int64_t rank)
      : proof(proof), contract(proof.contract), input(input), instance(instance), rank(rank) {}

  void print() const {
    printHead();
    if (proof.given) {
      printRanks();
    } else {
      printSteps();
      printTraffic();
    }
    if (proof.isLowered)
      printProgram();
    if (input.foreign())
      printElsewhere(*input.foreign());
    printVerdict();
  }

private:
  using Step = std::vector<const Move *>;

  void printHead() const;
  void printSteps() const;
  void printTraffic() const;
  void printRanks() const;
  void printProgram() const;
  void printElsewhere(const interchange::Foreign &foreign) const;
  void printVerdict() const;

  std::vector<Step> steps() const;
  bool printPattern(const Step &step) const;
  std::string describe(const Move &move) const;
  std::string reductionVerb() const {
    return contract.reduction == model::Reduction::None
               ? "combined"
               : std::string(model::name(contract.reduction));
  }

  const Proof &proof;
  const model::Contract &contract;
  const Input &input;
  const Instance &instance;
  int64_t rank;
};

std::string chunkRange(const std::string &buffer, int64_t chunk, int64_t count) {
  return count == 1 ? fmt::format("{}[{}]", buffer, chunk)
                    : fmt::format("{}[{} to {}]", buffer, chunk, chunk + count);
}

/// "r", "r + 1", "r - 1": the smaller way around.
std::string shifted(int64_t by, int64_t modulus) {
  int64_t distance = ((by % modulus) + modulus) % modulus;
  if (distance == 0)
    return "r";
  if (distance > modulus / 2)
    return fmt::format("r - {}", modulus - distance);
  return fmt::format("r + {}", distance);
}

} // namespace

//===----------------------------------------------------------------------===//
// The algorithm
//===----------------------------------------------------------------------===//

void Explanation::printHead() const {
  printOut("@{} ({}): {} on {}", instance.algorithm, input.label(), contract.str(),
           plural(contract.ranks, "rank"));
  if (!instance.lowering.sizes.empty()) {
    std::vector<std::string> bound;
    for (auto &[name, value] : instance.lowering.sizes)
      bound.push_back(fmt::format("%{} = {}", name, value));
    printOut(", {}", fmt::join(bound, ", "));
  }
  printOut("\n\nEvery rank has {} of input and {} of output; a shard is cut into {}.\n",
           plural(contract.inShards(), "shard"), plural(contract.outShards(), "shard"),
           plural(contract.chunks, "chunk"));
  for (const model::Buffer &buffer : proof.buffers())
    printOut("  {:<8} {:<8} {}\n", buffer.name, model::name(buffer.role),
             plural(buffer.chunks, "chunk"));
}

std::vector<Explanation::Step> Explanation::steps() const {
  std::vector<Step> steps;
  for (const Move &move : proof.moves.moves) {
    if (steps.empty() || steps.back().front()->step != move.step)
      steps.emplace_back();
    steps.back().push_back(&move);
  }
  return steps;
}

std::string Explanation::describe(const Move &move) const {
  const auto &buffers = proof.moves.buffers;
  std::string src = chunkRange(buffers[move.src.buffer].name, move.src.chunk, move.count);
  std::string dst = chunkRange(buffers[move.dst.buffer].name, move.dst.chunk, move.count);
  bool reduces = move.kind == MoveKind::Reduce;
  if (move.src.rank == move.dst.rank)
    return fmt::format("rank {} {} its {} {} its {}", move.src.rank,
                       reduces ? "combines" : "copies", src, reduces ? "into" : "to", dst);
  return fmt::format(
      "rank {} sends {}; rank {} {} {}", move.src.rank, src, move.dst.rank,
      reduces ? fmt::format("takes the {} with its", reductionVerb()) : "puts it into", dst);
}

/// If every rank does the same relative to its own number: one line for all of them.
/// Chunks may follow the rank (chunk - rank is the same) or stand still.
bool Explanation::printPattern(const Step &step) const {
  int64_t n = contract.ranks;
  if (n < 3 || int64_t(step.size()) != n)
    return false;
  const Move &first = *step.front();
  const auto &buffers = proof.moves.buffers;
  int64_t srcChunks = buffers[first.src.buffer].chunks,
          dstChunks = buffers[first.dst.buffer].chunks;
  auto mod = [](int64_t a, int64_t m) { return ((a % m) + m) % m; };
  int64_t distance = mod(first.dst.rank - first.src.rank, n);
  bool srcFollows = true, dstFollows = true, srcStands = true, dstStands = true;
  for (const Move *move : step) {
    if (move->kind != first.kind || move->count != first.count ||
        move->src.buffer != first.src.buffer || move->dst.buffer != first.dst.buffer ||
        mod(move->dst.rank - move->src.rank, n) != distance)
      return false;
    auto same = [&](int64_t chunk, int64_t firstChunk, int64_t chunks) {
      return mod(chunk - move->src.rank - firstChunk + first.src.rank, chunks) == 0;
    };
    srcFollows &= same(move->src.chunk, first.src.chunk, srcChunks);
    dstFollows &= same(move->dst.chunk, first.dst.chunk, dstChunks);
    srcStands &= move->src.chunk == first.src.chunk;
    dstStands &= move->dst.chunk == first.dst.chunk;
  }
  if ((!srcFollows && !srcStands) || (!dstFollows && !dstStands))
    return false;
  auto index = [&](bool stands, int64_t chunk, int64_t chunks) {
    return stands ? fmt::format("{}", chunk) : shifted(chunk - first.src.rank, chunks);
  };
  std::string src = fmt::format("{}[{}]", buffers[first.src.buffer].name,
                                index(srcStands, first.src.chunk, srcChunks));
  std::string dst = fmt::format("{}[{}]", buffers[first.dst.buffer].name,
                                index(dstStands, first.dst.chunk, dstChunks));
  std::string many = first.count > 1 ? fmt::format(" ({} chunks)", first.count) : "";
  printOut("every rank r sends {}{}; rank {} {} {}   (ranks mod {}{})\n", src, many,
           shifted(distance, n),
           first.kind == MoveKind::Reduce ? fmt::format("takes the {} with its", reductionVerb())
                                          : "puts it into",
           dst, n, srcChunks == n && dstChunks == n ? ", chunks too" : "");
  return true;
}

void Explanation::printSteps() const {
  std::vector<Step> all = steps();
  printOut("\nIt takes {}.\n", plural(all.size(), "step"));
  size_t shown = 0;
  for (const Step &step : all) {
    if (shown == maxStepsShown) {
      printOut("  ... and {} steps more\n", all.size() - shown);
      break;
    }
    printOut("  step {:<3} ", ++shown);
    if (printPattern(step))
      continue;
    // Of many ranks the moves that concern one tell the story.
    Step listed;
    for (const Move *move : step)
      if (step.size() <= maxMovesShown || move->src.rank == rank || move->dst.rank == rank)
        listed.push_back(move);
    const char *indent = "";
    for (size_t i = 0; i < std::min(listed.size(), maxMovesShown); ++i) {
      printOut("{}{}\n", indent, describe(*listed[i]));
      indent = "           ";
    }
    size_t hidden = step.size() - std::min(listed.size(), maxMovesShown);
    if (hidden > 0)
      printOut("{}{}{} of other ranks\n", indent, listed.empty() ? "" : "and ",
               plural(hidden, "move"));
  }
}

/// Chunks are counted, and shown as parts of a shard: that holds for every size.
void Explanation::printTraffic() const {
  std::vector<int64_t> sent(contract.ranks), received(contract.ranks);
  int64_t total = 0;
  for (const Move &move : proof.moves.moves) {
    bool valid = move.src.rank >= 0 && move.dst.rank >= 0 && move.src.rank < contract.ranks &&
                 move.dst.rank < contract.ranks;
    if (!valid || move.src.rank == move.dst.rank)
      continue;
    sent[move.src.rank] += move.count;
    received[move.dst.rank] += move.count;
    total += move.count;
  }
  auto shards = [&](int64_t chunks) {
    return fmt::format("{:.4g} shard{}", double(chunks) / double(contract.chunks),
                       chunks == contract.chunks ? "" : "s");
  };
  auto [leastSent, mostSent] = std::minmax_element(sent.begin(), sent.end());
  auto [leastReceived, mostReceived] = std::minmax_element(received.begin(), received.end());
  printOut("\nOn the wire (a shard is count x element size bytes):\n");
  auto line = [&](const char *what, int64_t least, int64_t most) {
    if (least == most)
      printOut("  every rank {} {} in {}\n", what, shards(most), plural(most, "chunk"));
    else
      printOut("  a rank {} {} to {}\n", what, shards(least), shards(most));
  };
  line("sends", *leastSent, *mostSent);
  line("receives", *leastReceived, *mostReceived);
  printOut("  all ranks together move {}\n", shards(total));
}

//===----------------------------------------------------------------------===//
// The programs
//===----------------------------------------------------------------------===//

/// Of programs that nobody has seen from above: who does how much with whom.
void Explanation::printRanks() const {
  printOut("\nThere are no moves: the programs are all there is.\n");
  for (size_t r = 0; r < proof.program.ranks.size(); ++r) {
    if (r == maxRanksShown) {
      printOut("  ... and {} more\n", plural(proof.program.ranks.size() - r, "rank"));
      return;
    }
    printOut("  rank {:<3} {}\n", r, ProgramText(proof.program, contract, int64_t(r)).summary());
  }
}

void Explanation::printProgram() const {
  const ProgramText program(proof.program, contract, rank);
  std::string note =
      program.fused()
          ? fmt::format(", {} of them fused (more than one move at once)", program.fused())
          : "";
  std::string transfers = plural(program.transfers(), "transfer") + note;
  size_t halves = 0;
  for (const Move &move : proof.moves.moves)
    halves += (move.src.rank == rank) + (move.dst.rank == rank && move.src.rank != move.dst.rank);
  const std::string moves =
      proof.given ? "" : fmt::format("takes part in {} and ", plural(halves, "move"));
  const bool lists = proof.given ? !program.rank().agents.empty() : program.instructions() > 0;
  printOut("\nRank {} {}executes {}{}\n", rank, moves, transfers, lists ? ":" : ".");
  size_t shown = 0;
  for (const model::Agent &agent : program.rank().agents) {
    std::string channels = proof.given ? program.channels(agent) : "";
    if (proof.given || program.rank().agents.size() > 1)
      printOut("  {}{}:\n", ProgramText::name(agent), channels.empty() ? "" : ", " + channels);
    // Numbered as in messages about them.
    size_t number = proof.given ? 0 : shown + 1;
    for (const model::Instruction &instruction : agent.code) {
      if (shown == maxInstructionsShown) {
        printOut("  ... and {} more\n", program.instructions() - shown);
        return;
      }
      printOut("  {:3}. {}\n", number++, program.describe(instruction));
      ++shown;
    }
  }
}

/// What the systems that the file is for would make of it.
void Explanation::printElsewhere(const interchange::Foreign &foreign) const {
  std::vector<std::pair<int32_t, std::string>> lines; ///< number and text
  for (const model::Note &note : barriersElsewhere(&foreign, proof))
    lines.emplace_back(note.loc < 0 ? 0 : foreign.places[size_t(note.loc)].line, note.message);
  for (const interchange::Diagnostic &warning : foreign.warnings)
    lines.emplace_back(warning.place.line, warning.text);
  if (!lines.empty())
    printOut("\nElsewhere:\n");
  size_t shown = 0;
  for (const auto &[line, text] : lines) {
    if (++shown > maxMovesShown) {
      printOut("  ... and {} more\n", lines.size() - maxMovesShown);
      return;
    }
    printOut("  {}{}\n", line > 0 ? fmt::format("line {}: ", line) : "", text);
  }
}

void Explanation::printVerdict() const {
  printOut("\n");
  if (!proof.ok()) {
    printOut("Disproved, so nothing would run:\n");
    for (const model::Fault &fault : proof.faults())
      printOut("  {}\n", fault.message);
    return;
  }
  printOut("Proved: {}", proof.forms());
  if (proof.minSlots > 0 && proof.given)
    printOut("; the least number of slots that would do is {}", proof.minSlots);
  else if (proof.minSlots > 0)
    printOut("; channels have {}, {} would do", plural(instance.lowering.slots, "slot"),
             proof.minSlots);
  printOut(".\n");
  const std::vector<model::Fault> &obstacles =
      proof.report.inPlaceFaults.empty() ? proof.faults() : proof.report.inPlaceFaults;
  if (!proof.inPlace && !obstacles.empty())
    printOut("Not in place: {}. Launches in place go through a copy.\n", obstacles.front().message);
  if (contract.isUnchecked())
    printOut("Nothing is promised about the result, so only safety is proved.\n");
  if (proof.report.divisible)
    printOut("Chunks of different lengths share places: counts that {} does not divide are "
             "padded.\n",
             contract.chunks);
  if (model::hasUnevenForm(contract.collective))
    printOut("Shards may differ in length: {}.\n",
             proof.unevenSafe ? "no chunk leaves the places of its own"
                              : "chunks share places of other shards, so these are padded then");
  printOut("`ccl run` would run @{}: {}.\n", instance.algorithm, input.reason());
}

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

static int explain(Session &session, const ExplainFlags &flags) {
  Input input;
  if (int status = input.open(session, flags.input, flags.lowering))
    return status;
  int result = Fine;
  for (size_t i = 0; i < input.size(); ++i) {
    Instance instance;
    if (int status = input.instantiate(i, instance))
      return status;
    Proof proof;
    if (int status = prove(session, instance, proof))
      return status;
    if (flags.rank >= proof.contract.ranks)
      return session.usage(
          fmt::format("--rank {}: ranks are 0 to {}", flags.rank, proof.contract.ranks - 1));
    if (i > 0)
      printOut("\n");
    Explanation(proof, input, instance, flags.rank).print();
    if (!proof.ok())
      result = BadInput;
  }
  return result;
}

Action addExplain(CLI::App &app) {
  auto flags = std::make_shared<ExplainFlags>();
  flags->input.warnings = InputOptions::Warnings::Leave; // part of what is explained
  addInputOptions(app, flags->input);
  addLoweringOptions(app, flags->lowering);
  app.add_option("--rank", flags->rank, "whose program is shown (default 0)")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 40));
  return [flags](Session &session) { return explain(session, *flags); };
}

} // namespace ccl::cli
