#include "frontend/msccl/Meaning.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace ccl::msccl {

using interchange::Diagnostic;
using model::Collective;
using model::Contract;
using model::Reduction;

namespace {

struct Word {
  std::string_view word;
  Collective collective;
};
constexpr std::array<Word, 11> words = {{{"allreduce", Collective::AllReduce},
                                         {"allgather", Collective::AllGather},
                                         {"reduce_scatter", Collective::ReduceScatter},
                                         {"reducescatter", Collective::ReduceScatter},
                                         {"reduce", Collective::Reduce},
                                         {"broadcast", Collective::Broadcast},
                                         {"gather", Collective::Gather},
                                         {"scatter", Collective::Scatter},
                                         {"alltoall", Collective::AllToAll},
                                         {"alltoallv", Collective::AllToAllV},
                                         {"custom", Collective::Custom}}};

/// Splits "a,b,c"; an empty text has no parts.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    text = at == text.npos ? std::string_view() : text.substr(at + 1);
  }
  return parts;
}

bool parse(std::string_view text, int64_t &value) {
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size();
}

/// The rank that data comes from (broadcast, scatter) or goes to (reduce, gather), if the
/// steps tell: among the ranks that send (receive) something, the only one that never
/// receives (sends), or else the only one that reads `i` (writes `o`).
std::optional<int32_t> inferRoot(const Document &document, bool isSource) {
  if (document.gpuCount == 1)
    return 0;
  std::vector<int32_t> ends, users;
  for (const Gpu &gpu : document.gpus) {
    bool gives = false, takes = false, uses = false;
    for (const Block &block : gpu.blocks)
      for (const Step &step : block.steps) {
        gives |= sends(step.type);
        takes |= receives(step.type);
        uses |= isSource ? readsSrc(step.type) && step.src == Buf::In
                         : writesDst(step.type) && step.dst == Buf::Out;
      }
    if (isSource ? gives && !takes : takes && !gives)
      ends.push_back(gpu.id);
    if (uses)
      users.push_back(gpu.id);
  }
  if (ends.size() == 1)
    return ends.front();
  if (users.size() == 1)
    return users.front();
  return std::nullopt;
}

class ContractReader {
public:
  ContractReader(const Document &document, const Xml &xml, std::vector<Diagnostic> &diagnostics)
      : document(document), xml(xml), diagnostics(diagnostics) {}

  std::optional<Contract> read();

private:
  bool fail(const char *attribute, std::string text,
            Diagnostic::Kind kind = Diagnostic::Kind::Malformed) {
    diagnostics.push_back({kind, xml.place(document.node, attribute), -1, std::move(text), {}});
    return false;
  }
  bool readCollective();
  bool readReduction();
  bool readChunks();
  bool readRoot();
  bool readTargets();
  bool readRows();

  const Document &document;
  const Xml &xml;
  std::vector<Diagnostic> &diagnostics;
  Contract contract;
};

std::optional<Contract> ContractReader::read() {
  contract.ranks = document.gpuCount;
  if (readCollective() && readReduction() && readChunks() && readRoot() && readTargets() &&
      readRows())
    return std::move(contract);
  return std::nullopt;
}

bool ContractReader::readCollective() {
  if (document.coll == "send" || document.coll == "recv")
    return fail("coll", fmt::format("coll=\"{}\" is no collective", document.coll),
                Diagnostic::Kind::Unsupported);
  auto known = std::find_if(words.begin(), words.end(),
                            [&](const Word &word) { return word.word == document.coll; });
  if (known == words.end())
    return fail("coll", fmt::format("coll=\"{}\" is unknown; there are allreduce, allgather, "
                                    "reduce_scatter, reduce, broadcast, gather, scatter, alltoall, "
                                    "alltoallv, custom",
                                    document.coll.substr(0, 40)));
  contract.collective = known->collective;
  if (!document.cclColl)
    return true;
  std::optional<Collective> stated = model::parseCollective(*document.cclColl);
  if (!stated)
    return fail("ccl_coll",
                fmt::format("ccl_coll=\"{}\" is unknown", document.cclColl->substr(0, 40)));
  if (contract.collective != Collective::Custom && contract.collective != *stated)
    return fail("ccl_coll", fmt::format("ccl_coll=\"{}\" contradicts coll=\"{}\"",
                                        *document.cclColl, document.coll));
  contract.collective = *stated;
  return true;
}

bool ContractReader::readReduction() {
  bool combined = model::reduces(contract.collective);
  if (contract.collective == Collective::Custom)
    for (const Gpu &gpu : document.gpus)
      for (const Block &block : gpu.blocks)
        for (const Step &step : block.steps)
          combined |= combines(step.type);
  contract.reduction = combined ? Reduction::Sum : Reduction::None;
  if (!document.redop || *document.redop == "nop")
    return true;
  std::optional<Reduction> stated = model::parseReduction(*document.redop);
  if (!stated)
    return fail("redop", fmt::format("redop=\"{}\" is unknown; there are sum, prod, min, max",
                                     document.redop->substr(0, 40)));
  if (combined || contract.collective == Collective::Custom)
    contract.reduction = *stated;
  if (model::reduces(contract.collective) && *stated == Reduction::None)
    return fail("redop", fmt::format("redop=\"none\", but {} combines", document.coll));
  return true;
}

bool ContractReader::readChunks() {
  if (contract.collective == Collective::Custom) {
    int64_t in = 1, out = 1;
    for (const Gpu &gpu : document.gpus) {
      in = std::max(in, gpu.chunks[size_t(Buf::In)]);
      out = std::max(out, gpu.chunks[size_t(Buf::Out)]);
    }
    contract.customInChunks = in, contract.customOutChunks = out;
    return true;
  }
  int64_t shards = std::max<int64_t>({contract.inShards(), contract.outShards(), 1}); // barrier: 0
  if (document.chunksPerLoop % shards != 0)
    return fail("nchunksperloop",
                fmt::format("nchunksperloop=\"{}\" is no multiple of ngpus=\"{}\": {} has one part "
                            "for each rank",
                            document.chunksPerLoop, document.gpuCount, document.coll));
  contract.chunks = document.chunksPerLoop / shards;
  return true;
}

bool ContractReader::readRoot() {
  if (!model::hasRoot(contract.collective))
    return document.root ? fail("root", fmt::format("{} has no root", document.coll)) : true;
  bool isSource =
      contract.collective == Collective::Broadcast || contract.collective == Collective::Scatter;
  std::optional<int32_t> root = document.root ? document.root : inferRoot(document, isSource);
  if (!root)
    return fail("coll",
                fmt::format("the root of this {} does not follow from its steps; say root=\"r\"",
                            document.coll),
                Diagnostic::Kind::Unsupported);
  contract.root = *root;
  return true;
}

bool ContractReader::readTargets() {
  bool permutes = contract.collective == Collective::Permute;
  if (permutes != document.targets.has_value())
    return fail("ccl_to", permutes ? "a permute needs ccl_to" : "ccl_to is for permute only");
  if (!permutes)
    return true;
  for (std::string_view part : split(*document.targets, ' ')) {
    int64_t rank = -1;
    if (!parse(part, rank) || rank < 0 || rank >= contract.ranks)
      return fail("ccl_to", fmt::format("ccl_to: `{}` is no rank in [0, {})", part.substr(0, 40),
                                        contract.ranks));
    contract.targets.push_back(rank);
  }
  if (int64_t(contract.targets.size()) != contract.ranks)
    return fail("ccl_to", fmt::format("ccl_to names {} ranks of {}", contract.targets.size(),
                                      contract.ranks));
  return true;
}

bool ContractReader::readRows() {
  if (!document.rows)
    return true;
  if (contract.collective != Collective::Custom)
    return fail("ccl_rows", "ccl_rows is for custom only");
  std::array<int64_t, 4> limits = {contract.ranks, contract.customOutChunks, contract.ranks,
                                   contract.customInChunks};
  for (std::string_view row : split(*document.rows, ',')) {
    std::vector<std::string_view> parts = split(row, ' ');
    std::array<int64_t, 4> values = {-1, -1, -1, -1};
    bool good = parts.size() == 4;
    for (size_t i = 0; good && i < 4; ++i)
      good = parse(parts[i], values[i]) && values[i] >= 0 && values[i] < limits[i];
    if (!good)
      return fail("ccl_rows", fmt::format("ccl_rows: `{}` is not four numbers below {}",
                                          row.substr(0, 40), fmt::join(limits, ", ")));
    contract.rows.push_back({values[0], values[1], values[2], values[3]});
  }
  return true;
}

} // namespace

std::optional<Contract> readContract(const Document &document, const Xml &xml,
                                     std::vector<Diagnostic> &diagnostics) {
  return ContractReader(document, xml, diagnostics).read();
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static std::string rowsText(const Contract &contract) {
  std::string text;
  for (const Contract::Row &row : contract.rows)
    text += fmt::format("{}{} {} {} {}", text.empty() ? "" : ",", row.outRank, row.outChunk,
                        row.inRank, row.inChunk);
  return text;
}

/// The word for a collective, "custom" if there is none.
static std::string_view wordFor(Collective collective, const Limits *limits) {
  if (collective == Collective::ReduceScatter && limits)
    return limits->reduceScatter;
  for (const Word &word : words)
    if (word.collective == collective &&
        (!limits || limits->collectives.find(fmt::format(" {} ", word.word)) != std::string::npos))
      return word.word;
  return "custom";
}

bool writeContract(const Contract &contract, const Limits *limits, Document &document,
                   std::vector<Diagnostic> &diagnostics) {
  auto say = [&](Diagnostic::Kind kind, std::string text) {
    diagnostics.push_back({kind, {}, -1, std::move(text), {}});
  };
  document.coll = wordFor(contract.collective, limits);
  if (limits && limits->collectives.find(fmt::format(" {} ", document.coll)) == std::string::npos) {
    say(Diagnostic::Kind::Unsupported,
        fmt::format("{} has no word for {}", limits->name, model::name(contract.collective)));
    return false;
  }
  if (document.coll == "custom" && contract.collective != Collective::Custom)
    document.cclColl = model::name(contract.collective);
  document.chunksPerLoop = std::max<int64_t>(contract.inOutChunks(), 1);
  if (model::hasRoot(contract.collective))
    document.root = int32_t(contract.root);
  // Whether a custom one combines would only be seen from its steps.
  if (contract.collective == Collective::Custom ||
      (contract.reduction != Reduction::None && contract.reduction != Reduction::Sum))
    document.redop = model::name(contract.reduction);
  if (limits && contract.reduction >= Reduction::Avg)
    say(Diagnostic::Kind::Warning,
        fmt::format("{} runs its own algorithm instead of a file for {}; it uses files for sum, "
                    "prod, min and max",
                    limits->name, model::name(contract.reduction)));
  if (contract.collective == Collective::Permute)
    document.targets = fmt::format("{}", fmt::join(contract.targets, " "));
  if (contract.rows.empty())
    return true;
  std::string rows = rowsText(contract);
  if (limits && rows.size() >= stringLimit)
    say(Diagnostic::Kind::Warning,
        fmt::format("the rows of the contract take {} characters, more than {} keeps of an "
                    "attribute ({}); without them the file promises nothing",
                    rows.size(), limits->name, stringLimit - 1));
  else
    document.rows = std::move(rows);
  return true;
}

} // namespace ccl::msccl
