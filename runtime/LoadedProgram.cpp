//===- LoadedProgram.cpp - Links object code into this process --------------===//
#include "runtime/LoadedProgram.h"

#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/TargetSelect.h"

#include <mutex>

namespace ccl {
namespace {

llvm::Error cannotLink(const Plan &plan, llvm::Error cause, std::string_view details) {
  return makeFailure(Failure::Machine, "cannot link {} (hash {}): {}{}", plan.program, plan.hash,
                     llvm::toString(std::move(cause)), details);
}

/// LLJIT only links here. Its compiler would set up a target machine for IR that
/// never comes.
class NoCompiler : public llvm::orc::IRCompileLayer::IRCompiler {
public:
  NoCompiler() : IRCompiler(llvm::orc::IRSymbolMapper::ManglingOptions()) {}
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> operator()(llvm::Module &) override {
    return makeFailure(Failure::Machine, "a plan holds object code only");
  }
};

llvm::Expected<std::unique_ptr<llvm::orc::LLJIT>> createLinker() {
  static std::once_flag once;
  std::call_once(once, [] { llvm::InitializeNativeTarget(); });
  return llvm::orc::LLJITBuilder()
      .setCompileFunctionCreator([](llvm::orc::JITTargetMachineBuilder) {
        return llvm::Expected<std::unique_ptr<llvm::orc::IRCompileLayer::IRCompiler>>(
            std::make_unique<NoCompiler>());
      })
      // Plans have no initializers of their own; those of sanitizers ran already.
      .setPlatformSetUp(llvm::orc::setUpInactivePlatform)
      .create();
}

class LinkedProgram final : public LoadedProgram {
public:
  static llvm::Expected<std::shared_ptr<LoadedProgram>> link(Plan plan) {
    auto program = std::shared_ptr<LinkedProgram>(new LinkedProgram(std::move(plan)));
    if (llvm::Error e = program->link())
      return cannotLink(program->plan(), std::move(e), program->problems);
    return program;
  }

  Kernel kernel(int64_t rank) const override {
    const int index = kernelIndex(rank);
    return index < 0 ? nullptr : kernels[size_t(index)];
  }
  FinishFunction finish() const override { return finishing; }

private:
  using LoadedProgram::LoadedProgram;

  llvm::Error link() {
    llvm::Expected<std::unique_ptr<llvm::orc::LLJIT>> linker = createLinker();
    if (!linker)
      return linker.takeError();
    jit = std::move(*linker);
    // The error of a look-up only says that it failed; why is reported on the side.
    jit->getExecutionSession().setErrorReporter(
        [this](llvm::Error e) { problems += "; " + llvm::toString(std::move(e)); });
    // memcpy and friends, and what sanitizers call, are this process'.
    auto generator = llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
        jit->getDataLayout().getGlobalPrefix());
    if (!generator)
      return generator.takeError();
    jit->getMainJITDylib().addGenerator(std::move(*generator));
    // The linker works on its own copy: the plan's may move, and has no alignment.
    if (llvm::Error e =
            jit->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(plan().object, plan().program)))
      return e;
    for (const KernelPlan &kernel : plan().kernels)
      if (llvm::Error e = find(kernel.symbol, kernels.emplace_back()))
        return e;
    for (const TransferPattern &transfer : plan().transfers)
      if (llvm::Error e = find(transfer.symbol, functions.transfers.emplace_back()))
        return e;
    if (llvm::Error e = find(plan().slice, functions.slice))
      return e;
    return find(plan().finish, finishing);
  }

  /// Leaves `function` null if it has no symbol.
  template <typename Function>
  llvm::Error find(const std::string &symbol, Function &function) {
    if (symbol.empty())
      return llvm::Error::success();
    llvm::Expected<llvm::orc::ExecutorAddr> address = jit->lookup(symbol);
    if (!address)
      return address.takeError();
    function = address->template toPtr<Function>();
    return llvm::Error::success();
  }

  std::string problems; ///< what `jit` had to say; outlives it
  std::unique_ptr<llvm::orc::LLJIT> jit;
  std::vector<Kernel> kernels;
  FinishFunction finishing = nullptr;
};

} // namespace

llvm::Expected<std::shared_ptr<LoadedProgram>> LoadedProgram::load(Plan plan) {
  return LinkedProgram::link(std::move(plan));
}

int LoadedProgram::kernelIndex(int64_t rank) const {
  for (size_t k = 0; k < thePlan.kernels.size(); ++k)
    for (auto [begin, end] : thePlan.kernels[k].ranks)
      if (rank >= begin && rank < end)
        return int(k);
  return -1;
}

} // namespace ccl
