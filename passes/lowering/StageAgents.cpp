//===- StageAgents.cpp --------------------------------------------------------===//
#include "passes/lowering/StageAgents.h"

using namespace mlir;

namespace ccl {

int64_t countAgents(Region &region) {
  int64_t count = 1;
  region.walk([&](Operation *op) {
    if (std::optional<MoveRef> move = getMove(op)) {
      count = std::max(count, move->srcAgent + 1);
      for (int64_t agent : move->dstAgents)
        count = std::max(count, agent + 1);
    }
    auto schedule = dyn_cast<ScheduleOp>(op);
    const size_t rows = schedule ? schedule.getNumRows() : 0;
    for (size_t row = 0; row < rows; ++row)
      for (int64_t agent : schedule.getAgentsOf(row))
        count = std::max(count, agent + 1);
  });
  return count;
}

static void shiftMove(Operation *op, const MoveRef &move, int64_t offset) {
  SmallVector<int64_t> agents = {move.srcAgent + offset};
  for (int64_t agent : move.dstAgents)
    agents.push_back(agent + offset);
  op->setAttr("agents", DenseI64ArrayAttr::get(op->getContext(), agents));
}

static void shiftRows(ScheduleOp schedule, int64_t offset) {
  const size_t rows = schedule.getNumRows();
  if (rows == 0)
    return;
  const int64_t columns =
      schedule.getAgents() ? schedule.getAgents()->getShapedType().getDimSize(1) : 2;
  SmallVector<int64_t> table;
  for (size_t row = 0; row < rows; ++row) {
    SmallVector<int64_t, 4> agents = schedule.getAgentsOf(row);
    for (int64_t &agent : agents)
      agent += offset;
    agents.resize(size_t(columns), -1);
    table.append(agents.begin(), agents.end());
  }
  schedule.setAgentsAttr(ScheduleOp::makeTable(schedule.getContext(), table, columns));
}

void shiftAgents(Region &region, int64_t offset) {
  if (offset == 0)
    return; // as they were
  region.walk([&](Operation *op) {
    if (std::optional<MoveRef> move = getMove(op))
      shiftMove(op, *move, offset);
    if (auto schedule = dyn_cast<ScheduleOp>(op))
      shiftRows(schedule, offset);
  });
}

} // namespace ccl
