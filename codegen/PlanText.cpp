//===- PlanText.cpp ---------------------------------------------------------===//
#include "codegen/PlanText.h"

#include <fmt/format.h>

#include <type_traits>

namespace ccl {

template <typename Row>
static void append(std::string &text, const std::vector<Row> &rows) {
  static_assert(std::has_unique_object_representations_v<Row>);
  text.append(reinterpret_cast<const char *>(rows.data()), rows.size() * sizeof(Row));
}

static void append(std::string &text, const RankAgents &rank) {
  for (const AgentCode &agent : rank.agents)
    text += fmt::format("\nagent {} {} {}", agent.number(), agent.begin, agent.end);
  append(text, rank.instructions);
  append(text, rank.operands);
}

void appendTables(std::string &text, const Plan &plan) {
  for (const BufferPlan &buffer : plan.buffers)
    text += fmt::format(" {} {}", model::name(buffer.role), buffer.chunks);
  for (const KernelPlan &kernel : plan.kernels) {
    for (auto [begin, end] : kernel.ranks)
      text += fmt::format("\nranks {} {}", begin, end);
    for (const ChannelFamily &family : kernel.channels)
      text += fmt::format("\nchannel {} {} {} {}", family.to, family.tag, family.slots,
                          family.protocol);
    for (const RankAgents &rank : kernel.agents)
      append(text, rank);
  }
  for (const std::vector<RankAgents> &ranks : plan.cuda.engines) {
    text += "\nengines";
    for (const RankAgents &rank : ranks)
      append(text, rank);
    // What tells how many destinations an instruction has.
    for (const TransferPattern &transfer : plan.transfers)
      text += fmt::format("\ntransfer {} {}", transfer.sources, transfer.destinations);
  }
}

} // namespace ccl
