//===- Compile.cpp - ccl compile: stop anywhere ---------------------------------===//
#include "frontend/cli/Commands.h"
#include "frontend/cli/CompileSettings.h"
#include "frontend/cli/Input.h"
#include "frontend/cli/Output.h"
#include "frontend/cli/ScheduleText.h"
#include "frontend/cli/WriteFile.h"

#include "codegen/Compile.h"
#include "codegen/Count.h"
#include "codegen/cuda/CopyEngines.h"
#include "codegen/cuda/SplitLoops.h"
#include "codegen/host/EmitHost.h"
#include "codegen/rdma/Messages.h"
#include "runtime/cuda/DeviceArch.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include <chrono>
#include <unistd.h>

namespace ccl::cli {

namespace {

enum class Phase { Algorithm, Program, WorkRequests, Llvm, Object, Cuda, Cubin, Plan };
constexpr std::pair<const char *, Phase> phases[] = {
    {"algorithm", Phase::Algorithm}, {"program", Phase::Program}, {"wr", Phase::WorkRequests},
    {"llvm", Phase::Llvm},           {"object", Phase::Object},   {"cuda", Phase::Cuda},
    {"cubin", Phase::Cubin},         {"plan", Phase::Plan}};

struct CompileFlags {
  InputOptions input;
  LoweringFlags lowering;
  std::string emit = "program", output = "-", dumpDir, type = "float", op, arch;
  bool multimem = false, tma = false, copyEngines = false;
  int64_t rank = -1, count = 1 << 20, nics = 1;
  bool stats = false, json = false;
};

class Compiler {
public:
  Compiler(Session &session, const CompileFlags &flags) : session(session), flags(flags) {}
  int run();

private:
  int parse();
  int parseArchitecture();
  int toAlgorithm();
  int toPrograms();
  int toCode();
  int toWorkRequests();
  int prove();
  std::string artifact() const;
  std::string planJson() const;
  int write(const std::string &text);
  int dump(const char *file, const std::string &text);
  void printStats();
  void printJson();
  bool forGpu() const { return !options.arch.empty(); }

  Session &session;
  CompileFlags flags;
  Phase last = Phase::Program;
  Input input;
  Instance instance;
  CompileOptions options;
  CompileStats stats;
  Plan plan;
  double readMs = 0;
  std::string algorithmText, programText, ir;
};

class Stopwatch {
public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
  }

private:
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

} // namespace

int Compiler::parse() {
  const auto *phase = llvm::find_if(phases, [&](auto &p) { return flags.emit == p.first; });
  if (phase == std::end(phases)) {
    std::vector<std::string> names;
    for (auto &[name, value] : phases)
      names.emplace_back(name);
    return session.usage(
        fmt::format("--emit {}: the phases are {}", flags.emit, fmt::join(names, ", ")));
  }
  last = phase->second;
  std::optional<ElementType> type = parseElementType(flags.type);
  if (!type)
    return session.usage(
        fmt::format("-d {}: expected a type such as float, double, int32", flags.type));
  options.type = *type;
  if (!flags.op.empty()) {
    options.reduction = model::parseReduction(flags.op);
    if (!options.reduction)
      return session.usage(fmt::format("-o {}: unknown reduction", flags.op));
    flags.input.reduction = flags.op;
  }
  const bool isBinary = last == Phase::Object || last == Phase::Cubin;
  if (isBinary && flags.output == "-" && !flags.json && isatty(STDOUT_FILENO))
    return session.usage(fmt::format("--emit {} is binary: name a file with -o", flags.emit));
  return parseArchitecture();
}

/// Of what is for GPUs: as told, or that of this machine's, or what most have.
int Compiler::parseArchitecture() {
  if (!flags.arch.empty() && flags.arch != "shim" && !ccl::parseArch(flags.arch))
    return session.usage(
        fmt::format("--arch {}: expected a GPU's, such as sm_90a, or shim", flags.arch));
  if (!flags.arch.empty() && last != Phase::Cuda && last != Phase::Cubin && last != Phase::Plan)
    return session.usage(
        fmt::format("--arch is for --emit cuda, cubin and plan, not for {}", flags.emit));
  if ((flags.multimem || flags.tma || flags.copyEngines) && last != Phase::Cuda &&
      last != Phase::Cubin && (last != Phase::Plan || flags.arch.empty()))
    return session.usage(fmt::format("--{} is for code for GPUs: --emit cuda, cubin, or plan with "
                                     "--arch",
                                     flags.multimem ? "multimem"
                                     : flags.tma    ? "tma"
                                                    : "copy-engines"));
  options.multimem = flags.multimem;
  options.tma = flags.tma;
  options.copyEngines = flags.copyEngines;
  options.arch = flags.arch;
  if (flags.arch.empty() && (last == Phase::Cuda || last == Phase::Cubin))
    options.arch =
        cuda::firstDeviceArch(session.settings.text(Setting::CudaLibrary)).value_or("sm_90a");
  options.sourceOnly = last == Phase::Cuda;
  return Fine;
}

int Compiler::dump(const char *file, const std::string &text) {
  if (flags.dumpDir.empty())
    return Fine;
  llvm::SmallString<128> path(flags.dumpDir);
  std::error_code error = llvm::sys::fs::create_directories(path);
  llvm::sys::path::append(path, file);
  std::string why = error ? fmt::format("cannot write '{}': {}", path.str().str(), error.message())
                          : writeFile(std::string(path), text);
  return why.empty() ? int(Fine) : session.machine(why);
}

int Compiler::toAlgorithm() {
  Stopwatch watch;
  if (int status = specialize(session, instance))
    return status;
  stats.specializeMs = watch.ms();
  stats.algorithmOps = countOps(instance.op());
  if (last == Phase::Algorithm || !flags.dumpDir.empty())
    algorithmText = moduleText(*instance.module);
  return dump("algorithm.mlir", algorithmText);
}

int Compiler::prove() {
  AlgorithmOp algorithm = instance.op();
  mlir::FailureOr<model::Contract> contract = getModelContract(algorithm);
  if (mlir::failed(contract))
    return session.refused();
  plan.contract = *contract;
  if (flags.rank >= contract->ranks)
    return session.usage(
        fmt::format("--rank {}: ranks are 0 to {}", flags.rank, contract->ranks - 1));
  return mlir::succeeded(proveAlgorithm(*instance.module, algorithm, plan, stats))
             ? Fine
             : session.refused();
}

int Compiler::toPrograms() {
  Stopwatch watch;
  if (int status = lower(session, instance))
    return status;
  if (forGpu() && flags.rank < 0 && !stats.proofPending)
    cuda::splitLoops(instance.op(), plan);
  stats.lowerMs = watch.ms();
  for (auto program : instance.module->getOps<ProgramOp>())
    stats.programOps += countOps(program);
  stats.instructions = countInstructions(instance.op(), UINT64_MAX);
  programText = moduleText(*instance.module);
  if (int status = dump("program.mlir", programText))
    return status;
  if (flags.rank >= 0 && !instance.op().getLowered()) {
    if (stats.proofPending)
      printError("ccl: note: not proved: {} moves, and the program of one rank\n", stats.moves);
    return Fine;
  }
  if (mlir::failed(provePrograms(instance.op(), plan, stats)))
    return session.refused();
  if (!stats.unproved.empty())
    printError("ccl: note: not proved: {}\n", stats.unproved);
  return Fine;
}

int Compiler::toCode() {
  const bool generated = mlir::succeeded(generate(instance.op(), options, plan, stats, &ir));
  // A source that does not compile is wanted most.
  if (generated || !ir.empty())
    if (int status = dump(forGpu() ? "kernel.cu" : "kernel.ll", ir))
      return status;
  if (!generated)
    return session.refused(stats.machineFailed);
  if (!forGpu())
    return dump("kernel.o", plan.object);
  if (options.sourceOnly)
    return Fine;
  return dump(options.arch == "shim" ? "kernel.so" : "kernel.cubin", plan.cuda.image);
}

int Compiler::toWorkRequests() {
  if (flags.lowering.hosts.empty())
    return session.usage("--emit wr: --hosts says which ranks share a host: 8, or 0,0,1,1");
  HostOptions host;
  host.type = options.type;
  host.reduction = options.reduction.value_or(plan.contract.reduction);
  host.rank = flags.rank;
  host.wires = true;
  plan.program = instance.algorithm;
  if (mlir::failed(planHost(instance.op(), plan.contract, host, plan)))
    return session.refused();
  ScheduleRequest request;
  request.count = flags.count;
  request.nics = flags.nics;
  request.slotBytes = session.settings.bytes(Setting::SlotBytes);
  request.rank = flags.rank;
  llvm::Expected<std::vector<int32_t>> hosts =
      parseHosts(flags.lowering.hosts, plan.contract.ranks);
  if (!hosts)
    return session.usage("--hosts: " + llvm::toString(hosts.takeError()));
  plan.hosts = std::move(*hosts);
  if (mlir::failed(rdma::refuseFarAccess(instance.op(), plan.hosts, flags.rank)))
    return session.refused();
  llvm::Expected<std::string> text = scheduleText(plan, request);
  if (!text)
    return session.machine(llvm::toString(text.takeError()));
  ir = std::move(*text);
  return Fine;
}

std::string Compiler::planJson() const {
  std::vector<std::string> buffers, kernels;
  for (const BufferPlan &buffer : plan.buffers) {
    JsonLine line;
    line.text("name", buffer.name);
    line.text("role", model::name(buffer.role));
    line.number("chunks", buffer.chunks);
    buffers.push_back(line.str());
  }
  for (const KernelPlan &kernel : plan.kernels) {
    JsonLine line;
    std::vector<std::string> ranks, channels;
    for (auto [begin, end] : kernel.ranks)
      ranks.push_back(fmt::format("[{},{}]", begin, end));
    for (const ChannelFamily &family : kernel.channels) {
      JsonLine channel;
      channel.text("direction", family.to ? "to" : "from");
      channel.number("tag", family.tag);
      channel.number("slots", family.slots);
      channels.push_back(channel.str());
    }
    // Without code of its own it is a table, which the runtime executes.
    kernel.symbol.empty() ? line.null("symbol") : line.text("symbol", kernel.symbol);
    int64_t agents = 0, instructions = 0;
    for (const RankAgents &rank : kernel.agents) {
      agents += int64_t(rank.agents.size());
      instructions += int64_t(rank.instructions.size());
    }
    if (!kernel.agents.empty()) {
      line.number("agents", agents);
      line.number("instructions", instructions);
    }
    line.array("ranks", ranks);
    line.array("channels", channels);
    kernels.push_back(line.str());
  }
  JsonLine line;
  line.text("program", plan.program);
  line.text("hash", plan.hash);
  line.text("contract", plan.contract.str());
  line.number("ranks", plan.contract.ranks);
  line.number("chunks", plan.contract.chunks);
  line.text("type", name(plan.type));
  line.array("buffers", buffers);
  line.array("kernels", kernels);
  if (forGpu()) {
    line.text("arch", plan.cuda.arch);
    line.number("threads", plan.cuda.threads);
    line.number("cubin_bytes", int64_t(plan.cuda.image.size()));
  } else {
    line.number("object_bytes", int64_t(plan.object.size()));
  }
  line.number("max_count", plan.maxCount);
  line.boolean("divisible", plan.divisible);
  line.boolean("uneven_safe", plan.unevenSafe);
  line.boolean("disjoint_proved", plan.disjointProved);
  line.boolean("in_place_proved", plan.inPlaceProved);
  line.boolean("direct", plan.direct);
  line.boolean("exit_barrier", plan.exitBarrier);
  line.boolean("batch_barrier", plan.batchBarrier);
  line.number("min_slots", plan.minSlots);
  line.number("pipeline_stages", plan.pipelineStages);
  return line.str() + "\n";
}

std::string Compiler::artifact() const {
  switch (last) {
  case Phase::Algorithm: return algorithmText;
  case Phase::Program: return programText;
  case Phase::WorkRequests: return ir;
  case Phase::Llvm: return ir;
  case Phase::Object: return plan.object;
  case Phase::Cuda: return ir;
  case Phase::Cubin: return plan.cuda.image;
  case Phase::Plan: return planJson();
  }
  return "";
}

int Compiler::write(const std::string &text) {
  // With --json stdout belongs to the statistics.
  if (flags.output == "-" && flags.json)
    return Fine;
  std::string why = writeFile(flags.output, text);
  return why.empty() ? int(Fine) : session.machine(why);
}

void Compiler::printJson() {
  JsonLine line;
  line.text("algorithm", instance.algorithm);
  line.number("ranks", plan.contract.ranks);
  flags.rank >= 0 ? line.number("rank", flags.rank) : line.null("rank");
  line.text("emit", flags.emit);
  line.number("algorithm_ops", int64_t(stats.algorithmOps));
  line.number("program_ops", int64_t(stats.programOps));
  line.number("moves", int64_t(stats.moves));
  line.number("instructions", int64_t(stats.instructions));
  line.real("read_ms", readMs);
  line.real("specialize_ms", stats.specializeMs);
  line.real("prove_ms", stats.proveMs);
  line.real("lower_ms", stats.lowerMs);
  line.real("jit_ms", stats.jitMs);
  if (forGpu()) {
    std::vector<std::string> kernels;
    for (const KernelResources &kernel : stats.kernels) {
      JsonLine needs;
      needs.text("name", kernel.name);
      needs.number("registers", kernel.registers);
      needs.number("shared_bytes", kernel.sharedBytes);
      needs.number("spill_bytes", kernel.spillBytes);
      needs.number("stack_bytes", kernel.stackBytes);
      kernels.push_back(needs.str());
    }
    line.text("arch", options.arch);
    line.number("cubin_bytes", int64_t(plan.cuda.image.size()));
    line.real("nvrtc_ms", stats.nvrtcMs);
    line.array("kernels", kernels);
    if (options.copyEngines)
      line.number("copy_engines", int64_t(cuda::countEngines(plan.cuda).agents));
  }
  line.print();
}

void Compiler::printStats() {
  if (flags.json) {
    printJson();
    return;
  }
  if (!flags.stats)
    return;
  auto row = [](const char *phase, double ms, const std::string &text) {
    printError("{:<12} {:9.2f} ms  {}\n", phase, ms, text);
  };
  row("read", readMs, "");
  row("specialize", stats.specializeMs, fmt::format("{} ops", stats.algorithmOps));
  if (stats.proveMs > 0)
    row("prove", stats.proveMs,
        fmt::format("{} moves{}{}", stats.moves, stats.bySymmetry.empty() ? "" : ", ",
                    stats.bySymmetry));
  if (last >= Phase::Program)
    row("lower", stats.lowerMs,
        fmt::format("{} ops, {} instructions{}", stats.programOps, stats.instructions,
                    flags.rank >= 0 ? fmt::format(" (rank {})", flags.rank) : " (all ranks)"));
  if (last >= Phase::Llvm && !forGpu())
    row("generate", stats.jitMs, fmt::format("{} bytes of object code", plan.object.size()));
  if (!forGpu())
    return;
  row("emit", stats.jitMs - stats.nvrtcMs, fmt::format("{} bytes of CUDA", ir.size()));
  if (const auto engines = cuda::countEngines(plan.cuda); options.copyEngines)
    printError("  copy engines: {} of {}, at most {} on each; {}, {} signals and waits\n",
               plural(engines.agents, "agent"), plural(engines.ranks, "rank"), engines.mostAgents,
               plural(engines.transfers, "transfer"), engines.signals);
  if (!options.sourceOnly)
    row("compile", stats.nvrtcMs,
        fmt::format("{} bytes for {}", plan.cuda.image.size(), options.arch));
  for (const KernelResources &kernel : stats.kernels)
    printError("  {}: {} registers, {} bytes of shared memory, {} of stack, {} spilled\n",
               kernel.name, kernel.registers, kernel.sharedBytes, kernel.stackBytes,
               kernel.spillBytes);
}

int Compiler::run() {
  session.json = flags.json;
  options = compileOptions(session.settings);
  options.cacheDir = options.overrideDir = ""; // all is made anew, and seen
  options.dumpDir = flags.dumpDir;
  flags.input.warnings = InputOptions::Warnings::Count;
  if (int status = parse())
    return status;
  Stopwatch watch;
  if (int status = openOne(session, "compile", flags.input, flags.lowering, input, instance))
    return status;
  readMs = watch.ms();
  instance.lowering.rank = flags.rank;
  options.lowering = instance.lowering;
  options.algorithm = instance.algorithm;
  options.sanitizer = CCL_SANITIZE;
  if (int status = toAlgorithm())
    return status;
  if (last >= Phase::Program)
    for (int (Compiler::*step)() : {&Compiler::prove, &Compiler::toPrograms})
      if (int status = (this->*step)())
        return status;
  if (last == Phase::WorkRequests)
    if (int status = toWorkRequests())
      return status;
  if (last >= Phase::Llvm)
    if (int status = toCode())
      return status;
  if (int status = write(artifact()))
    return status;
  printStats();
  return Fine;
}

Action addCompile(CLI::App &app) {
  auto flags = std::make_shared<CompileFlags>();
  addInputOptions(app, flags->input);
  addLoweringOptions(app, flags->lowering);
  app.add_option("--rank", flags->rank, "lower this rank only")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 40));
  app.add_option("--emit", flags->emit,
                 "where to stop: algorithm, program, wr (what goes between hosts, as RDMA work "
                 "requests), llvm, object, cuda, cubin, plan (default program)");
  app.add_option("--count", flags->count, "of wr: elements of one shard (default 1048576)")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 50));
  app.add_option("--nics", flags->nics, "of wr: NICs of each host (default 1)")
      ->check(CLI::Range(int64_t(1), int64_t(1024)));
  app.add_option("--arch", flags->arch,
                 "of cuda, cubin and plan: a GPU's, such as sm_90a (default: that of this "
                 "machine's, or sm_90a if it has none), or shim, for this machine's processor");
  app.add_flag("--multimem", flags->multimem,
               "what is one place of all ranks goes through the switch (sm_90 or later)");
  app.add_flag("--tma", flags->tma, "copies go by the tensor memory accelerator (sm_90 or later)");
  app.add_flag("--copy-engines", flags->copyEngines,
               "proxies are the GPU's copy engines instead of thread blocks");
  app.add_option("-o,--output", flags->output, "file for the result; - is stdout (the default)");
  app.add_option("--dump-phases-to", flags->dumpDir, "folder that gets the result of every phase");
  app.add_option("-d,--type,--datatype", flags->type, "element type (default float)");
  app.add_option("--op", flags->op, "reduction (default: the contract's)");
  app.add_flag("--stats", flags->stats, "ops, instructions and time of every phase, to stderr");
  app.add_flag("--json", flags->json, "the statistics as JSON on stdout, and no result there");
  return [flags](Session &session) { return Compiler(session, *flags).run(); };
}

} // namespace ccl::cli
