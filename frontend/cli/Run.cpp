//===- Run.cpp - ccl run: execute, check, time ---------------------------------===//
//
// The options are ours and nccl-tests' letters. Where nccl-tests means a GPU, the letter
// is taken and ignored (said at INFO); where its meaning would be misunderstood, it is
// refused.
//===----------------------------------------------------------------------===//
#include "frontend/cli/Commands.h"
#include "frontend/cli/CompileSettings.h"
#include "frontend/cli/Forked.h"
#include "frontend/cli/Input.h"
#include "frontend/cli/Launcher.h"
#include "frontend/cli/MeasureCuda.h"
#include "frontend/cli/Output.h"
#include "frontend/cli/Sizes.h"
#include "frontend/cli/Table.h"

#include "runtime/Log.h"
#include "runtime/Memory.h"
#include "runtime/cuda/DeviceArch.h"
#include "runtime/hosts/HostOptions.h"

#include "llvm/ADT/StringExtras.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include <bit>
#include <thread>

namespace ccl::cli {

namespace {

/// As typed.
struct RunOptions {
  InputOptions input;
  LoweringFlags lowering;
  std::string bytes, counts, begin, end, step, factor, types = "float", ops, transport, socket,
                                                       address;
  std::string gpus, threads, registration, unalign;
  std::string device = "host";
  std::vector<int> cudaDevices;
  int64_t graph = 0, instances = 0;
  std::optional<double> timeout;
  std::optional<int64_t> rank;
  bool inPlace = false, outOfPlace = false, check = false, json = false, copyEngines = false;
  std::vector<std::string> uneven;
  int64_t blocking = 0, checks = 1;
  MeasureOptions measure;
};

/// What there is to run on.
struct GpusSeen {
  int count = 0;
  std::string arch; ///< of the first that is used
};

class Runner {
public:
  Runner(Session &session, const RunOptions &options)
      : session(session), options(options), table(options.json) {}
  int run();

private:
  int refuseWhatCannotBe();
  int refuseForGpus();
  int parseSizes();
  int parseTypesAndOps();
  int runInstance(size_t index);
  int runSeries(Instance instance, ElementType type, std::optional<model::Reduction> op);
  int execute(Plan plan, const CompileStats &stats);
  /// What one rank has to do once it is a member.
  using Part = std::function<llvm::Error(Member &, RankBuffers &)>;
  using OwnPart = std::function<llvm::Error(std::unique_ptr<Member>)>;
  llvm::Error onThreads(int64_t ranks, const Part &part);
  llvm::Error onProcess(int64_t ranks, const OwnPart &part);
  llvm::Error onProcesses(int64_t ranks, const OwnPart &part);
  bool onGpus() const { return options.device != "host"; }
  /// A process for each rank, with a GPU each.
  bool gpuProcesses() const {
    return onGpus() && (options.transport == "processes" || options.rank);
  }
  llvm::Expected<const cuda::Driver *> getDriver() const;
  llvm::Expected<GpusSeen> lookAtGpus() const;
  int takeGpus(const GpusSeen &seen);
  int openDriver();
  cuda::CudaGroupOptions groupOptions() const;
  llvm::Error onGpuProcesses(Plan plan, const CompileStats &stats, const Workload &workload,
                             const std::vector<Lengths> &sizes, const MeasureOptions &measuring);
  llvm::Error measureOnGpus(cuda::CudaGroup &group,
                            const std::shared_ptr<cuda::LoadedCudaProgram> &program,
                            const CompileStats &stats, const Workload &workload,
                            const std::vector<Lengths> &sizes, const MeasureOptions &measuring);
  llvm::Error onGpus(Plan plan, const CompileStats &stats, const Workload &workload,
                     const std::vector<Lengths> &sizes, const MeasureOptions &measuring);
  MemberOptions memberOptions() const;
  /// Of ranks that are started by themselves, the first one does.
  bool speaks() const { return options.rank.value_or(0) == 0; }
  int findLengths(const Plan &plan, MeasureOptions &measuring, std::vector<Lengths> &sizes);
  int checkMemory(const Workload &workload, const std::vector<Lengths> &sizes);
  void describe(const Plan &plan, const CompileStats &stats);

  Session &session;
  RunOptions options;
  Input input;
  Sweep sweep;
  std::vector<std::vector<std::vector<int64_t>>> uneven; ///< the lists of every --uneven
  std::vector<ElementType> types;
  std::vector<model::Reduction> ops;
  const cuda::Driver *driver = nullptr; ///< of ranks on GPUs
  std::vector<int> devices;             ///< that they live on
  std::string arch;
  Table table;
  double startMs = 0; ///< of the first result of the process
};

} // namespace

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

static void addMeasureOptions(CLI::App &command, RunOptions &options) {
  command.add_option(
      "--bytes", options.bytes,
      "lo:hi[:factor] or a list: bytes of the larger buffer (default 8:64M:8), rounded down "
      "to whole elements of a shard");
  command.add_option("--count", options.counts, "elements of one shard: 0,1,17,4097");
  command
      .add_option("--uneven", options.uneven,
                  "a count for every shard, in turn: 0,1,17 (all_gather, reduce_scatter, gather, "
                  "scatter); of all_to_all from rank p to rank q number p n + q, or rows: 1,2;3,4; "
                  "the count column shows the longest. May be repeated")
      ->type_size(1)
      ->allow_extra_args(false);
  command.add_option("-b,--minbytes", options.begin, "first size");
  command.add_option("-e,--maxbytes", options.end, "last size");
  command.add_option("-i,--stepbytes", options.step, "bytes between sizes");
  command.add_option("-f,--stepfactor", options.factor, "factor between sizes");
  command.add_option("-d,--type,--datatype", options.types, "element types: float,double,int32");
  command.add_option("-o,--op", options.ops, "reductions: sum,max (default: the contract's)");
  command.add_flag("--in-place", options.inPlace, "only in place (default: both forms)");
  command.add_flag("--out-of-place", options.outOfPlace, "only out of place");
  command
      .add_option("--iters", options.measure.iterations,
                  "timed launches (default: 20, fewer for large sizes)")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 40));
  command
      .add_option("-w,--warmup,--warmup_iters", options.measure.warmup,
                  "launches before (default: 5, fewer for large sizes)")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 40));
  command.add_flag("--check", options.check, "check results (the default)");
  command.add_option("-c", options.checks, "rounds of checking; 0: none")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 20));
  command.add_option("-z,--blocking", options.blocking, "1: all ranks meet after every launch");
}

Action addRun(CLI::App &app) {
  auto options = std::make_shared<RunOptions>();
  addInputOptions(app, options->input);
  addLoweringOptions(app, options->lowering);
  addMeasureOptions(app, *options);
  app.add_option("--ranks", options->transport,
                 "what a rank is: threads (of this process; the default) or processes (forked)");
  app.add_option("--rank", options->rank,
                 "this process is this rank of -n, and others are started likewise");
  app.add_option("--socket", options->socket,
                 "with --rank: path of the socket where they meet, in a folder of your own");
  app.add_option("--address", options->address,
                 "with --rank, on several hosts: host:port where rank 0 listens (CCL_ADDRESS)");
  app.add_option("--micro-batches", options->measure.microBatches,
                 "slices of every chunk (default: as the slots ask for)")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 20));
  app.add_option("-T,--timeout", options->timeout, "seconds until a launch is given up");
  app.add_flag("--json", options->json, "one JSON object per line and nothing else on stdout");
  app.add_option("--device", options->device,
                 "where ranks live: host (the default); cuda, GPUs of this machine, all ranks in "
                 "this process, or one with --ranks processes or --rank; shim, what GPUs would "
                 "execute, on this machine's processor");
  app.add_option("--cuda-devices", options->cudaDevices,
                 "0,1: GPUs, rank r on number r modulo their count; default all, or one that all "
                 "ranks share if there are fewer than ranks")
      ->delimiter(',')
      ->check(CLI::Range(0, 1023));
  app.add_option("--instances", options->instances,
                 "on GPUs: thread blocks of an agent, a power of two (default: by the size)")
      ->check(CLI::Range(int64_t(0), int64_t(64)));
  app.add_flag("--copy-engines", options->copyEngines,
               "on GPUs: proxies are copy engines instead of thread blocks");
  app.add_option("-G,--cudagraph", options->graph,
                 "on one GPU: capture so many launches and replay them; ignored on the host")
      ->check(CLI::Range(int64_t(0), int64_t(10000)));
  app.add_option("-R,--local_register", options->registration,
                 "of nccl-tests; ignored on the host");
  app.add_option("-u,--unalign", options->unalign, "of nccl-tests; ignored on the host");
  app.add_option("-g,--ngpus", options->gpus, "of nccl-tests; refused: ranks are given by -n");
  app.add_option("-t,--nthreads", options->threads,
                 "of nccl-tests; refused: ranks are given by -n");
  return [options](Session &session) { return Runner(session, *options).run(); };
}

int Runner::refuseForGpus() {
  if (options.device != "host" && options.device != "cuda" && options.device != "shim")
    return session.usage(fmt::format("--device {}: host, cuda or shim", options.device));
  if (!onGpus()) {
    if (!options.cudaDevices.empty() || options.instances > 0)
      return session.usage("--cuda-devices and --instances are for --device cuda");
    if (options.copyEngines)
      return session.usage("--copy-engines is for --device cuda");
    if (options.graph > 0)
      log::info(log::Subsystem::Init, -1, "-G {} ignored: host ranks have no graphs",
                options.graph);
    return Fine;
  }
  if (options.blocking > 0)
    return session.usage("-z is for ranks of the host");
  if (options.instances > 0 && !std::has_single_bit(uint64_t(options.instances)))
    return session.usage(fmt::format("--instances {}: a power of two from 1 to {}",
                                     options.instances, cuda::mostInstances));
  // As many queues as there are; the driver reads that once. What the user chose stays.
  if (options.copyEngines && options.device == "cuda")
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  if (!gpuProcesses())
    return openDriver();
  // A process that has used CUDA cannot fork others that do, so another one looks at the GPUs.
  llvm::Expected<std::string> told = askChild([&]() -> llvm::Expected<std::string> {
    llvm::Expected<GpusSeen> seen = lookAtGpus();
    if (!seen)
      return seen.takeError();
    return fmt::format("{} {}", seen->count, seen->arch);
  });
  if (!told)
    return session.failed(told.takeError());
  const auto [count, found] = llvm::StringRef(*told).split(' ');
  GpusSeen seen;
  count.getAsInteger(10, seen.count);
  seen.arch = found.str();
  return takeGpus(seen);
}

llvm::Expected<const cuda::Driver *> Runner::getDriver() const {
  return options.device == "shim" ? cuda::Driver::get("shim") : cuda::Driver::get();
}

llvm::Expected<GpusSeen> Runner::lookAtGpus() const {
  llvm::Expected<const cuda::Driver *> opened = getDriver();
  if (!opened)
    return opened.takeError();
  GpusSeen seen;
  if (llvm::Error error = (*opened)->check((*opened)->cuDeviceGetCount(&seen.count), "count GPUs"))
    return error;
  const int first = options.cudaDevices.empty() ? 0 : options.cudaDevices.front();
  if (first >= seen.count)
    return seen;
  llvm::Expected<std::string> found = cuda::deviceArch(**opened, first);
  if (!found)
    return found.takeError();
  seen.arch = *found;
  return seen;
}

int Runner::takeGpus(const GpusSeen &seen) {
  for (int ordinal : options.cudaDevices)
    if (ordinal >= seen.count)
      return session.usage(fmt::format("--cuda-devices {}: there {} {}", ordinal,
                                       seen.count == 1 ? "is" : "are", plural(seen.count, "GPU")));
  if (seen.count == 0)
    return session.machine("CUDA's driver is here, but no GPU");
  devices = options.cudaDevices;
  if (devices.empty())
    for (int d = 0; d < seen.count; ++d)
      devices.push_back(d);
  arch = seen.arch;
  return Fine;
}

int Runner::openDriver() {
  llvm::Expected<const cuda::Driver *> opened = getDriver();
  if (!opened)
    return session.failed(opened.takeError());
  driver = *opened;
  llvm::Expected<GpusSeen> seen = lookAtGpus();
  return seen ? takeGpus(*seen) : session.failed(seen.takeError());
}

int Runner::refuseWhatCannotBe() {
  if (!options.gpus.empty() || !options.threads.empty())
    return session.usage(
        fmt::format("{}: ranks are given by -n or the launcher",
                    options.gpus.empty() ? "-t " + options.threads : "-g " + options.gpus));
  if (int status = refuseForGpus())
    return status;
  if (!options.socket.empty() && !options.address.empty())
    return session.usage("--socket and --address: ranks meet at one of them");
  if (options.socket.empty() && options.address.empty())
    options.address = session.settings.text(Setting::Address);
  if (!options.address.empty() && !options.rank) {
    const int64_t told = session.settings.number(Setting::Rank);
    options.rank = told >= 0 ? std::optional(told) : launchedRank();
    if (!options.rank)
      return session.usage("--address (CCL_ADDRESS) is for one process of each rank: --rank, "
                           "CCL_RANK or a launcher such as srun says which this is");
  }
  if (options.transport.empty())
    options.transport = options.rank ? "processes" : "threads";
  if (options.transport != "threads" && options.transport != "processes")
    return session.usage(fmt::format("--ranks {}: threads or processes", options.transport));
  if (options.rank && options.transport == "threads")
    return session.usage("--rank is for a process of its own, not for --ranks threads");
  if (options.rank.has_value() != !(options.socket.empty() && options.address.empty()))
    return session.usage("--rank goes with --socket, or --address: who this process is, and where "
                         "it meets the others");
  if (std::optional<std::string> launcher = foreignLauncher(); launcher && options.address.empty())
    return session.usage(fmt::format(
        "{}, and every such process would run a job of its own here: start `ccl run` once, "
        "without the launcher; -n gives the ranks",
        *launcher));
  if (options.timeout && !(*options.timeout > 0 && *options.timeout <= 365.0 * 86400))
    return session.usage("--timeout: a deadline is over 0 seconds and within a year");
  for (auto [letter, value] : {std::pair("-R", &options.registration), {"-u", &options.unalign}})
    if (!value->empty())
      log::info(log::Subsystem::Init, -1, "{} {} ignored: it has no meaning here", letter, *value);
  return Fine;
}

int Runner::parseSizes() {
  bool letters = !options.begin.empty() || !options.end.empty() || !options.step.empty() ||
                 !options.factor.empty();
  if (int(letters) + int(!options.bytes.empty()) + int(!options.counts.empty()) +
          int(!options.uneven.empty()) >
      1)
    return session.usage("--bytes, --count, --uneven and -b -e -i -f exclude each other");
  for (const std::string &text : options.uneven) {
    llvm::Expected<std::vector<std::vector<int64_t>>> lists = parseUneven(text);
    if (!lists)
      return session.usage("--uneven: " + llvm::toString(lists.takeError()));
    uneven.push_back(std::move(*lists));
  }
  auto take = [&](const char *which, llvm::Expected<Sweep> parsed) {
    if (!parsed)
      return session.usage(fmt::format("{}: {}", which, llvm::toString(parsed.takeError())));
    sweep = std::move(*parsed);
    return int(Fine);
  };
  if (!options.counts.empty()) {
    llvm::Expected<std::vector<int64_t>> counts = parseSizeList(options.counts);
    if (!counts)
      return take("--count", counts.takeError());
    return take("--count", Sweep{false, std::move(*counts)});
  }
  if (!letters)
    return take("--bytes", parseBytes(options.bytes.empty() ? "8:64M:8" : options.bytes));

  // nccl-tests: 32M to 32M by steps of 1M, unless a factor is given.
  int64_t numbers[4] = {32 << 20, 32 << 20, 1, 1 << 20};
  const std::string *texts[4] = {&options.begin, &options.end, &options.factor, &options.step};
  for (auto [number, text] : llvm::zip(numbers, texts)) {
    if (text->empty())
      continue;
    llvm::Expected<int64_t> value = parseSize(*text);
    if (!value)
      return session.usage("-b -e -f -i: " + llvm::toString(value.takeError()));
    number = *value;
  }
  return take("-b -e -f -i", sweepOf(numbers[0], numbers[1], numbers[2], numbers[3]));
}

int Runner::parseTypesAndOps() {
  for (llvm::StringRef text : llvm::split(options.types, ',')) {
    std::optional<ElementType> type = parseElementType(std::string_view(text));
    if (!type)
      return session.usage(fmt::format("-d {}: expected types such as float, double, int32 "
                                       "(or f32, f64, i32)",
                                       text.str()));
    types.push_back(*type);
  }
  if (options.ops.empty())
    return Fine;
  for (llvm::StringRef text : llvm::split(options.ops, ',')) {
    std::optional<model::Reduction> op = model::parseReduction(std::string_view(text));
    if (!op || *op == model::Reduction::None)
      return session.usage(
          fmt::format("-o {}: expected sum, prod, min, max, avg, band, bor or bxor", text.str()));
    ops.push_back(*op);
  }
  options.input.reduction = std::string(model::name(ops.front()));
  return Fine;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

int Runner::run() {
  session.json = options.json;
  options.input.warnings = InputOptions::Warnings::Count;
  for (int (Runner::*step)() :
       {&Runner::refuseWhatCannotBe, &Runner::parseSizes, &Runner::parseTypesAndOps})
    if (int status = (this->*step)())
      return status;
  options.measure.outOfPlace = options.outOfPlace || !options.inPlace;
  options.measure.inPlace = options.inPlace || !options.outOfPlace;
  options.measure.checks = options.checks;
  options.measure.blocking = options.blocking != 0;
  options.measure.timeout =
      options.timeout ? std::chrono::milliseconds(std::max<int64_t>(1, *options.timeout * 1000))
                      : session.settings.duration(Setting::Timeout);
  // Memory of other hosts is not reached directly.
  if (!options.address.empty() && options.lowering.via.empty() && options.lowering.hosts.empty())
    options.lowering.via = "staged";
  if (int status = input.open(session, options.input, options.lowering))
    return status;
  for (size_t i = 0; i < input.size(); ++i)
    if (int status = runInstance(i))
      return status;
  return table.wrong() ? BadInput : Fine;
}

int Runner::runInstance(size_t index) {
  Instance instance;
  if (int status = input.instantiate(index, instance))
    return status;
  bool reduces = instance.op().getContract().getReduction() != ReductionKind::None;
  std::vector<std::optional<model::Reduction>> reductions(ops.begin(), ops.end());
  if (!reduces && !ops.empty())
    log::info(log::Subsystem::Init, -1, "-o {} ignored: @{} reduces nothing", options.ops,
              instance.algorithm);
  if (!reduces || ops.empty())
    reductions = {std::nullopt};
  for (ElementType type : types)
    for (std::optional<model::Reduction> reduction : reductions)
      if (int status = runSeries(instance.clone(), type, reduction))
        return status;
  if (speaks())
    table.footer();
  return Fine;
}

int Runner::runSeries(Instance instance, ElementType type, std::optional<model::Reduction> op) {
  CompileOptions compiling = compileOptions(session.settings);
  compiling.lowering = instance.lowering;
  compiling.wires = !options.address.empty();
  compiling.algorithm = instance.algorithm;
  compiling.type = type;
  compiling.reduction = op;
  compiling.arch = arch;
  compiling.copyEngines = options.copyEngines;
  CompileStats stats;
  mlir::FailureOr<Plan> plan = compile(*instance.module, compiling, stats);
  if (mlir::failed(plan))
    return session.refused(stats.machineFailed);
  if (!stats.unproved.empty())
    log::warn(log::Subsystem::Check, -1, "@{} not proved: {}", instance.algorithm, stats.unproved);
  return execute(std::move(*plan), stats);
}

int Runner::execute(Plan plan, const CompileStats &stats) {
  Workload workload(plan.contract, plan.type);
  MeasureOptions measuring = options.measure;
  std::vector<Lengths> sizes;
  if (int status = findLengths(plan, measuring, sizes))
    return status;
  if (int status = checkMemory(workload, sizes))
    return status;

  if (onGpus()) {
    llvm::Error error = gpuProcesses()
                            ? onGpuProcesses(std::move(plan), stats, workload, sizes, measuring)
                            : onGpus(std::move(plan), stats, workload, sizes, measuring);
    return error ? session.failed(std::move(error)) : int(Fine);
  }
  auto begin = std::chrono::steady_clock::now();
  llvm::Expected<std::shared_ptr<LoadedProgram>> program = LoadedProgram::load(std::move(plan));
  if (!program)
    return session.failed(program.takeError());
  std::chrono::duration<double, std::milli> loading = std::chrono::steady_clock::now() - begin;
  const Plan &loaded = (*program)->plan();
  Series series{loaded.contract, loaded.type, input.algorithmName(), options.checks > 0,
                stats.jitMs + loading.count()};
  bool bothForms = measuring.outOfPlace && measuring.inPlace;
  auto measureAs = [&](Member &member, RankBuffers &buffers) {
    // Not before there are ranks: a socket that cannot be used is an error and nothing else.
    if (member.rank() == 0)
      describe(loaded, stats);
    auto onFirstResult = [&] {
      if (startMs == 0)
        startMs = millisecondsSinceStart();
    };
    return measure(member, *program, workload, sizes, measuring, buffers, onFirstResult,
                   [&](const Measurement &measurement) {
                     series.startMs = startMs;
                     table.add(series, measurement, measurement.inPlace || !bothForms);
                   });
  };
  auto measureAlone = [&](std::unique_ptr<Member> member) {
    RankBuffers buffers;
    llvm::Error error = measureAs(*member, buffers);
    member.reset(); // before its buffers
    return error;
  };
  llvm::Error error = options.transport == "threads" ? onThreads(loaded.ranks(), measureAs)
                      : options.rank                 ? onProcess(loaded.ranks(), measureAlone)
                                                     : onProcesses(loaded.ranks(), measureAlone);
  return error ? session.failed(std::move(error)) : int(Fine);
}

llvm::Error Runner::onGpus(Plan plan, const CompileStats &stats, const Workload &workload,
                           const std::vector<Lengths> &sizes, const MeasureOptions &measuring) {
  std::vector<int> used = devices;
  const auto ranks = size_t(plan.ranks());
  if (options.cudaDevices.empty()) // one for each rank, or one for all
    used.resize(used.size() < ranks ? 1 : ranks);
  if (options.graph > 0 && used.size() > 1)
    return makeFailure(Failure::BadArgument,
                       "-G: a graph is captured on one GPU: name it with --cuda-devices");
  auto program = cuda::LoadedCudaProgram::load(*driver, std::move(plan));
  if (!program)
    return program.takeError();
  auto group = cuda::CudaGroup::create(*driver, int64_t(ranks), used, groupOptions());
  if (!group)
    return group.takeError();
  return measureOnGpus(**group, *program, stats, workload, sizes, measuring);
}

cuda::CudaGroupOptions Runner::groupOptions() const {
  cuda::CudaGroupOptions grouping;
  grouping.slotBytes = session.settings.bytes(Setting::SlotBytes);
  grouping.instances = options.instances > 0
                           ? options.instances
                           : std::max<int64_t>(0, session.settings.number(Setting::CudaInstances));
  return grouping;
}

llvm::Error Runner::measureOnGpus(cuda::CudaGroup &group,
                                  const std::shared_ptr<cuda::LoadedCudaProgram> &program,
                                  const CompileStats &stats, const Workload &workload,
                                  const std::vector<Lengths> &sizes,
                                  const MeasureOptions &measuring) {
  const Plan &loaded = program->plan();
  Series series{loaded.contract, loaded.type, input.algorithmName(), options.checks > 0,
                stats.jitMs};
  const bool bothForms = measuring.outOfPlace && measuring.inPlace;
  const bool first = group.localRanks().front() == 0; // says what was found
  CudaMeasureOptions cudaOptions{options.graph};
  if (first)
    cudaOptions.onFirstLaunch = [&] { describe(loaded, stats); };
  return measureCuda(
      group, *driver, program, workload, sizes, measuring, cudaOptions,
      [&] {
        if (startMs == 0)
          startMs = millisecondsSinceStart();
      },
      [&](const Measurement &measurement) {
        series.startMs = startMs;
        if (first)
          table.add(series, measurement, measurement.inPlace || !bothForms);
      });
}

llvm::Error Runner::onGpuProcesses(Plan plan, const CompileStats &stats, const Workload &workload,
                                   const std::vector<Lengths> &sizes,
                                   const MeasureOptions &measuring) {
  if (driver)
    return makeFailure(Failure::BadArgument,
                       "--ranks processes on GPUs: one algorithm, type and reduction at a time, as "
                       "a process that has used a GPU cannot fork ranks");
  const int64_t ranks = plan.ranks();
  auto onRank = [&](std::unique_ptr<Member> host) -> llvm::Error {
    llvm::Expected<const cuda::Driver *> opened = getDriver();
    if (!opened)
      return host->fail(opened.takeError());
    driver = *opened;
    auto program = cuda::LoadedCudaProgram::load(*driver, std::move(plan));
    if (!program)
      return host->fail(program.takeError());
    const int device = devices[size_t(host->rank()) % devices.size()];
    auto group =
        cuda::CudaGroup::join(*driver, std::move(host), device, groupOptions(), measuring.timeout);
    if (!group)
      return group.takeError();
    return measureOnGpus(**group, *program, stats, workload, sizes, measuring);
  };
  return options.rank ? onProcess(ranks, onRank) : onProcesses(ranks, onRank);
}

MemberOptions Runner::memberOptions() const {
  MemberOptions sizing;
  sizing.slotBytes = session.settings.bytes(Setting::SlotBytes);
  sizing.flightRecorder = session.settings.text(Setting::FlightRecorder);
  return sizing;
}

llvm::Error Runner::onThreads(int64_t ranks, const Part &part) {
  auto members = Member::createThreads(ranks, memberOptions());
  if (!members)
    return members.takeError();
  std::vector<RankBuffers> buffers(static_cast<size_t>(ranks));
  return onEveryRank(ranks, [&](int64_t rank) {
    const CoreBinding binding(rank, ranks);
    return part(*(*members)[size_t(rank)], buffers[size_t(rank)]);
  });
}

/// This process as one of several that were started by themselves.
llvm::Error Runner::onProcess(int64_t ranks, const OwnPart &part) {
  JoinOptions joining;
  joining.rank = *options.rank;
  joining.ranks = ranks;
  joining.path = options.socket;
  joining.address = options.address;
  joining.timeout = options.measure.timeout;
  joining.member = memberOptions();
  if (llvm::Error e = fillHostOptions(session.settings, joining))
    return e;
  auto member = Member::join(std::move(joining));
  return member ? part(std::move(*member)) : member.takeError();
}

/// What ranks saw of another one's end, and what its parent knows of it.
static llvm::Error withDeath(llvm::Error error, const std::string &killed) {
  return llvm::handleErrors(std::move(error), [&](std::unique_ptr<RuntimeError> e) -> llvm::Error {
    if (!killed.empty() && !llvm::StringRef(e->message).contains("killed by signal"))
      e->message += "; " + killed;
    return llvm::Error(std::move(e));
  });
}

/// This process as rank 0, and children.
llvm::Error Runner::onProcesses(int64_t ranks, const OwnPart &part) {
  auto join = [&](int64_t rank, std::vector<int> sockets) -> llvm::Error {
    JoinOptions joining;
    joining.rank = rank;
    joining.ranks = ranks;
    joining.sockets = std::move(sockets);
    joining.timeout = options.measure.timeout;
    joining.member = memberOptions();
    auto member = Member::join(std::move(joining));
    // After it: the runtime looks how many cores there are to decide how long to spin.
    std::optional<CoreBinding> binding;
    if (!onGpus()) // the stand-in's threads want all cores
      binding.emplace(rank, ranks);
    return member ? part(std::move(*member)) : member.takeError();
  };
  auto forked = ForkedRanks::start(ranks, [&](int64_t rank, std::vector<int> sockets) {
    llvm::Error error = join(rank, std::move(sockets));
    if (!error)
      return int(Fine);
    // Rank 0 says the same, or says that this one is gone.
    int status = MachineFailed;
    llvm::handleAllErrors(
        std::move(error),
        [&](const RuntimeError &e) {
          status = exitStatus(e.category);
          log::info(log::Subsystem::Abort, rank, "{}", e.message);
        },
        [&](const llvm::ErrorInfoBase &e) {
          log::warn(log::Subsystem::Abort, rank, "{}", e.message());
        });
    return status;
  });
  if (!forked)
    return forked.takeError();
  llvm::Error error = join(0, forked->takeSockets());
  // They have what we have, a result or an error, and only have to end. After an error some may
  // not be able to.
  llvm::Error late = forked->wait(Milliseconds(error ? 1000 : 5000));
  if (!error)
    return late;
  llvm::consumeError(std::move(late));
  return withDeath(std::move(error), forked->killed());
}

/// The lengths of shards to measure. In place, an all_to_all is as long there as back: with
/// other lengths that form is left out.
int Runner::findLengths(const Plan &plan, MeasureOptions &measuring, std::vector<Lengths> &sizes) {
  const model::Contract &contract = plan.contract;
  if (uneven.empty()) {
    std::vector<int64_t> counts =
        sweep.counts(sizeOf(plan.type), std::max(contract.inShards(), contract.outShards()));
    sizes.assign(counts.begin(), counts.end());
    return Fine;
  }
  for (const std::vector<std::vector<int64_t>> &lists : uneven) {
    llvm::Expected<Lengths> lengths = unevenLengths(contract, lists);
    if (!lengths)
      return session.usage("--uneven: " + llvm::toString(lengths.takeError()));
    if (!lengths->isSymmetric() && measuring.inPlace) {
      if (!measuring.outOfPlace)
        return session.usage("--uneven: in place, a rank sends as much to another as it receives "
                             "from it");
      measuring.inPlace = false;
    }
    sizes.push_back(std::move(*lengths));
  }
  return Fine;
}

/// The system would kill us, or a neighbour, if all ranks' buffers did not fit.
int Runner::checkMemory(const Workload &workload, const std::vector<Lengths> &sizes) {
  // Where it is not known, only what no machine has is refused.
  const int64_t available = int64_t(std::min(availableMemory(), uint64_t(1) << 60));
  int64_t needed = 0, longest = 0;
  for (const Lengths &lengths : sizes) {
    needed = std::max(needed, bytesNeeded(workload, lengths, options.measure.outOfPlace));
    longest = std::max(longest, lengths.count());
  }
  if (needed < available / 10 * 9)
    return Fine;
  return session.machine(fmt::format("{} ranks with shards of {} elements need {} of memory, {} "
                                     "are available",
                                     workload.contract().ranks, longest,
                                     formatBytes(double(needed)), formatBytes(double(available))));
}

/// Which forms the proof vouches for, and what happens to launches in the other one.
static std::string proofText(const Plan &plan, const CompileStats &stats) {
  if (!stats.unproved.empty())
    return "not proved: " + stats.unproved;
  if (plan.contract.isUnchecked())
    return "nothing promised";
  return plan.disjointProved && plan.inPlaceProved ? "proved out of place and in place"
         : plan.disjointProved                     ? "proved out of place; in place through a copy"
                                                   : "proved in place; out of place through a copy";
}

void Runner::describe(const Plan &plan, const CompileStats &stats) {
  std::string what(model::name(plan.contract.collective));
  if (plan.contract.reduction != model::Reduction::None)
    what += fmt::format(" {}", model::name(plan.contract.reduction));
  table.comment(fmt::format(
      "ccl {}  {} {}  {} ({})  {}  program {} ({})  {}", CCL_VERSION, what, name(plan.type),
      plural(plan.ranks(), "rank"),
      onGpus() ? fmt::format("{}{} {}", gpuProcesses() ? "processes, " : "", options.device, arch)
               : options.transport,
      plural(std::thread::hardware_concurrency(), "core"), plan.program, input.reason(),
      proofText(plan, stats)));
  table.header();
}

} // namespace ccl::cli
