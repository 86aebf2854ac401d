// MSCCL XML for tests, written short.
#pragma once

#include "frontend/msccl/Msccl.h"
#include "test/unit/interchange/Forms.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <sstream>

namespace ccl::msccl {

/// "rrc i0 o1" or "s i0 - x2 after 1.0 flag": type, src, dst (- for none), count, what it
/// waits for (block.step), and that others wait for it.
inline std::string step(int number, const std::string &words) {
  std::istringstream in(words);
  std::string type, src, dst, word;
  in >> type >> src >> dst;
  int count = type == "nop" ? 0 : 1, block = -1, index = -1, flag = 0;
  char dot = 0;
  while (in >> word)
    if (word == "after")
      in >> block >> dot >> index;
    else if (word == "flag")
      flag = 1;
    else
      count = std::stoi(word.substr(1));
  auto place = [](const std::string &place, std::string_view name) {
    bool none = place.empty() || place == "-";
    return fmt::format("{}buf=\"{}\" {}off=\"{}\"", name, none ? "i" : place.substr(0, 1), name,
                       none ? "-1" : place.substr(1));
  };
  return fmt::format("      <step s=\"{}\" type=\"{}\" {} {} cnt=\"{}\" depid=\"{}\" deps=\"{}\" "
                     "hasdep=\"{}\"/>\n",
                     number, type, place(src, "src"), place(dst, "dst"), count, block, index, flag);
}

struct TestBlock {
  int send = -1, recv = -1, channel = 0;
  std::vector<std::string> steps;
};

struct TestFile {
  std::string coll = "allreduce", attributes = "inplace=\"0\"", protocol = "Simple";
  int chunksPerLoop = 1, channels = 1;
  int in = 1, out = 1, scratch = 1;
  std::vector<std::vector<TestBlock>> gpus;

  std::string text() const {
    std::string result = fmt::format(
        "<algo name=\"test\" proto=\"{}\" nchannels=\"{}\" nchunksperloop=\"{}\" ngpus=\"{}\" "
        "coll=\"{}\" {}>\n",
        protocol, channels, chunksPerLoop, gpus.size(), coll, attributes);
    for (size_t g = 0; g < gpus.size(); ++g) {
      result += fmt::format("  <gpu id=\"{}\" i_chunks=\"{}\" o_chunks=\"{}\" s_chunks=\"{}\">\n",
                            g, in, out, scratch);
      for (size_t b = 0; b < gpus[g].size(); ++b) {
        const TestBlock &block = gpus[g][b];
        result += fmt::format("    <tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"{}\">\n", b,
                              block.send, block.recv, block.channel);
        for (size_t s = 0; s < block.steps.size(); ++s)
          result += step(int(s), block.steps[s]);
        result += "    </tb>\n";
      }
      result += "  </gpu>\n";
    }
    return result + "</algo>\n";
  }
};

/// "line:column: text" of the first error, "line:column: unsupported: text"; "" if it is read.
inline std::string errorOf(const std::string &text) {
  std::vector<interchange::Diagnostic> diagnostics;
  if (readXml(text, diagnostics)) {
    CHECK(diagnostics.empty());
    return "";
  }
  REQUIRE(!diagnostics.empty());
  const interchange::Diagnostic &first = diagnostics.front();
  bool isUnsupported = first.kind == interchange::Diagnostic::Kind::Unsupported;
  return fmt::format("{}:{}: {}{}", first.place.line, first.place.column,
                     isUnsupported ? "unsupported: " : "", first.text);
}

inline interchange::Foreign read(const std::string &text) {
  std::vector<interchange::Diagnostic> diagnostics;
  std::optional<interchange::Foreign> foreign = readXml(text, diagnostics);
  REQUIRE_MESSAGE(foreign, (diagnostics.empty() ? "" : diagnostics.front().text));
  return std::move(*foreign);
}

/// All forms that the program is for hold, or the verdict on the first fault.
inline std::string verdictOf(const interchange::Foreign &foreign, std::string *message = nullptr) {
  std::string result;
  for (const model::ProgramReport &report : interchange::proveForms(foreign)) {
    if (!report.ok() && message)
      *message = report.faults.front().message;
    result = model::verdict(report.faults, foreign.contract);
    if (!report.ok())
      break;
  }
  return result;
}

/// Its warnings, one a line.
inline std::string warningsOf(const interchange::Foreign &foreign) {
  std::string result;
  for (const interchange::Diagnostic &warning : foreign.warnings)
    result += fmt::format("{}:{}: {}\n", warning.place.line, warning.place.column, warning.text);
  return result;
}

/// What is written for a target; "" and the refusal in `error`.
inline std::string write(const interchange::Foreign &foreign, Target target = Target::None,
                         interchange::Diagnostic *error = nullptr) {
  std::vector<interchange::Diagnostic> diagnostics;
  WriteOptions options;
  options.target = target;
  std::optional<std::string> text = writeXml(foreign, options, diagnostics);
  if (text)
    return std::move(*text);
  REQUIRE(!diagnostics.empty());
  CHECK(diagnostics.back().kind == interchange::Diagnostic::Kind::Unsupported);
  if (error)
    *error = diagnostics.back();
  return "";
}

} // namespace ccl::msccl
