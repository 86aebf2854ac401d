//===- LoadedProgramTest.cpp - Object code becomes kernels ------------------===//
#include "test/unit/runtime/Programs.h"

#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

#include <doctest/doctest.h>

#include <cstring>

using namespace ccl;
using ccl::test::makeTeam;
using ccl::test::Team;

namespace {

/// Copies `count` i32 elements from `in` to `out` with memcpy of this process, and
/// fails as rank 1. Offsets are those of KernelArgs.
constexpr const char *copyKernels = R"(
declare ptr @memcpy(ptr, ptr, i64)
define i32 @copy(ptr %args) {
  %countPlace = getelementptr i8, ptr %args, i64 16
  %count = load i64, ptr %countPlace
  %buffersPlace = getelementptr i8, ptr %args, i64 40
  %buffers = load ptr, ptr %buffersPlace
  %in = load ptr, ptr %buffers
  %outPlace = getelementptr i8, ptr %buffers, i64 8
  %out = load ptr, ptr %outPlace
  %bytes = shl i64 %count, 2
  %r = call ptr @memcpy(ptr %out, ptr %in, i64 %bytes)
  ret i32 0
}
define i32 @refuse(ptr %args) { ret i32 42 }
)";
constexpr const char *lostKernel = R"(
declare i32 @nobody_defines_this()
define i32 @lost(ptr %args) {
  %r = call i32 @nobody_defines_this()
  ret i32 %r
}
)";

std::string compileToObject(const std::string &text) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  auto module = llvm::parseAssemblyString(text, diagnostic, context);
  REQUIRE(module);
  std::string error;
  const std::string triple = llvm::sys::getProcessTriple();
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  REQUIRE(target);
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, "", "", {}, llvm::Reloc::PIC_));
  module->setTargetTriple(triple);
  module->setDataLayout(machine->createDataLayout());
  llvm::SmallString<0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  REQUIRE_FALSE(
      machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile));
  passes.run(*module);
  return std::string(object.str());
}

Plan planWith(std::string object, std::vector<std::string> symbols) {
  Plan plan;
  plan.program = "copy";
  plan.hash = "c0de";
  plan.contract.collective = model::Collective::AllReduce;
  plan.contract.reduction = model::Reduction::Sum;
  plan.contract.ranks = int64_t(symbols.size());
  plan.type = ElementType::I32;
  plan.buffers = {{"in", model::Role::In, 1}, {"out", model::Role::Out, 1}};
  for (size_t r = 0; r < symbols.size(); ++r) {
    KernelPlan kernel;
    kernel.ranks = {{int64_t(r), int64_t(r) + 1}};
    kernel.symbol = symbols[r];
    plan.kernels.push_back(kernel);
  }
  plan.object = std::move(object);
  return plan;
}

std::string errorOf(llvm::Expected<std::shared_ptr<LoadedProgram>> program) {
  return program ? "" : llvm::toString(program.takeError());
}

bool contains(const std::string &text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("the ABI that generated code relies on") {
  CHECK(offsetof(KernelArgs, count) == 16);
  CHECK(offsetof(KernelArgs, buffers) == 40);
  CHECK(offsetof(ChannelEnd, arrive) == 8);
}

TEST_CASE("an object is linked, runs, and resolves symbols of the process") {
  const std::string object = compileToObject(copyKernels);
  const auto program = llvm::cantFail(LoadedProgram::load(planWith(object, {"copy"})));
  CHECK(program->kernelIndex(0) == 0);
  CHECK(program->kernelIndex(1) == -1);
  CHECK(!program->kernel(1));

  Team communicator = makeTeam(1);
  std::vector<int32_t> in = {1, 2, 3, 4, 5}, out(5);
  LaunchArgs args;
  args.in = in.data();
  args.out = out.data();
  args.count = 5;
  llvm::cantFail(communicator[0].launch(program, args));
  CHECK(in == out);
}

TEST_CASE("a kernel's own error code is reported") {
  const std::string object = compileToObject(copyKernels);
  const auto program = llvm::cantFail(LoadedProgram::load(planWith(object, {"refuse"})));
  Team communicator = makeTeam(1);
  int32_t value = 0;
  LaunchArgs args;
  args.in = args.out = &value;
  args.count = 1;
  CHECK(contains(llvm::toString(communicator[0].launch(program, args)), "returned 42"));
}

TEST_CASE("what cannot be linked says why") {
  const std::string object = compileToObject(copyKernels);
  CHECK(contains(errorOf(LoadedProgram::load(planWith(object, {"missing"}))), "missing"));
  CHECK(contains(errorOf(LoadedProgram::load(planWith(compileToObject(lostKernel), {"lost"}))),
                 "nobody_defines_this"));
  CHECK(contains(errorOf(LoadedProgram::load(planWith("junk", {"copy"}))),
                 "cannot link copy (hash c0de)"));
  CHECK(contains(errorOf(LoadedProgram::load(planWith("", {"copy"}))), "cannot link"));
  CHECK(contains(errorOf(LoadedProgram::load(planWith(object.substr(0, 200), {"copy"}))),
                 "cannot link"));
}
