//===- EmitCuda.cpp ---------------------------------------------------------===//
#include "codegen/cuda/EmitCuda.h"

#include "codegen/Count.h"
#include "codegen/cuda/CopyEngines.h"
#include "codegen/cuda/Needs.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <fmt/ranges.h>

#include <set>

using namespace mlir;

namespace ccl {
namespace {

/// What is written out of a kernel at most, in signals: a transfer is as much as four. More is
/// executed from tables, unless loops make these longer than so many instructions.
constexpr size_t mostWritten = 96, perTransfer = 4;
constexpr uint64_t mostForChoice = uint64_t(1) << 20;

class CudaEmitter {
public:
  CudaEmitter(AlgorithmOp algorithm, const CudaOptions &options, Plan &plan)
      : algorithm(algorithm), options(options), plan(plan),
        programs(programsOf(algorithm, options.rank)), os(plan.cuda.source) {}

  LogicalResult run(const model::Contract &contract);

private:
  bool runFromTables();
  LogicalResult makePatterns();
  Protocol protocolOf(const KernelPlan &kernel, const AgentOperand &operand) const;
  std::string patternOf(const KernelPlan &kernel, const RankAgents &table,
                        const AgentInstruction &instruction) const;
  void nameBuffers();
  void countAgents();
  size_t mostEnds() const;
  std::string wires() const;
  void writeHead();
  LogicalResult writePrograms();
  void writeTables();
  void writeKernel();

  AlgorithmOp algorithm;
  const CudaOptions &options;
  Plan &plan;
  SmallVector<ProgramOp> programs;
  llvm::raw_string_ostream os;
  bool tables = false;
  cuda::Needs needs;
  std::vector<std::string> bufferNames, functions;
  std::vector<std::string> patterns; ///< of tables: Shapes
  size_t mostAgents = 1;
};

} // namespace

bool CudaEmitter::runFromTables() {
  if (!needs.multicasts.empty())
    return false;
  size_t written = 0;
  for (ProgramOp program : programs)
    program->walk([&](Operation *op) {
      if (options.copyEngines && op->getParentOfType<ProxyOp>())
        return;
      written += isa<TransferOp>(op) ? perTransfer : isa<SignalOp, WaitOp>(op) ? 1 : 0;
    });
  return written > mostWritten && countInstructions(algorithm, mostForChoice) < mostForChoice;
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

Protocol CudaEmitter::protocolOf(const KernelPlan &kernel, const AgentOperand &operand) const {
  return Protocol(kernel.channels[size_t(operand.chunk / plan.ranks())].protocol);
}

std::string CudaEmitter::patternOf(const KernelPlan &kernel, const RankAgents &table,
                                   const AgentInstruction &instruction) const {
  const TransferPattern &sizes = plan.transfers[size_t(instruction.pattern)];
  SmallVector<cuda::Wire> wires[2];
  for (int32_t o = 0; o < sizes.sources + sizes.destinations; ++o) {
    const AgentOperand &operand = table.operands[size_t(instruction.operands) + size_t(o)];
    wires[o >= sizes.sources].push_back(operand.peer == AgentOperand::channel
                                            ? cuda::Wire(protocolOf(kernel, operand))
                                            : std::nullopt);
  }
  return fmt::format("{}, {}, {}", sizes.sources, sizes.sources + sizes.destinations,
                     cuda::kindOf(wires[0], wires[1]));
}

/// Numbers what instructions of tables do by what GPUs have code for, and tells operands their
/// channels' wires.
LogicalResult CudaEmitter::makePatterns() {
  llvm::StringMap<int32_t> known;
  for (KernelPlan &kernel : plan.kernels)
    for (RankAgents &table : kernel.agents)
      for (AgentInstruction &instruction : table.instructions) {
        if (instruction.pattern < 0)
          continue;
        auto [it, isNew] =
            known.try_emplace(patternOf(kernel, table, instruction), int32_t(patterns.size()));
        if (isNew)
          patterns.push_back(it->first().str());
        instruction.pattern = it->second;
      }
  for (KernelPlan &kernel : plan.kernels)
    for (RankAgents &table : kernel.agents)
      for (AgentOperand &operand : table.operands)
        if (operand.peer == AgentOperand::channel)
          operand.buffer = 1 << int32_t(protocolOf(kernel, operand));
  return success();
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// An identifier that reads like `name` and is none of `taken`.
static std::string identifier(StringRef name, llvm::StringSet<> &taken) {
  std::string text;
  for (char c : name)
    text += llvm::isAlnum(c) ? c : '_';
  if (text.empty() || llvm::isDigit(text.front()))
    text = "_" + text;
  std::string unique = text;
  for (int i = 1; !taken.insert(unique).second; ++i)
    unique = fmt::format("{}_{}", text, i);
  return unique;
}

void CudaEmitter::nameBuffers() {
  // In a namespace of their own, so only C++ itself has taken names.
  llvm::StringSet<> taken;
  for (const char *word :
       {"int",     "float",     "double",   "char",     "short",    "long",      "auto",
        "const",   "for",       "do",       "if",       "else",     "new",       "this",
        "void",    "bool",      "true",     "false",    "enum",     "class",     "struct",
        "union",   "using",     "while",    "switch",   "case",     "default",   "return",
        "static",  "extern",    "inline",   "register", "volatile", "signed",    "unsigned",
        "goto",    "try",       "catch",    "throw",    "delete",   "operator",  "private",
        "public",  "protected", "template", "typename", "typedef",  "namespace", "friend",
        "virtual", "sizeof",    "break",    "continue", "and",      "or",        "not",
        "xor",     "export",    "import",   "module",   "concept",  "requires",  "mutable",
        "explicit"})
    taken.insert(word);
  for (const BufferPlan &buffer : plan.buffers)
    bufferNames.push_back("buffers::" + identifier(buffer.name, taken));
}

void CudaEmitter::countAgents() {
  plan.cuda.agents.clear();
  for (auto [index, program] : llvm::enumerate(programs)) {
    std::vector<int64_t> &agents = plan.cuda.agents.emplace_back();
    for (Operation &op : program.getBlock()) {
      if (auto block = dyn_cast<BlockOp>(op))
        agents.push_back(agentNumber(false, block.getId()));
      else if (auto proxy = dyn_cast<ProxyOp>(op); proxy && !options.copyEngines)
        agents.push_back(agentNumber(true, proxy.getId()));
    }
    if (agents.empty()) // a rank that does nothing still takes part in what all do
      agents.push_back(agentNumber(false, 0));
    size_t most = agents.size();
    for (RankAgents &table : plan.kernels[index].agents) {
      if (table.agents.empty())
        table.agents.push_back({});
      most = std::max(most, table.agents.size());
    }
    mostAgents = std::max(mostAgents, most + cuda::countEngines(plan.cuda).mostAgents);
  }
}

static const char *cudaName(ElementType type) {
  constexpr const char *names[] = {"I8",  "U8",   "I32", "U32", "I64",    "U64",
                                   "F16", "BF16", "F32", "F64", "F8E4M3", "F8E5M2"};
  return names[size_t(type)];
}

static const char *cudaName(model::Reduction reduction) {
  constexpr const char *names[] = {"None", "Sum",  "Prod", "Min", "Max",
                                   "Sum",  "Band", "Bor",  "Bxor"};
  return names[size_t(reduction)];
}

/// Of one rank in all its families.
size_t CudaEmitter::mostEnds() const {
  size_t most = 0;
  for (const KernelPlan &kernel : plan.kernels) {
    std::vector<size_t> ends;
    for (const std::vector<std::vector<int32_t>> &ranks : kernel.peers) {
      ends.resize(std::max(ends.size(), ranks.size()));
      for (auto [index, peers] : llvm::enumerate(ranks))
        most = std::max(most, ends[index] += peers.size());
    }
  }
  return most;
}

/// Bits of the device's Wire.
std::string CudaEmitter::wires() const {
  std::set<Protocol> all{Protocol::Simple};
  for (const auto &[family, protocol] : needs.protocols)
    all.insert(protocol);
  std::string text;
  for (Protocol protocol : all)
    text += (text.empty() ? "" : " | ") + stringifyProtocol(protocol).str();
  return text;
}

void CudaEmitter::writeHead() {
  os << fmt::format("// {}: {}, {} of {}, {} ranks, {} chunks a shard.\n", plan.program,
                    plan.contract.str(), name(plan.type), model::name(plan.contract.reduction),
                    plan.ranks(), plan.contract.chunks);
  std::string roles;
  for (auto [index, buffer] : llvm::enumerate(plan.buffers)) {
    roles += buffer.role == model::Role::In ? 'i' : buffer.role == model::Role::Out ? 'o' : 's';
    os << fmt::format("// buffer {}: {}, {}, {} chunks\n", index, buffer.name,
                      model::name(buffer.role), buffer.chunks);
  }
  for (auto [index, kernel] : llvm::enumerate(plan.kernels)) {
    std::string ranks;
    for (auto [begin, end] : kernel.ranks)
      ranks += fmt::format(" [{}, {})", begin, end);
    os << fmt::format("// program {}: ranks{}\n", index, ranks);
    for (auto [f, family] : llvm::enumerate(kernel.channels))
      os << fmt::format("//   family {}: {}, tag {}, {} slots, {}\n", f, family.to ? "to" : "from",
                        family.tag, family.slots,
                        stringifyProtocol(Protocol(family.protocol)).str());
  }
  os << fmt::format("#define CCL_BUFFERS {}\n#define CCL_ROLES \"{}\"\n#define CCL_CHUNKS {}\n",
                    plan.buffers.size(), roles, plan.contract.chunks);
  os << fmt::format("#define CCL_ELEMENT {}\n#define CCL_REDUCTION {}\n", cudaName(plan.type),
                    cudaName(plan.contract.reduction));
  const bool rows = !tables && !needs.atOnce.empty();
  os << fmt::format("#define CCL_ROWS {}\n#define CCL_SLOTS {}\n#define CCL_PEERS {}\n"
                    "#define CCL_TURNS {}\n",
                    int(rows), int(needs.slots), int(needs.peers), int(needs.turns));
  os << fmt::format("#define CCL_OPERANDS {}\n#define CCL_AGENTS {}\n#define CCL_BARRIERS {}\n",
                    needs.mostOperands, mostAgents, plan.cuda.barriers);
  os << fmt::format("#define CCL_ENDS {}\n#define CCL_WIRES ({})\n#define CCL_SOURCES {}\n",
                    mostEnds(), wires(), fmt::join(needs.flaggedSources, ", "));
  for (auto [name, isThere] : {std::pair("FLAGS", wires() != "simple"), std::pair("TABLES", tables),
                               std::pair("STEPS", !plan.cuda.engines.empty())})
    if (isThere)
      os << fmt::format("#define CCL_{}\n", name);
  if (!needs.multicasts.empty())
    os << fmt::format("#define CCL_MULTIMEM \"{}\"\n#define CCL_MULTIMEM_BYTES {}\n",
                      needs.load ? needs.load->instruction : "",
                      needs.load ? needs.load->bytes : 0);
  if (options.tma)
    os << "#define CCL_TMA\n";
  os << fmt::format("#define CCL_NAMED {}\n", tables ? 0 : needs.mostChannels);
  os << fmt::format("#ifndef CCL_THREADS\n#define CCL_THREADS {}\n#endif\n", plan.cuda.threads);
  os << "#include \"ccl.cuh\"\nusing namespace ccl::cuda;\n\n";
  if (tables || bufferNames.empty())
    return;
  os << "namespace buffers {\n";
  for (auto [index, name] : llvm::enumerate(bufferNames))
    os << fmt::format("constexpr int {} = {};\n", StringRef(name).split("::").second.str(), index);
  os << "} // namespace buffers\n\n";
}

LogicalResult CudaEmitter::writePrograms() {
  llvm::StringSet<> taken;
  for (auto [index, program] : llvm::enumerate(programs)) {
    functions.push_back(identifier(fmt::format("run_{}", program.getSymName().str()), taken));
    if (failed(cuda::writeProgram(program, plan.kernels[index], bufferNames, needs.multicasts,
                                  needs.atOnce, !options.copyEngines, functions.back(), os)))
      return failure();
  }
  return success();
}

void CudaEmitter::writeTables() {
  functions = {"run_table"};
  os << "static __device__ const Shape shapes[] = {";
  for (const std::string &pattern : patterns)
    os << "\n    {" << pattern << "},";
  os << (patterns.empty() ? "{}" : "\n") << "};\n\n"
     << "static __device__ __forceinline__ void run_table(Block &b) { runTable(b, shapes); }\n\n";
}

void CudaEmitter::writeKernel() {
  llvm::StringSet<> taken;
  plan.cuda.kernel = identifier("ccl_" + plan.program, taken);
  os << fmt::format(
      "extern \"C\" __global__ void __launch_bounds__(CCL_THREADS, 1024 / CCL_THREADS)\n"
      "{}(const __grid_constant__ Launch one, const Launch *all, int blocksPerRank) "
      "{{\n  Block b;\n  if (!begin(b, one, all, blocksPerRank))\n    return;\n"
      "#pragma unroll 1\n  do\n",
      plan.cuda.kernel);
  if (functions.size() == 1) {
    os << "    if (launched().program >= 0)\n      " << functions.front() << "(b);\n";
  } else {
    os << "    switch (launched().program) {\n";
    for (auto [index, function] : llvm::enumerate(functions))
      os << fmt::format("    case {}: {}(b); break;\n", index, function);
    os << "    }\n";
  }
  os << fmt::format("  while (nextBatch(b));\n  end(b);\n}}\nCCL_EXPORT({})\n", plan.cuda.kernel);
  if (!plan.cuda.engines.empty()) {
    plan.cuda.step = identifier(plan.cuda.kernel + "_step", taken);
    cuda::writeStepKernel(plan.cuda.step, os);
  }
  plan.cuda.finish.clear();
  if (plan.finish.empty())
    return;
  plan.cuda.finish = identifier(plan.cuda.kernel + "_finish", taken);
  os << fmt::format("\nextern \"C\" __global__ void __launch_bounds__(CCL_THREADS)\n"
                    "{0}(void *to, const void *from, i64 n, i64 ranks) {{\n"
                    "  divideAll(to, from, n, ranks);\n}}\nCCL_EXPORT({0})\n",
                    plan.cuda.finish);
}

LogicalResult CudaEmitter::run(const model::Contract &contract) {
  plan.cuda = CudaCode();
  FailureOr<cuda::Needs> found = cuda::findNeeds(algorithm, programs, options, contract.ranks);
  if (failed(found))
    return failure();
  needs = std::move(*found);
  if (options.copyEngines && failed(cuda::verifyCopyEngines(algorithm, programs)))
    return failure();
  tables = runFromTables();
  if (failed(planPrograms(algorithm, contract,
                          {options.type, options.reduction, options.rank, /*wires=*/false, tables},
                          plan)))
    return failure();
  if (options.copyEngines && failed(cuda::planCopyEngines(algorithm, programs, plan)))
    return failure();
  plan.program = algorithm.getSymName().str();
  plan.slice.clear(); // of the host
  for (KernelPlan &kernel : plan.kernels)
    for (ChannelFamily &family : kernel.channels)
      family.protocol = int32_t(needs.protocols.at({family.tag, family.slots}));
  plan.cuda.arch = options.arch;
  plan.cuda.threads = options.threads;
  plan.cuda.multimem = !needs.multicasts.empty();
  // Peers' buffers are the users' until they have entered.
  plan.cuda.barriers = (plan.direct && plan.entryBarrier ? cuda::entryBarrier : 0) |
                       (plan.batchBarrier ? cuda::batchBarrier : 0) |
                       (plan.exitBarrier ? cuda::exitBarrier : 0);
  countAgents();
  nameBuffers();
  if (tables && failed(makePatterns()))
    return failure();
  writeHead();
  if (tables)
    writeTables();
  else if (failed(writePrograms()))
    return failure();
  writeKernel();
  return success();
}

LogicalResult emitCuda(AlgorithmOp algorithm, const model::Contract &contract,
                       const CudaOptions &options, Plan &plan) {
  return CudaEmitter(algorithm, options, plan).run(contract);
}

} // namespace ccl
