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

void appendTables(std::string &text, const Plan &plan) {
  for (const BufferPlan &buffer : plan.buffers)
    text += fmt::format(" {} {}", model::name(buffer.role), buffer.chunks);
  for (const KernelPlan &kernel : plan.kernels) {
    for (auto [begin, end] : kernel.ranks)
      text += fmt::format("\nranks {} {}", begin, end);
    for (const ChannelFamily &family : kernel.channels)
      text += fmt::format("\nchannel {} {} {} {}", family.to, family.tag, family.slots,
                          family.protocol);
    for (const RankAgents &rank : kernel.agents) {
      for (const AgentCode &agent : rank.agents)
        text += fmt::format("\nagent {} {} {}", agent.number(), agent.begin, agent.end);
      append(text, rank.instructions);
      append(text, rank.operands);
    }
  }
}

} // namespace ccl
