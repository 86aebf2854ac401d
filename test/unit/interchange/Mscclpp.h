//===- Mscclpp.h - Plans for tests -----------------------------------------------===//
#pragma once

#include "dialect/model/Check.h"
#include "frontend/mscclpp/PlanFile.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ccl::mscclpp::test {

using interchange::Diagnostic;
using interchange::Foreign;

/// Single quotes become double ones, so that JSON can be written in C++.
inline std::string json(std::string text) {
  for (char &c : text)
    if (c == '\'')
      c = '"';
  return text;
}

inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

struct Shape {
  std::string collective = "test";
  bool inPlace = false;
  int in = 1, out = 1, scratch = 0;
  std::string protocol = "Simple", more = "";
};

/// Two ranks that do the same: `@` is the rank, `#` the other one. Every thread block has two
/// memory channels, two port channels, a switch channel for each buffer, and as remote
/// buffers 0, 1 and 2 the other's "i", "o" and "s" over either; there are semaphores with
/// the initial values 0, 1 and 2.
inline std::string two(const Shape &shape, const std::vector<std::string> &blocks) {
  std::vector<std::string> gpus;
  for (int rank : {0, 1}) {
    std::vector<std::string> texts;
    for (size_t id = 0; id < blocks.size(); ++id)
      texts.push_back(fmt::format(
          "{{'id': {}, 'channels': [{{'channel_type': 'memory', 'channel_ids': [0, 1]}}, "
          "{{'channel_type': 'port', 'channel_ids': [0, 1]}}, "
          "{{'channel_type': 'switch', 'channel_ids': [0, 1, 2]}}], 'remote_buffer_refs': "
          "[{{'access_channel_type': 'memory', 'remote_buffer_ids': [0, 1, 2]}}, "
          "{{'access_channel_type': 'port', 'remote_buffer_ids': [0, 1, 2]}}], "
          "'ops': [\n{}]}}",
          id, blocks[id]));
    std::string remotes, switches;
    for (char type : {'i', 'o', 's'}) {
      remotes += fmt::format("{}{{'rank': #, 'type': '{}', 'access_channel_types': ['memory', "
                             "'port']}}",
                             remotes.empty() ? "" : ", ", type);
      switches += fmt::format(", {{'channel_type': 'switch', 'buffer_type': '{}', "
                              "'rank_groups': [{{'size': 2, 'ranks': [0, 1]}}]}}",
                              type);
    }
    std::string gpu = fmt::format(
        "{{'id': @, 'input_chunks': {}, 'output_chunks': {}, 'scratch_chunks': {}, 'channels': "
        "[{{'channel_type': 'memory', 'connected_to': [#, #]}}, {{'channel_type': 'port', "
        "'connected_to': [#, #]}}{}], 'remote_buffers': [{}], 'semaphores': [{{'init_value': "
        "0}}, {{'init_value': 1}}, {{'init_value': 2}}], 'threadblocks': [{}]}}",
        shape.in, shape.out, shape.scratch, switches, remotes, fmt::join(texts, ", "));
    gpus.push_back(replaced(replaced(gpu, "@", rank ? "1" : "0"), "#", rank ? "0" : "1"));
  }
  return json(fmt::format("{{'name': 'p', 'collective': '{}', 'protocol': '{}', 'inplace': {}{}, "
                          "'gpus': [{}]}}",
                          shape.collective, shape.protocol, shape.inPlace, shape.more,
                          fmt::join(gpus, ",\n")));
}

inline std::string str(const std::vector<Diagnostic> &diagnostics) {
  std::string text;
  for (const Diagnostic &d : diagnostics)
    text += fmt::format("{}:{}: {}\n", d.place.line, d.place.column, d.text);
  return text;
}

/// A plan that has to be read.
inline Foreign read(const std::string &text) {
  std::vector<Diagnostic> diagnostics;
  std::optional<Foreign> foreign = readPlan(text, diagnostics);
  INFO(str(diagnostics));
  INFO(text);
  REQUIRE(foreign);
  return std::move(*foreign);
}

inline model::ProgramReport check(const Foreign &foreign) {
  model::ProgramCheckOptions options;
  options.inPlace = !foreign.disjoint;
  return model::check(foreign.program, foreign.contract, options);
}

inline std::string verdict(const Foreign &foreign) {
  return std::string(model::verdict(check(foreign).faults, foreign.contract));
}
inline std::string verdict(const std::string &text) { return verdict(read(text)); }

/// The faults' messages, for failing tests.
inline std::string faults(const Foreign &foreign) {
  std::string text;
  for (const model::Fault &fault : check(foreign).faults)
    text += fault.message + "\n";
  return text;
}

/// Whether a warning says so.
inline bool warns(const Foreign &foreign, std::string_view text) {
  for (const Diagnostic &warning : foreign.warnings)
    if (warning.text.find(text) != std::string::npos)
      return true;
  return false;
}

inline int64_t countOf(const Foreign &foreign, model::Instruction::Kind kind) {
  int64_t count = 0;
  for (const model::RankProgram &rank : foreign.program.ranks)
    for (const model::Agent &agent : rank.agents)
      for (const model::Instruction &instruction : agent.code)
        count += instruction.kind == kind;
  return count;
}

} // namespace ccl::mscclpp::test
