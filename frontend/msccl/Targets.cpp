#include "frontend/msccl/Targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace ccl::msccl {

static constexpr std::string_view executorCollectives =
    " allreduce allgather reducescatter reduce broadcast gather scatter alltoall alltoallv send "
    "recv ";

const std::array<Limits, 3> &allLimits() {
  static const std::array<Limits, 3> table = {{
      {Target::Msccl, "MSCCL", 256, 216, 32, 32, 72, 0, 0, false, true, false, "reduce_scatter",
       " allreduce allgather reduce_scatter reduce broadcast alltoall custom "},
      {Target::Rccl, "RCCL", 64, 64, 32, 32, 72, 4096, 1024, true, false, true, "reducescatter",
       executorCollectives},
      {Target::Azure, "msccl-executor-nccl", 64, 1024, 32, 32, 72, 4096, 1024, true, true, true,
       "reducescatter", executorCollectives},
  }};
  return table;
}

const Limits *limitsOf(Target target) {
  for (const Limits &limits : allLimits())
    if (limits.target == target)
      return &limits;
  return nullptr;
}

std::optional<Target> parseTarget(std::string_view text) {
  if (text == "msccl")
    return Target::Msccl;
  if (text == "rccl")
    return Target::Rccl;
  if (text == "azure")
    return Target::Azure;
  return std::nullopt;
}

namespace {

using Report = std::function<void(Violation)>;

void checkAlgo(const Document &document, const Limits &limits, const Report &report) {
  if (limits.collectives.find(fmt::format(" {} ", document.coll)) == std::string_view::npos)
    report({-1, -1, -1, "coll", fmt::format("coll=\"{}\" is unknown there", document.coll)});
  if (limits.isExecutor) {
    std::string missing;
    auto demand = [&](bool there, std::string_view name) {
      if (!there)
        missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name);
    };
    demand(document.outOfPlace.has_value(), "outofplace");
    demand(document.minBytes.has_value(), "minBytes");
    demand(document.maxBytes.has_value(), "maxBytes");
    if (!missing.empty())
      report({-1, -1, -1, "", fmt::format("`algo` lacks {}", missing)});
    if (!document.inPlace && document.outOfPlace == false)
      report({-1, -1, -1, "outofplace", "neither inplace nor outofplace is 1"});
    if (document.maxBytes.value_or(0) != 0 && document.minBytes.value_or(0) > *document.maxBytes)
      report({-1, -1, -1, "maxBytes", "maxBytes is smaller than minBytes"});
  } else if (document.maxBytes && document.minBytes.value_or(0) > *document.maxBytes) {
    report({-1, -1, -1, "maxBytes",
            "maxBytes is smaller than minBytes (it has no word for no "
            "limit)"});
  }
  if (!limits.isExecutor && document.threads.value_or(0) % 32 != 0)
    report({-1, -1, -1, "nthreads",
            fmt::format("nthreads=\"{}\" is no multiple of a warp (32)", *document.threads)});
  if (document.channels > limits.channels)
    report({-1, -1, -1, "nchannels",
            fmt::format("{} channels; at most {}", document.channels, limits.channels)});
  if (limits.children > 0 && document.gpus.size() > size_t(limits.children))
    report({-1, -1, -1, "ngpus",
            fmt::format("{} gpus; at most {} elements in one", document.gpus.size(),
                        limits.children)});
}

void checkStep(const Block &block, size_t index, const Limits &limits, const Violation &at,
               const Report &report) {
  const Step &step = block.steps[index];
  auto say = [&](const char *attribute, std::string text) {
    report({at.gpu, at.block, int32_t(index), attribute, std::move(text)});
  };
  if (step.type == StepType::Nop) {
    if (step.hasDep)
      say("hasdep", "a nop with hasdep=\"1\": nops store no flag");
    if (index + 1 == block.steps.size())
      say("", "a nop at the end of a block: nothing waits");
    else if (step.depBlock >= 0 && block.steps[index + 1].depBlock < 0)
      say("", "after a nop that waits comes a step with depid=\"-1\": the last of a chain of "
              "dependences must be the step's own");
    return;
  }
  if (step.count >= limits.countBelow)
    say("cnt", fmt::format("cnt=\"{}\"; it must be below {}", step.count, limits.countBelow));
  bool fused =
      step.type == StepType::ReceiveCopySend || (receives(step.type) && combines(step.type));
  if (fused && !limits.hasFusedSteps)
    say("type", "rcs, rrs, rrc and rrcs are refused by builds of 2024");
  if (step.type != StepType::Reduce || index == 0)
    return;
  const Step &last = block.steps[index - 1];
  if (last.type == StepType::Reduce && !last.hasDep && step.depBlock < 0 && last.dst == step.dst &&
      last.dstOffset == step.dstOffset && last.src == step.src && last.count != step.count)
    say("cnt", fmt::format("cnt=\"{}\" after cnt=\"{}\": consecutive `re` into one place are made "
                           "one, with the last one's cnt",
                           step.count, last.count));
}

void checkBlock(const Gpu &gpu, size_t index, const Limits &limits, Violation at,
                const Report &report) {
  const Block &block = gpu.blocks[index];
  at.block = int32_t(index);
  auto say = [&](const char *attribute, std::string text) {
    report({at.gpu, at.block, -1, attribute, std::move(text)});
  };
  if (block.id >= limits.blocksPerGpu)
    say("id", fmt::format("block {}; at most {} blocks in a gpu", block.id, limits.blocksPerGpu));
  if (block.channel >= limits.channels)
    say("chan", fmt::format("channel {}; at most {} channels", block.channel, limits.channels));
  if (limits.isExecutor && block.channel < 0)
    say("chan", "chan=\"-1\"; a block without peers needs a channel, too");
  size_t steps = block.steps.size();
  if (steps > size_t(limits.stepsPerBlock))
    report({at.gpu, at.block, limits.stepsPerBlock, "",
            fmt::format("{} steps; at most {} in a block", steps, limits.stepsPerBlock)});
  for (size_t i = 0; i < steps; ++i)
    checkStep(block, i, limits, at, report);
}

void checkGpu(const Document &document, size_t index, const Limits &limits, const Report &report) {
  const Gpu &gpu = document.gpus[index];
  Violation at;
  at.gpu = int32_t(index);
  size_t nodes = 1 + document.gpus.size() + gpu.blocks.size();
  std::map<int32_t, std::array<int32_t, 2>> perChannel;
  std::vector<bool> ids(gpu.blocks.size());
  for (size_t i = 0; i < gpu.blocks.size(); ++i) {
    const Block &block = gpu.blocks[i];
    checkBlock(gpu, i, limits, at, report);
    nodes += block.steps.size();
    if (size_t(block.id) < ids.size())
      ids[size_t(block.id)] = true;
    std::array<int32_t, 2> &used = perChannel[block.channel];
    used[0] += block.send >= 0;
    used[1] += block.recv >= 0;
    if (std::max(used[0], used[1]) == limits.blocksPerChannel + 1)
      report({at.gpu, int32_t(i), -1, "chan",
              fmt::format("more than {} blocks of a gpu {} on channel {}", limits.blocksPerChannel,
                          used[0] > used[1] ? "send" : "receive", block.channel)});
  }
  auto gap = std::find(ids.begin(), ids.end(), false);
  if (limits.refusesGapsInBlocks && gap != ids.end())
    report({at.gpu, -1, -1, "",
            fmt::format("there is no block {}, but one with a larger id", gap - ids.begin())});
  if (limits.nodes > 0 && nodes > size_t(limits.nodes))
    report({at.gpu, -1, -1, "",
            fmt::format("{} elements are read for a gpu; at most {}", nodes, limits.nodes)});
  if (limits.children > 0 && gpu.blocks.size() > size_t(limits.children))
    report(
        {at.gpu, -1, -1, "",
         fmt::format("{} blocks; at most {} elements in one", gpu.blocks.size(), limits.children)});
}

} // namespace

void checkLimits(const Document &document, const Limits &limits, const Report &report) {
  checkAlgo(document, limits, report);
  for (size_t i = 0; i < document.gpus.size(); ++i)
    checkGpu(document, i, limits, report);
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

namespace {

enum Kind { Declaration, Quote, Spaces, Entity, LongString, Tab, Doctype, Mark, ManyAttributes };

class TextChecker {
public:
  explicit TextChecker(std::string_view text) : text(text) {}
  std::vector<TextFinding> check();

private:
  /// One tag, from `<` at `at`; returns the offset behind it. It is well-formed.
  size_t checkTag(size_t at);
  void checkValue(size_t at, std::string_view value);
  /// There may be as many as characters: only the first one's sentence is made.
  template <typename... Args>
  void report(size_t offset, Kind kind, fmt::format_string<Args...> sentence, Args &&...args) {
    size_t &number = numbers[kind];
    if (number == 0) {
      found.push_back({offset, fmt::format(sentence, std::forward<Args>(args)...)});
      number = found.size();
    } else {
      ++found[number - 1].more;
    }
  }

  const std::string_view text;
  std::vector<TextFinding> found;
  std::array<size_t, ManyAttributes + 1> numbers = {}; ///< by kind: place in `found`, from 1
};

void TextChecker::checkValue(size_t at, std::string_view value) {
  if (size_t ampersand = value.find('&'); ampersand != value.npos)
    report(at + ampersand, Entity, "entities are not resolved");
  if (value.size() >= stringLimit)
    report(at - 1, LongString, "a value of {} characters; at most {} are kept", value.size(),
           stringLimit - 1);
}

static bool isBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

size_t TextChecker::checkTag(size_t at) {
  size_t end = text.size(), i = at + 1, attributes = 0;
  while (i < end && text[i] != '>') {
    char c = text[i];
    if (isBlank(c) && (c != ' ' || (i + 1 < end && text[i + 1] == ' ')))
      report(i, Spaces, "attributes are to be separated by one space");
    if (c != '"' && c != '\'') {
      ++i;
      continue;
    }
    if (c == '\'')
      report(i, Quote, "only double quotes are read");
    if (size_t equals = text.rfind('=', i); equals != i - 1 || isBlank(text[equals - 1]))
      report(equals, Spaces, "no space may be around =");
    if (++attributes == attributesLimit + 1)
      report(i, ManyAttributes, "more than {} attributes; the others are not read",
             attributesLimit);
    size_t close = std::min(text.find(c, i + 1), end);
    checkValue(i + 1, text.substr(i + 1, close - i - 1));
    i = close + 1;
  }
  return std::min(i + 1, end);
}

std::vector<TextFinding> TextChecker::check() {
  size_t i = 0;
  if (text.substr(0, 3) == "\xef\xbb\xbf") {
    report(0, Mark, "a byte order mark is not read");
    i = 3;
  }
  auto skip = [&](std::string_view end) { i = std::min(text.find(end, i), text.size()); };
  while (i < text.size()) {
    if (text[i] == '\t')
      report(i, Tab, "tabs between elements are not read");
    if (text[i] != '<') {
      ++i;
    } else if (text.substr(i, 4) == "<!--") {
      skip("-->");
    } else if (text.substr(i, 2) == "<?") {
      report(i, Declaration, "an XML declaration is not read");
      skip("?>");
    } else if (text.substr(i, 2) == "<!") {
      report(i, Doctype, "a DOCTYPE is not read");
      skip(">");
    } else {
      i = checkTag(i);
    }
  }
  return std::move(found);
}

} // namespace

std::vector<TextFinding> checkText(std::string_view text) { return TextChecker(text).check(); }

} // namespace ccl::msccl
