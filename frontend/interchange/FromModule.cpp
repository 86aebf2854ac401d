//===- FromModule.cpp -------------------------------------------------------------===//
#include "frontend/interchange/FromModule.h"

using namespace mlir;

namespace ccl::interchange {

static int32_t bufferWith(const model::Program &program, model::Role role) {
  for (auto [i, buffer] : llvm::enumerate(program.buffers))
    if (buffer.role == role)
      return int32_t(i);
  return -1;
}

namespace {

/// Makes one `inout` buffer of `in` and `out`, where the contract puts their places.
class Merger {
public:
  Merger(model::Program &program, const model::Contract &contract)
      : program(program), contract(contract), in(bufferWith(program, model::Role::In)),
        out(bufferWith(program, model::Role::Out)) {}

  void run() {
    if (in < 0 && out < 0)
      return;
    for (auto [rank, mine] : llvm::enumerate(program.ranks))
      for (model::Agent &agent : mine.agents)
        for (model::Instruction &instruction : agent.code)
          for (auto *side : {&instruction.from, &instruction.to})
            for (model::Operand &operand : *side)
              move(operand, int64_t(rank));
    int32_t kept = in >= 0 ? in : out;
    program.buffers[size_t(kept)].role = model::Role::InOut;
    program.buffers[size_t(kept)].chunks = contract.inOutChunks();
    if (in >= 0 && out >= 0)
      program.buffers.erase(program.buffers.begin() + out);
  }

private:
  void move(model::Operand &operand, int64_t rank) {
    if (operand.kind == model::Operand::Kind::Channel)
      return;
    int64_t owner = operand.kind == model::Operand::Kind::Peer ? operand.peer : rank;
    if (operand.buffer == in)
      operand.chunk = contract.inPosition(owner, operand.chunk);
    else if (operand.buffer == out) {
      operand.chunk = contract.outPosition(owner, operand.chunk);
      operand.buffer = in >= 0 ? in : out;
    }
    if (in >= 0 && out >= 0 && operand.buffer > out)
      --operand.buffer;
  }

  model::Program &program;
  const model::Contract &contract;
  const int32_t in, out;
};

} // namespace

static TextPlace placeOf(Location loc) {
  auto file = loc->findInstanceOf<FileLineColLoc>();
  return file ? TextPlace{int32_t(file.getLine()), int32_t(file.getColumn())} : TextPlace();
}

std::optional<Foreign> fromModule(AlgorithmOp algorithm, ProvedForms forms,
                                  LocationTable &locations) {
  Foreign foreign;
  FailureOr<model::Contract> contract = getModelContract(algorithm);
  if (failed(contract))
    return std::nullopt;
  locations.clear();
  FailureOr<model::Program> program = expandPrograms(algorithm, locations);
  if (failed(program))
    return std::nullopt;
  foreign.name = algorithm.getSymName().str();
  foreign.contract = std::move(*contract);
  foreign.program = std::move(*program);
  foreign.disjoint = forms.disjoint;
  foreign.inPlace = forms.inPlace;
  if (!forms.disjoint)
    Merger(foreign.program, foreign.contract).run();
  foreign.places.reserve(locations.size());
  for (Location loc : locations)
    foreign.places.push_back(placeOf(loc));
  return foreign;
}

} // namespace ccl::interchange
