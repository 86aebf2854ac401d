//===- Target.cpp - LLVM IR to object code for this machine ----------------===//
#include "codegen/host/EmitHost.h"

#include "codegen/host/Patterns.h"

#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Instrumentation/AddressSanitizer.h"
#include "llvm/Transforms/Instrumentation/ThreadSanitizer.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Vectorize/LoopVectorize.h"

#include <mutex>

using namespace llvm;

namespace ccl {

namespace {

/// The machine we run on; what the hardware is does not change.
struct HostTarget {
  std::string triple, cpu, features;
  host::Processor processor;

  static const HostTarget &get() {
    static const HostTarget target;
    return target;
  }

private:
  HostTarget() : triple(sys::getProcessTriple()), cpu(sys::getHostCPUName()) {
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
    processor.convertsHalf = Triple(triple).isAArch64();
    std::vector<std::string> names; // sorted: the order of a StringMap is arbitrary
    for (const auto &feature : sys::getHostCPUFeatures()) {
      names.push_back((feature.second ? "+" : "-") + feature.first().str());
      if (!feature.second)
        continue;
      if (feature.first() == "avx2")
        processor.vectorBits = std::max(processor.vectorBits, 256u);
      if (feature.first() == "avx512bw")
        processor.vectorBits = 512;
      processor.convertsHalf |= feature.first() == "f16c";
    }
    llvm::sort(names);
    features = llvm::join(names, ",");
  }
};

} // namespace

std::string hostTargetKey() {
  const HostTarget &host = HostTarget::get();
  return host.triple + " " + host.cpu + " " + host.features;
}

host::Processor host::hostProcessor() { return HostTarget::get().processor; }

static Expected<std::unique_ptr<TargetMachine>> createMachine() {
  const HostTarget &host = HostTarget::get();
  std::string error;
  const Target *target = TargetRegistry::lookupTarget(host.triple, error);
  if (!target)
    return createStringError(inconvertibleErrorCode(),
                             "this LLVM has no code generator for the host: " + error);
  std::unique_ptr<TargetMachine> machine(
      target->createTargetMachine(host.triple, host.cpu, host.features, TargetOptions(),
                                  Reloc::PIC_, std::nullopt, CodeGenOptLevel::Less));
  if (!machine)
    return createStringError(inconvertibleErrorCode(),
                             "LLVM cannot generate code for " + hostTargetKey());
  return machine;
}

/// Without triple, data layout and CPU, LLVM assumes 128-bit vectors and a cost model
/// that keeps loops scalar.
static void describeTarget(Module &module, TargetMachine &machine, StringRef sanitizer) {
  const HostTarget &host = HostTarget::get();
  module.setTargetTriple(host.triple);
  module.setDataLayout(machine.createDataLayout());
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", host.cpu);
    function.addFnAttr("target-features", host.features);
    // Most AVX-512 machines are tuned for 256 bits, right for mixed code.
    if (host.processor.vectorBits == 512)
      function.addFnAttr("prefer-vector-width", "512");
    if (sanitizer == "thread")
      function.addFnAttr(Attribute::SanitizeThread);
    if (sanitizer == "address")
      function.addFnAttr(Attribute::SanitizeAddress);
  }
}

/// The emitter writes SSA form with rotated loops, so of an -O2 pipeline only this is
/// left to do. A sanitizer sees the loops unvectorized: ThreadSanitizer skips accesses
/// wider than 16 bytes.
static void addPasses(ModulePassManager &passes, StringRef sanitizer) {
  FunctionPassManager functions;
  functions.addPass(SimplifyCFGPass());
  functions.addPass(EarlyCSEPass());
  if (sanitizer.empty()) {
    functions.addPass(LoopVectorizePass());
    functions.addPass(InstCombinePass());
    functions.addPass(SimplifyCFGPass());
  } else if (sanitizer == "thread") {
    functions.addPass(ThreadSanitizerPass());
  }
  passes.addPass(createModuleToFunctionPassAdaptor(std::move(functions)));
  if (sanitizer == "thread")
    passes.addPass(ModuleThreadSanitizerPass());
  if (sanitizer == "address")
    passes.addPass(AddressSanitizerPass(AddressSanitizerOptions()));
}

static void optimize(Module &module, TargetMachine &machine, StringRef sanitizer) {
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager callGraph;
  ModuleAnalysisManager modules;
  PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(callGraph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, callGraph, modules);
  ModulePassManager passes;
  addPasses(passes, sanitizer);
  passes.run(module, modules);
}

Expected<std::string> compileToObject(Module &module, const HostOptions &options, std::string *ir) {
  if (!options.sanitizer.empty() && options.sanitizer != "address" && options.sanitizer != "thread")
    return createStringError(inconvertibleErrorCode(), "unknown sanitizer '" + options.sanitizer +
                                                           "': known are 'address' and 'thread'");
  Expected<std::unique_ptr<TargetMachine>> machine = createMachine();
  if (!machine)
    return machine.takeError();
  describeTarget(module, **machine, options.sanitizer);
  optimize(module, **machine, options.sanitizer);
  if (ir) {
    ir->clear();
    raw_string_ostream(*ir) << module;
  }
  SmallString<0> object;
  raw_svector_ostream stream(object);
  legacy::PassManager codegen;
  if ((*machine)->addPassesToEmitFile(codegen, stream, nullptr, CodeGenFileType::ObjectFile))
    return createStringError(inconvertibleErrorCode(),
                             "LLVM cannot write object code for " + hostTargetKey());
  codegen.run(module);
  return object.str().str();
}

} // namespace ccl
