//===- Foreign.h - What the targets of foreign formats have in common -------------------===//
#pragma once

#include "test/unit/interchange/Forms.h"

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
    error |= d.isError();
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
  for (const model::ProgramReport &report : interchange::proveForms(foreign)) {
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

using Diagnostics = std::vector<interchange::Diagnostic>;
using Reader = std::optional<interchange::Foreign> (*)(std::string_view, Diagnostics &);
using Writer = std::optional<std::string> (*)(const interchange::Foreign &, Diagnostics &);

/// What is right can be written, or the writer says why not; and it is read again as right.
inline void checkWriter(const interchange::Foreign &foreign, Writer write, Reader read) {
  Diagnostics diagnostics, again;
  const std::optional<std::string> text = write(foreign, diagnostics);
  bool error = false;
  for (const interchange::Diagnostic &d : diagnostics)
    error |= d.isError();
  require(text.has_value() != error, "what is not written has an error");
  if (!text)
    return;
  const std::optional<interchange::Foreign> reread = read(*text, again);
  require(reread.has_value(), "what was written is read");
  if (isSmall(*reread))
    require(prove(*reread), "what was written is right");
}

/// Reads the text, proves it, and writes what is right with every writer.
inline void testFormat(const uint8_t *data, size_t size, Reader read,
                       std::initializer_list<Writer> writers) {
  const std::string_view text(reinterpret_cast<const char *>(data), size);
  Diagnostics diagnostics;
  const std::optional<interchange::Foreign> foreign = read(text, diagnostics);
  requireDiagnosed(!foreign, text, diagnostics);
  if (foreign && prove(*foreign) && isChosen(text))
    for (Writer write : writers)
      checkWriter(*foreign, write, read);
}

} // namespace ccl::fuzz
