//===- Formats.cpp ------------------------------------------------------------------===//
#include "frontend/interchange/Formats.h"

#include "frontend/cli/Source.h"
#include "frontend/interchange/ToModule.h"
#include "frontend/msccl/Msccl.h"
#include "frontend/mscclpp/PlanFile.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/ConvertUTF.h"

#include <fmt/format.h>

#include <set>

using namespace mlir;

namespace ccl::interchange {

static std::optional<std::string> writeXml(const Foreign &foreign, std::optional<Runtime> runtime,
                                           std::vector<Diagnostic> &diagnostics) {
  msccl::WriteOptions options;
  options.target = runtime ? *msccl::parseTarget(name(*runtime)) : msccl::Target::None;
  return msccl::writeXml(foreign, options, diagnostics);
}

/// For MSCCL++, the only one there is.
static std::optional<std::string> writePlan(const Foreign &foreign, std::optional<Runtime>,
                                            std::vector<Diagnostic> &diagnostics) {
  return mscclpp::writePlan(foreign, diagnostics);
}

namespace {

struct FormatRow {
  Format format;
  std::string_view name;
  size_t maxBytes; ///< of a text: reading takes up to 100 times that
  std::optional<Foreign> (*read)(std::string_view text, std::vector<Diagnostic> &diagnostics);
  std::optional<std::string> (*write)(const Foreign &foreign, std::optional<Runtime> runtime,
                                      std::vector<Diagnostic> &diagnostics);
};
/// Every format but ours has a reader and a writer. Files are named for their format.
constexpr FormatRow formats[] = {
    {Format::Mlir, "mlir", size_t(256) << 20, nullptr, nullptr},
    {Format::MscclXml, "xml", size_t(256) << 20, msccl::readXml, writeXml},
    {Format::MscclppJson, "json", size_t(64) << 20, mscclpp::readPlan, writePlan},
};
/// A mark of UTF-8 that some editors write.
constexpr StringRef byteOrderMark = "\xef\xbb\xbf";

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
  text.consume_front(byteOrderMark);
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

/// Bytes of the character that `text` begins with; 0: no character, or one that a terminal would
/// obey.
static size_t shownCharacter(StringRef text) {
  const auto first = uint8_t(text[0]);
  if (first < 0x80)
    return first == '\t' || (first >= 0x20 && first != 0x7f);
  const size_t length = llvm::getNumBytesForUTF8(first);
  const auto *bytes = reinterpret_cast<const llvm::UTF8 *>(text.data());
  if (length > text.size() || !llvm::isLegalUTF8Sequence(bytes, bytes + length))
    return 0;
  const bool isControl = first == 0xc2 && uint8_t(text[1]) < 0xa0;
  return isControl ? 0 : length;
}

/// The beginning of a line, with blanks for what cannot be shown; of binary data up to a zero byte.
static std::string beginning(StringRef line, size_t longest) {
  line = line.take_until([](char c) { return c == '\0'; });
  std::string shown;
  while (!line.empty()) {
    const size_t length = shownCharacter(line);
    if (shown.size() + std::max<size_t>(length, 1) > longest)
      break;
    shown += length ? line.take_front(length) : StringRef(" ");
    line = line.drop_front(std::max<size_t>(length, 1));
  }
  return shown;
}

std::string forDisplay(StringRef text) {
  constexpr size_t longest = 240;
  std::string shown;
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    shown += beginning(line, longest);
    if (line.size() < text.size())
      shown += '\n';
    text = rest;
  }
  return shown;
}

void addForDisplay(StringRef text, StringRef fileName, llvm::SourceMgr &shown) {
  shown.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(forDisplay(text), fileName),
                           llvm::SMLoc());
}

/// A message that quotes a file may be as long as the file.
static std::string message(StringRef text) {
  constexpr size_t longest = 1000;
  return beginning(text, longest) + (text.size() > longest ? " ..." : "");
}

namespace {

/// Shows errors or warnings: each once, and not too many.
class Emitter {
public:
  explicit Emitter(bool warnings) : warnings(warnings) {}

  void show(const Diagnostic &diagnostic, function_ref<Location(TextPlace, int32_t)> at) {
    Location loc = at(diagnostic.place, diagnostic.loc);
    // Every rank may have the same to say about one place.
    if (!seen.emplace(loc.getAsOpaquePointer(), diagnostic.text).second)
      return;
    if (seen.size() > mostShown)
      return;
    last = loc;
    InFlightDiagnostic d = start(loc);
    d << message(diagnostic.text);
    for (const Diagnostic::Note &note : diagnostic.notes)
      d.attachNote(at(note.place, note.loc)) << message(note.text);
  }

  void end() {
    if (seen.size() <= mostShown)
      return;
    const size_t hidden = seen.size() - mostShown;
    start(*last) << "and " << hidden << " more " << (warnings ? "warning" : "error")
                 << (hidden == 1 ? "" : "s") << " after this place";
  }

private:
  InFlightDiagnostic start(Location loc) { return warnings ? emitWarning(loc) : emitError(loc); }

  const bool warnings;
  std::set<std::pair<const void *, std::string>> seen; ///< only ever asked whether they are in
  std::optional<Location> last;
};

} // namespace

/// `at` gives the location of a place or of a `loc`.
static void emit(ArrayRef<Diagnostic> diagnostics, function_ref<Location(TextPlace, int32_t)> at) {
  Emitter errors(false), warnings(true);
  for (const Diagnostic &diagnostic : diagnostics)
    (diagnostic.isError() ? errors : warnings).show(diagnostic, at);
  warnings.end();
  errors.end();
}

void emitDiagnostics(ArrayRef<Diagnostic> diagnostics, StringRef fileName, MLIRContext &context) {
  emit(diagnostics, [&](TextPlace place, int32_t) { return placeIn(fileName, place, context); });
}

static bool isError(const Diagnostic &diagnostic) { return diagnostic.isError(); }

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

static std::string_view verdictOf(const Diagnostic &error) {
  return error.kind == Diagnostic::Kind::Unsupported ? "unsupported" : "malformed";
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
      result.verdict = verdictOf(*error);
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

/// Why no reader gets to see `text`, or nothing.
static std::optional<Diagnostic> refuseText(const FormatRow &row, StringRef text) {
  using Kind = Diagnostic::Kind;
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    return Diagnostic{Kind::Malformed, {1, 1}, -1, "the text is UTF-16: save it as UTF-8", {}};
  if (text.size() > row.maxBytes) {
    std::string why = fmt::format("{} bytes; of .{} files at most {} are read", text.size(),
                                  row.name, row.maxBytes);
    return Diagnostic{Kind::Unsupported, {}, -1, std::move(why), {}};
  }
  if (row.format != Format::Mlir)
    return std::nullopt;
  if (size_t zero = text.find('\0'); zero != StringRef::npos) {
    const StringRef before = text.take_front(zero);
    return Diagnostic{
        Kind::Malformed,
        {int32_t(before.count('\n') + 1), int32_t(zero - (before.rfind('\n') + 1) + 1)},
        -1,
        "a character with the code 0: this is no text",
        {}};
  }
  if (std::optional<cli::TooDeep> deep = cli::findTooDeep(text))
    return Diagnostic{Kind::Malformed,
                      {int32_t(deep->line), int32_t(deep->column)},
                      -1,
                      std::move(deep->message),
                      {}};
  return std::nullopt;
}

static Imported parseText(std::unique_ptr<llvm::MemoryBuffer> file, llvm::SourceMgr &shown,
                          MLIRContext &context) {
  Imported result;
  const Location top = placeIn(file->getBufferIdentifier(), TextPlace(), context);
  addForDisplay(file->getBuffer(), file->getBufferIdentifier(), shown);
  llvm::SourceMgr parsed;
  parsed.AddNewSourceBuffer(std::move(file), llvm::SMLoc());
  result.module = parseSourceFile<ModuleOp>(parsed, &context);
  // A module that no text stands for lies in line 0.
  if (result.module)
    if (auto loc = dyn_cast<FileLineColLoc>(result.module->getLoc()); loc && loc.getLine() == 0)
      (*result.module)->setLoc(top);
  return result;
}

Imported readFile(Format format, std::unique_ptr<llvm::MemoryBuffer> file, llvm::SourceMgr &shown,
                  MLIRContext &context, bool warn) {
  const std::string fileName = file->getBufferIdentifier().str();
  if (StringRef text = file->getBuffer(); text.consume_front(byteOrderMark))
    // Columns stay as they are.
    file = llvm::MemoryBuffer::getMemBufferCopy("   " + text.str(), fileName);
  const std::optional<Diagnostic> refusal = refuseText(formats[size_t(format)], file->getBuffer());
  if (!refusal && format == Format::Mlir)
    return parseText(std::move(file), shown, context);
  addForDisplay(file->getBuffer(), fileName, shown);
  if (!refusal)
    return readForeign(format, file->getBuffer(), fileName, context, warn);
  emitDiagnostics(*refusal, fileName, context);
  Imported refused;
  refused.verdict = verdictOf(*refusal);
  return refused;
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
  std::optional<std::string> text = formats[size_t(format)].write(foreign, runtime, diagnostics);
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
