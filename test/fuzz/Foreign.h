//===- Foreign.h - What the targets of foreign formats have in common -------------------===//
#pragma once

#include "dialect/model/Check.h"
#include "frontend/interchange/Foreign.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace ccl::fuzz {

/// Ends the process if something does not hold that must.
inline void require(bool holds, std::string_view what) {
  if (holds)
    return;
  std::fprintf(stderr, "does not hold: %.*s\n", int(what.size()), what.data());
  std::abort();
}

/// What is refused has an error with words and a place within the text.
inline void requireDiagnosed(bool refused, std::string_view text,
                             const std::vector<interchange::Diagnostic> &diagnostics) {
  int64_t lines = 1;
  for (char c : text)
    lines += c == '\n';
  bool error = false;
  for (const interchange::Diagnostic &d : diagnostics) {
    error |= d.kind != interchange::Diagnostic::Kind::Warning;
    require(!d.text.empty(), "a message has words");
    require(d.place.line >= 0 && d.place.line <= lines, "a message's line exists");
    require(d.place.line == 0 || d.place.column >= 1, "columns count from 1");
  }
  require(refused == error, "what is refused has an error, what is read has none");
}

/// Large numbers are for tests of their own: here they would only take time.
inline bool isSmall(const interchange::Foreign &foreign) {
  uint64_t places = 0, instructions = 0;
  for (const model::Buffer &buffer : foreign.program.buffers)
    places += uint64_t(buffer.chunks) * foreign.program.ranks.size();
  for (const model::RankProgram &rank : foreign.program.ranks)
    for (const model::Agent &agent : rank.agents)
      for (const model::Instruction &i : agent.code)
        instructions += uint64_t(i.count) * (i.from.size() + i.to.size() + 1);
  return places <= 4096 && instructions <= 4096;
}

/// Proves what is small in the forms that it is meant for; whether it holds in one.
inline bool prove(const interchange::Foreign &foreign) {
  if (!isSmall(foreign))
    return false;
  bool proved = false;
  for (bool inPlace : {false, true}) {
    if (!(inPlace ? foreign.inPlace : foreign.disjoint))
      continue;
    model::ProgramCheckOptions options;
    options.inPlace = inPlace;
    model::ProgramReport report = model::check(foreign.program, foreign.contract, options);
    for (const model::Fault &fault : report.faults)
      require(!fault.message.empty(), "a fault has words");
    require(!model::verdict(report.faults, foreign.contract).empty(), "there is a verdict");
    proved |= report.ok();
  }
  return proved;
}

/// Every fourth text: what takes long is not done with all.
inline bool isChosen(std::string_view text) {
  uint32_t sum = 0;
  for (char c : text)
    sum = sum * 31 + uint8_t(c);
  return sum % 4 == 0;
}

} // namespace ccl::fuzz
