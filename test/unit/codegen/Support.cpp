//===- Support.cpp ----------------------------------------------------------===//
#include "test/unit/codegen/Support.h"

#include "mlir/Parser/Parser.h"

#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

using namespace mlir;

namespace ccl::test {

//===----------------------------------------------------------------------===//
// IR
//===----------------------------------------------------------------------===//

static DialectRegistry registry() {
  DialectRegistry dialects;
  registerDialects(dialects);
  return dialects;
}

Ir::Ir() : context(registry(), MLIRContext::Threading::DISABLED) {
  context.printOpOnDiagnostic(false);
  context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
    static const char *const severity[] = {"note", "warning", "error", "remark"};
    diagnostics +=
        fmt::format("{}: {}\n", severity[int(diagnostic.getSeverity())], diagnostic.str());
    for (Diagnostic &note : diagnostic.getNotes())
      diagnostics += fmt::format("note: {}\n", note.str());
  });
}

ModuleOp Ir::parse(const std::string &text) {
  module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
  if (!module)
    throw std::runtime_error(diagnostics + text);
  return *module;
}

AlgorithmOp Ir::algorithm() { return *module->getOps<AlgorithmOp>().begin(); }

std::string moduleText(const std::string &contract, int64_t ranks, int64_t chunks,
                       const std::string &program) {
  return fmt::format("ccl.algorithm @a implements #ccl.contract<{}> {{\n"
                     "  %x = ccl.buffer inout ranks({}) chunks({})\n}}\n{}",
                     contract, ranks, chunks, program);
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

template <typename T>
static T take(llvm::Expected<T> value) {
  if (!value)
    throw std::runtime_error(llvm::toString(value.takeError()));
  return std::move(*value);
}

Linked::Linked(const std::string &object) {
  (void)hostTargetKey(); // sets LLVM's native target up
  jit = take(llvm::orc::LLJITBuilder().setPlatformSetUp(llvm::orc::setUpInactivePlatform).create());
  jit->getMainJITDylib().addGenerator(
      take(llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
          jit->getDataLayout().getGlobalPrefix())));
  if (llvm::Error error = jit->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(object)))
    throw std::runtime_error(llvm::toString(std::move(error)));
}

void *Linked::address(const std::string &symbol) {
  return take(jit->lookup(symbol)).toPtr<void *>();
}

Compiled::Compiled(const std::string &text, HostOptions options) {
  options.sanitizer = CCL_SANITIZE;
  Ir source;
  source.parse(text);
  FailureOr<model::Contract> contract = getModelContract(source.algorithm());
  if (failed(contract))
    throw std::runtime_error(source.diagnostics);
  if (failed(planHost(source.algorithm(), *contract, options, plan)))
    throw std::runtime_error(source.diagnostics);
  llvm::LLVMContext context;
  auto module = emitHost(source.algorithm(), options, context, plan);
  if (failed(module))
    throw std::runtime_error(source.diagnostics);
  plan.object = take(compileToObject(**module, options, &ir));
  code = std::make_unique<Linked>(plan.object);
}

Compiled::Compiled(Plan compiled)
    : plan(std::move(compiled)), code(std::make_unique<Linked>(plan.object)) {}

Kernel Compiled::kernel(int64_t rank) {
  for (const KernelPlan &kernel : plan.kernels)
    for (auto [first, last] : kernel.ranks)
      if (rank >= first && rank < last)
        return code->get<Kernel>(kernel.symbol);
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Ranks
//===----------------------------------------------------------------------===//

static int32_t spin(KernelArgs *, ChannelEnd *end, uint64_t value) {
  auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (__atomic_load_n(end->arrive, __ATOMIC_ACQUIRE) < value) {
    if (std::chrono::steady_clock::now() > limit)
      return 99;
    std::this_thread::yield();
  }
  return 0;
}

World::World(Compiled &program, int64_t slotElements)
    : program(program), ranks(program.plan.ranks()),
      slotBytes(slotElements * sizeOf(program.plan.type)), tables(size_t(ranks)),
      args(size_t(ranks)) {
  for (const KernelPlan &kernel : program.plan.kernels) {
    size_t index = 0;
    for (auto [first, last] : kernel.ranks)
      for (int64_t rank = first; rank < last; ++rank)
        connect(rank, kernel, index++);
  }
}

void World::connect(int64_t rank, const KernelPlan &kernel, size_t index) {
  std::vector<ChannelEnd *> &table = tables[size_t(rank)];
  table.resize(kernel.channels.size() * size_t(ranks));
  for (size_t f = 0; f < kernel.channels.size(); ++f) {
    const ChannelFamily &family = kernel.channels[f];
    for (int32_t peer : kernel.peers[f][index]) {
      auto key = family.to ? std::make_tuple(rank, int64_t(peer), family.tag)
                           : std::make_tuple(int64_t(peer), rank, family.tag);
      Wire &wire = wires[key];
      wire.slots.resize(size_t(family.slots * slotBytes));
      auto end = std::make_unique<ChannelEnd>();
      end->arrive = family.to ? &wire.freed : &wire.filled;
      end->depart = family.to ? &wire.filled : &wire.freed;
      end->slots = wire.slots.data();
      end->slotBytes = slotBytes;
      end->numSlots = family.slots;
      end->peer = peer;
      end->tag = family.tag;
      end->to = family.to;
      table[f * size_t(ranks) + size_t(peer)] = end.get();
      ends.push_back(std::move(end));
    }
  }
}

std::vector<int32_t> World::launch(int64_t count, int64_t microBatches, int64_t stride,
                                   const std::vector<std::vector<void *>> &buffers) {
  std::vector<void *const *> peers;
  for (const auto &table : buffers)
    peers.push_back(table.data());
  std::vector<int32_t> codes(size_t(ranks), 0);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    KernelArgs &a = args[size_t(rank)];
    a = KernelArgs();
    a.me = rank;
    a.ranks = ranks;
    a.count = count;
    a.microBatches = a.endBatch = microBatches;
    a.stride = stride;
    a.buffers = buffers[size_t(rank)].data();
    a.peers = peers.data();
    a.channels = tables[size_t(rank)].data();
    a.wait = spin;
    if (prepare)
      prepare(a);
    if (Kernel kernel = program.kernel(rank))
      threads.emplace_back([&codes, &a, rank, kernel] { codes[size_t(rank)] = kernel(&a); });
  }
  for (std::thread &thread : threads)
    thread.join();
  return codes;
}

} // namespace ccl::test
