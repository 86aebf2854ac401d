//===- Program.cpp --------------------------------------------------------------===//
#include "frontend/api/Border.h"
#include "frontend/api/Compiler.h"
#include "frontend/cli/Source.h"
#include "passes/synthesis/generators/Generators.h"
#include "runtime/Settings.h"

#include <fmt/ranges.h>

namespace ccl {
inline namespace jit {

Result<std::shared_ptr<const Program::Impl>> makeProgram(Source source,
                                                         const ProgramOptions &options) {
  Result<Compiled> compiled = compileSource(source, options);
  if (!compiled)
    return compiled.error();
  auto impl = std::make_shared<Program::Impl>();
  impl->source = std::move(source);
  impl->options = options;
  impl->loaded = std::move(compiled->loaded);
  impl->remarks = std::move(compiled->remarks);
  return std::shared_ptr<const Program::Impl>(std::move(impl));
}

Result<std::shared_ptr<cuda::LoadedCudaProgram>>
Program::Impl::onGpus(const cuda::Driver &driver, const std::string &arch) const {
  std::lock_guard lock(gpusMutex);
  std::shared_ptr<cuda::LoadedCudaProgram> &found = gpus[arch];
  if (!found) {
    Result<Plan> plan = compileForGpus(source, options, arch);
    if (!plan)
      return plan.error();
    auto loaded = cuda::LoadedCudaProgram::load(driver, std::move(*plan));
    if (!loaded)
      return toError(loaded.takeError());
    found = std::move(*loaded);
  }
  return found;
}

Result<Program> Program::Impl::handle(Result<std::shared_ptr<const Impl>> made) {
  return made ? Result<Program>(Program(std::move(*made))) : made.error();
}

Result<Program> Program::compile(std::string_view text, const ProgramOptions &options,
                                 std::string_view label) {
  return guarded([&]() -> Result<Program> {
    return Impl::handle(makeProgram({std::string(text), std::string(label), {}, {}}, options));
  });
}

Result<Source> readProgram(const std::string &path) {
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = cli::readSource(path);
  if (!buffer)
    return argumentError(
        fmt::format("cannot read '{}': {}", path, llvm::toString(buffer.takeError())));
  return Source{(*buffer)->getBuffer().str(), path, {}, {}};
}

Result<Program> Program::compileFile(const std::string &path, const ProgramOptions &options) {
  return guarded([&]() -> Result<Program> {
    Result<Source> source = readProgram(path);
    return source ? Impl::handle(makeProgram(std::move(*source), options)) : source.error();
  });
}

Result<Program> Program::compile(const Algorithm &algorithm, const ProgramOptions &options) {
  return guarded([&] { return Impl::handle(makeProgram({{}, {}, algorithm, {}}, options)); });
}

Result<std::string> chooseGenerator(Collective collective, const std::string &wanted,
                                    const std::string &setting, const char *&reason) {
  if (!wanted.empty()) {
    reason = "the call";
    return wanted;
  }
  if (!setting.empty()) {
    reason = "CCL_ALGO";
    if (findGenerator(toInternal(collective), setting))
      return setting;
    std::vector<std::string_view> names; // one may be that of several collectives'
    for (const Generator &generator : ccl::generators())
      if (!llvm::is_contained(names, std::string_view(generator.name)))
        names.push_back(generator.name);
    if (!llvm::is_contained(names, setting))
      return argumentError(fmt::format("CCL_ALGO={}: no generator has that name; there are: {}",
                                       setting, fmt::join(names, ", ")));
  }
  reason = "default";
  const Generator *usual = findGenerator(toInternal(collective), "");
  if (!usual)
    return argumentError(fmt::format("nothing generates {}", name(collective)));
  return usual->name.str();
}

Result<ProgramOptions> chooseProgram(Collective collective, const ProgramOptions &options) {
  if (!isValid(collective))
    return argumentError("there is no such collective");
  if (options.ranks < 1)
    return argumentError("a generator needs a number of ranks");
  llvm::Expected<Settings> settings = Settings::fromEnvironment();
  if (!settings)
    return toError(settings.takeError());
  const char *reason = "";
  Result<std::string> algorithm =
      chooseGenerator(collective, options.algorithm, settings->text(Setting::Algo), reason);
  if (!algorithm)
    return algorithm.error();
  ProgramOptions chosen = options;
  chosen.algorithm = *algorithm;
  return chosen;
}

Result<Program> Program::generate(Collective collective, const ProgramOptions &options) {
  return guarded([&]() -> Result<Program> {
    Result<ProgramOptions> chosen = chooseProgram(collective, options);
    return chosen ? Impl::handle(makeProgram({{}, {}, {}, collective}, *chosen)) : chosen.error();
  });
}

std::vector<std::string> Program::generators(Collective collective) {
  if (!isValid(collective))
    return {};
  Result<std::vector<std::string>> names = guarded([&]() -> Result<std::vector<std::string>> {
    const Generator *usual = findGenerator(toInternal(collective), "");
    std::vector<std::string> found;
    if (usual)
      found.push_back(usual->name.str());
    for (const Generator &generator : ccl::generators())
      if (&generator != usual && llvm::is_contained(generator.collectives, toInternal(collective)))
        found.push_back(generator.name.str());
    return found;
  });
  return names ? std::move(*names) : std::vector<std::string>();
}

static const Plan &planOf(const std::shared_ptr<const Program::Impl> &impl) {
  return impl->loaded->plan();
}

const std::string &Program::name() const { return planOf(impl).program; }
const std::string &Program::hash() const { return planOf(impl).hash; }
Collective Program::collective() const { return toPublic(planOf(impl).contract.collective); }
int Program::ranks() const { return int(planOf(impl).ranks()); }
int Program::root() const { return int(planOf(impl).contract.root); }
DataType Program::type() const { return toPublic(planOf(impl).type); }
std::optional<Op> Program::op() const { return toPublic(planOf(impl).contract.reduction); }
int64_t Program::inShards() const { return planOf(impl).contract.inShards(); }
int64_t Program::outShards() const { return planOf(impl).contract.outShards(); }
bool Program::provedOutOfPlace() const { return planOf(impl).disjointProved; }
bool Program::provedInPlace() const { return planOf(impl).inPlaceProved; }
const std::string &Program::remarks() const { return impl->remarks; }

Result<std::string> Program::text(Stage stage) const {
  return guarded([&] { return printStage(impl->source, impl->options, stage); });
}

} // namespace jit
} // namespace ccl
