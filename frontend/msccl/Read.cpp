#include "frontend/msccl/Import.h"
#include "frontend/msccl/Meaning.h"
#include "frontend/msccl/Msccl.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace ccl::msccl {
namespace {

using interchange::Diagnostic;
using interchange::TextPlace;

/// Warnings that are alike are one, at the first place, with the number of the others.
class Warnings {
public:
  void add(const std::string &key, TextPlace place, std::string text) {
    auto [it, fresh] = byKey.emplace(key, found.size());
    if (fresh)
      found.push_back({place, std::move(text), {}, 0});
    else
      ++found[it->second].more;
  }
  void addFinding(TextPlace place, const TextFinding &finding) {
    found.push_back({place, finding.text + " by the runtimes' own parsers", {}, finding.more});
  }
  /// What `runtime` does not take. Others may not take it, either.
  void addViolation(std::string_view runtime, const Violation &violation, TextPlace place) {
    std::string key = violation.text;
    std::erase_if(key, [](char c) { return c >= '0' && c <= '9'; });
    auto [it, fresh] = byKey.emplace(key, found.size());
    if (fresh)
      found.push_back({place, violation.text, {std::string(runtime)}, 0});
    else if (Entry &entry = found[it->second]; entry.runtimes.back() != runtime)
      entry.runtimes.emplace_back(runtime);
    else if (entry.runtimes.size() == 1)
      ++entry.more;
  }
  std::vector<Diagnostic> take() {
    std::vector<Diagnostic> result;
    for (Entry &entry : found) {
      std::string text = std::move(entry.text);
      if (!entry.runtimes.empty())
        text += fmt::format(": not taken by {}", fmt::join(entry.runtimes, ", "));
      if (entry.more > 0)
        text += fmt::format(" ({} more of this kind)", entry.more);
      result.push_back({Diagnostic::Kind::Warning, entry.place, -1, std::move(text), {}});
    }
    return result;
  }

private:
  struct Entry {
    TextPlace place;
    std::string text;
    std::vector<std::string> runtimes;
    size_t more = 0;
  };
  std::vector<Entry> found;
  std::map<std::string, size_t> byKey;
};

TextPlace placeOf(const Violation &violation, const Document &document, const Xml &xml) {
  pugi::xml_node node = document.node;
  if (violation.gpu >= 0) {
    const Gpu &gpu = document.gpus[size_t(violation.gpu)];
    node = gpu.node;
    if (violation.block >= 0) {
      const Block &block = gpu.blocks[size_t(violation.block)];
      node = violation.step >= 0 ? block.steps[size_t(violation.step)].node : block.node;
    }
  }
  return xml.place(node, violation.attribute);
}

void warnOfStep(const Block &block, size_t index, const Xml &xml, Warnings &warnings) {
  const Step &step = block.steps[index];
  if (size_t(step.number) != index)
    warnings.add(
        "number", xml.place(step.node, "s"),
        fmt::format("s=\"{}\" of step {}: `deps` counts steps by their order", step.number, index));
  // msccl-tools writes the sender's place to `src`, where runtimes add the receiver's.
  bool isShared = step.src != Buf::Scratch && step.dst != Buf::Scratch;
  if ((step.type == StepType::ReceiveReduceCopy || step.type == StepType::ReceiveReduceCopySend) &&
      (step.srcOffset != step.dstOffset || (step.src != step.dst && !isShared)))
    warnings.add(
        "local", xml.place(step.node, "srcoff"),
        fmt::format("type=\"{}\": what is received is added to `{}` {} of this rank, and "
                    "stored in `{}` {}; if the sender's place was meant, the file is wrong",
                    name(step.type), letter(step.src), step.srcOffset, letter(step.dst),
                    step.dstOffset));
}

void warn(std::string_view text, const Document &document, const Xml &xml, Warnings &warnings) {
  for (const Limits &limits : allLimits())
    checkLimits(document, limits, [&](Violation violation) {
      warnings.addViolation(limits.name, violation, placeOf(violation, document, xml));
    });
  if (const auto reduction = model::parseReduction(document.redop.value_or("none"));
      reduction && *reduction >= model::Reduction::Avg)
    warnings.add("redop", xml.place(document.node, "redop"),
                 fmt::format("redop=\"{}\": MSCCL, RCCL and msccl-executor-nccl run algorithms of "
                             "their own for it, and files for sum, prod, min and max",
                             *document.redop));
  for (const TextFinding &finding : checkText(text))
    warnings.addFinding(xml.placeAt(finding.offset), finding);
  for (const Gpu &gpu : document.gpus)
    for (const Block &block : gpu.blocks) {
      if (block.channel >= document.channels)
        warnings.add(
            "channel", xml.place(block.node, "chan"),
            fmt::format("chan=\"{}\", but nchannels=\"{}\"", block.channel, document.channels));
      for (size_t s = 0; s < block.steps.size(); ++s)
        warnOfStep(block, s, xml, warnings);
    }
}

} // namespace

std::optional<interchange::Foreign> readXml(std::string_view text,
                                            std::vector<Diagnostic> &diagnostics) {
  Diagnostic error;
  std::optional<Xml> xml = Xml::parse(text, error);
  if (!xml) {
    diagnostics.push_back(std::move(error));
    return std::nullopt;
  }
  std::optional<Document> document = readDocument(*xml, diagnostics);
  if (!document)
    return std::nullopt;
  std::optional<model::Contract> contract = readContract(*document, *xml, diagnostics);
  if (!contract)
    return std::nullopt;
  std::optional<interchange::Foreign> foreign =
      importDocument(*document, std::move(*contract), &*xml, diagnostics);
  if (!foreign)
    return std::nullopt;
  Warnings warnings;
  warn(text, *document, *xml, warnings);
  foreign->warnings = warnings.take();
  return foreign;
}

} // namespace ccl::msccl
