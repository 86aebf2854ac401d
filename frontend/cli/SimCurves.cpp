//===- SimCurves.cpp ----------------------------------------------------------===//
#include "frontend/cli/SimCurves.h"

#include "frontend/cli/Output.h"
#include "frontend/cli/Sizes.h"
#include "frontend/cli/Source.h"

#include "dialect/simulate/Measurements.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <fmt/format.h>

#include <optional>

using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

namespace ccl::cli {

using Of = model::WayCurve::Of;

static Error bad(std::string message) { return llvm::createStringError(std::move(message)); }

static Error parseKind(StringRef text, model::WayCurve &way) {
  std::optional<Of> of = llvm::StringSwitch<std::optional<Of>>(text)
                             .Case("any", Of::Any)
                             .Case("nvlink", Of::Nvlink)
                             .Case("pci", Of::Pci)
                             .Case("net", Of::Net)
                             .Default(std::nullopt);
  if (of) {
    way.of = *of;
    return Error::success();
  }
  way.of = Of::Pair;
  auto [src, dst] = text.split('-');
  if (src.getAsInteger(10, way.src) || dst.getAsInteger(10, way.dst) || way.src < 0 || way.dst < 0)
    return bad(fmt::format("'{}' is no kind of way: any, nvlink, pci, net, or two ranks, such as "
                           "0-1",
                           text.str()));
  return Error::success();
}

static Expected<const model::MeasuredCurve *>
findCurve(const std::vector<model::MeasuredCurve> &curves, StringRef file, StringRef name) {
  if (curves.empty())
    return bad(fmt::format("{} has no measurements: expected nccl-tests' output, or CSV whose "
                           "header names a size and a time",
                           file.str()));
  if (name.empty() && curves.size() == 1)
    return &curves.front();
  const StringRef wanted = name.empty() ? StringRef("out-of-place") : name;
  for (const model::MeasuredCurve &curve : curves)
    if (curve.name == wanted)
      return &curve;
  std::vector<std::string> names;
  constexpr size_t shown = 8;
  for (const model::MeasuredCurve &curve : curves)
    if (names.size() < shown)
      names.push_back("'" + curve.name + "'");
  if (curves.size() == 1)
    return bad(fmt::format("{} has one curve only, without a name: leave out #{}", file.str(),
                           name.str()));
  return bad(fmt::format("{} has {}: {}{}; name one by KIND={}#NAME", file.str(),
                         plural(curves.size(), "curve"), llvm::join(names, ", "),
                         curves.size() > shown ? ", ..." : "", file.str()));
}

static std::string describe(const model::CostCurve &curve) {
  std::string text;
  for (const model::CostSegment &s : curve.segments)
    text += fmt::format("{}from {} {:.2f} us{}", text.empty() ? "" : "; ", formatBytes(s.lo),
                        s.alpha, s.beta > 0 ? fmt::format(" + {:.2f} GB/s", 1e-3 / s.beta) : "");
  return text;
}

Expected<SimCurve> parseCurve(StringRef text) {
  auto [kind, rest] = text.split('=');
  auto [file, name] = rest.split('#');
  if (file.empty())
    return bad(fmt::format("'{}' is not KIND=FILE", text.str()));
  SimCurve curve = {text.str(), kind.str(), file.str(), name.str(), {}};
  if (Error error = parseKind(kind, curve.way))
    return error;
  return curve;
}

Expected<std::string> readCurve(SimCurve &wanted) {
  auto source = readSource(wanted.file);
  if (!source)
    return bad(
        fmt::format("cannot read '{}': {}", wanted.file, llvm::toString(source.takeError())));
  const StringRef content = (*source)->getBuffer();
  const model::Measurements measured = model::readMeasurements({content.data(), content.size()});
  if (!measured.ok())
    return bad(fmt::format("{}{}: {}", wanted.file,
                           measured.line > 0 ? fmt::format(":{}", measured.line) : "",
                           measured.error));
  auto curve = findCurve(measured.curves, wanted.file, wanted.name);
  if (!curve)
    return curve.takeError();
  std::string why;
  std::optional<model::Fit> fit = model::fit((*curve)->points, {}, &why);
  if (!fit)
    return bad(fmt::format("{}: {}", wanted.file, why));
  wanted.way.curve = std::move(fit->curve);
  return fmt::format("curve {}, {}: {}", wanted.text, plural(fit->sizes, "size"),
                     describe(wanted.way.curve));
}

} // namespace ccl::cli
