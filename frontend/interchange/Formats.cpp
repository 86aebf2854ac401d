//===- Formats.cpp ------------------------------------------------------------------===//
#include "frontend/interchange/Formats.h"

#include "frontend/interchange/ToModule.h"
#include "frontend/msccl/Msccl.h"
#include "frontend/mscclpp/PlanFile.h"

#include <fmt/format.h>

using namespace mlir;

namespace ccl::interchange {

namespace {

struct FormatRow {
  Format format;
  std::string_view name;
  std::optional<Foreign> (*read)(std::string_view text, std::vector<Diagnostic> &diagnostics);
};
/// Every format but ours has a reader. Files are named for their format.
constexpr FormatRow formats[] = {
    {Format::Mlir, "mlir", nullptr},
    {Format::MscclXml, "xml", msccl::readXml},
    {Format::MscclppJson, "json", mscclpp::readPlan},
};

struct RuntimeRow {
  Runtime runtime;
  std::string_view name;
  Format format;
};
constexpr RuntimeRow runtimes[] = {
    {Runtime::Msccl, "msccl", Format::MscclXml},
    {Runtime::Rccl, "rccl", Format::MscclXml},
    {Runtime::Azure, "azure", Format::MscclXml},
    {Runtime::Mscclpp, "mscclpp", Format::MscclppJson},
};

/// A file may have the same fault at each of its steps.
constexpr size_t mostShown = 16;

} // namespace

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

std::string_view name(Format format) { return formats[size_t(format)].name; }
std::string_view name(Runtime runtime) { return runtimes[size_t(runtime)].name; }
Format formatFor(Runtime runtime) { return runtimes[size_t(runtime)].format; }

std::optional<Format> parseFormat(std::string_view name) {
  for (const FormatRow &row : formats)
    if (row.name == name)
      return row.format;
  return std::nullopt;
}

std::optional<Runtime> parseRuntime(std::string_view name) {
  for (const RuntimeRow &row : runtimes)
    if (row.name == name)
      return row.runtime;
  return std::nullopt;
}

std::optional<Format> formatOfName(StringRef fileName) {
  auto [stem, suffix] = fileName.rsplit('.');
  return parseFormat(suffix.lower());
}

Format formatOf(StringRef fileName, StringRef text) {
  if (std::optional<Format> named = formatOfName(fileName))
    return *named;
  text.consume_front("\xef\xbb\xbf"); // a mark of UTF-8 that some editors write
  StringRef rest = text.ltrim();
  if (rest.starts_with("<"))
    return Format::MscclXml;
  // MLIR may begin with the brace of its resources.
  if (rest.starts_with("[") || (rest.starts_with("{") && !rest.starts_with("{-#")))
    return Format::MscclppJson;
  return Format::Mlir;
}

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

/// `at` gives the location of a place or of a `loc`.
template <typename At>
static void emit(ArrayRef<Diagnostic> diagnostics, At at) {
  size_t shown[2] = {0, 0}, total[2] = {0, 0};
  Location last[2] = {UnknownLoc::get(at(TextPlace(), -1).getContext()),
                      UnknownLoc::get(at(TextPlace(), -1).getContext())};
  for (const Diagnostic &diagnostic : diagnostics) {
    const bool warning = diagnostic.kind == Diagnostic::Kind::Warning;
    ++total[warning];
    if (shown[warning] == mostShown)
      continue;
    ++shown[warning];
    last[warning] = at(diagnostic.place, diagnostic.loc);
    InFlightDiagnostic d = warning ? emitWarning(last[1]) : emitError(last[0]);
    d << diagnostic.text;
    for (const Diagnostic::Note &note : diagnostic.notes)
      d.attachNote(at(note.place, note.loc)) << note.text;
  }
  for (bool warning : {true, false})
    if (size_t hidden = total[warning] - shown[warning])
      (warning ? emitWarning(last[1]) : emitError(last[0]))
          << "and " << hidden << " more " << (warning ? "warning" : "error")
          << (hidden == 1 ? "" : "s") << " after this place";
}

static bool isError(const Diagnostic &diagnostic) {
  return diagnostic.kind != Diagnostic::Kind::Warning;
}

std::string forDisplay(StringRef text) {
  constexpr size_t longest = 240;
  std::string shown;
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    size_t length = std::min(line.size(), longest);
    // Not within a character.
    while (length < line.size() && length > 0 && (uint8_t(line[length]) & 0xc0) == 0x80)
      --length;
    for (char c : line.take_front(length)) // nothing that a terminal would obey
      shown += (uint8_t(c) < 0x20 && c != '\t') || c == 0x7f ? ' ' : c;
    if (line.size() < text.size())
      shown += '\n';
    text = rest;
  }
  return shown;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// The other systems let a program write its input, and whoever launches it finds that out.
static std::vector<Diagnostic> writesToInput(const Foreign &foreign) {
  std::vector<Diagnostic> found;
  for (auto [rank, mine] : llvm::enumerate(foreign.program.ranks))
    for (const model::Agent &agent : mine.agents)
      for (auto [number, instruction] : llvm::enumerate(agent.code))
        for (const model::Operand &operand : instruction.to) {
          if (operand.kind == model::Operand::Kind::Channel ||
              foreign.program.buffers[size_t(operand.buffer)].role != model::Role::In)
            continue;
          TextPlace place =
              instruction.loc < 0 ? TextPlace() : foreign.places[size_t(instruction.loc)];
          int64_t owner = operand.kind == model::Operand::Kind::Peer ? operand.peer : rank;
          std::string text =
              fmt::format("rank {}, {}[{}] is written, but `in` is only read; by rank {}, {} {}, "
                          "instruction {}",
                          owner, foreign.program.buffers[size_t(operand.buffer)].name,
                          operand.chunk, rank, agent.proxy ? "proxy" : "block", agent.id, number);
          found.push_back({Diagnostic::Kind::Malformed, place, -1, std::move(text), {}});
        }
  return found;
}

Imported readForeign(Format format, StringRef text, StringRef fileName, MLIRContext &context,
                     bool warn) {
  Imported result;
  std::vector<Diagnostic> diagnostics;
  result.foreign =
      formats[size_t(format)].read(std::string_view(text.data(), text.size()), diagnostics);
  if (result.foreign && warn)
    llvm::append_range(diagnostics, result.foreign->warnings);
  auto at = [&](TextPlace place, int32_t) { return placeIn(fileName, place, context); };
  emit(diagnostics, at);
  auto error = llvm::find_if(diagnostics, isError);
  if (error != diagnostics.end() || !result.foreign) {
    if (error == diagnostics.end())
      emitError(at(TextPlace(), -1)) << "cannot be read";
    else
      result.verdict = error->kind == Diagnostic::Kind::Unsupported ? "unsupported" : "malformed";
    result.foreign.reset();
    return result;
  }
  diagnostics = writesToInput(*result.foreign);
  if (!diagnostics.empty()) {
    emit(diagnostics, at);
    result.verdict = "wrong";
    return result;
  }
  result.module = toModule(*result.foreign, fileName, context);
  return result;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

LocationTable locationsOf(const Foreign &foreign, StringRef fileName, MLIRContext &context) {
  LocationTable locations;
  locations.reserve(foreign.places.size());
  for (TextPlace place : foreign.places)
    locations.push_back(placeIn(fileName, place, context));
  return locations;
}

std::optional<std::string> writeForeign(const Foreign &foreign, Format format,
                                        std::optional<Runtime> runtime,
                                        const LocationTable &locations, Location fallback) {
  std::vector<Diagnostic> diagnostics;
  std::optional<std::string> text;
  if (format == Format::MscclXml) {
    msccl::WriteOptions options;
    options.target = runtime ? *msccl::parseTarget(name(*runtime)) : msccl::Target::None;
    text = msccl::writeXml(foreign, options, diagnostics);
  } else {
    text = mscclpp::writePlan(foreign, diagnostics);
  }
  emit(diagnostics, [&](TextPlace, int32_t loc) {
    return loc >= 0 && size_t(loc) < locations.size() ? locations[size_t(loc)] : fallback;
  });
  if (text && llvm::none_of(diagnostics, isError))
    return text;
  if (llvm::none_of(diagnostics, isError))
    emitError(fallback) << "cannot be written as " << name(format);
  return std::nullopt;
}

} // namespace ccl::interchange
