// The words of the format.

#include "frontend/msccl/Document.h"

#include <algorithm>

namespace ccl::msccl {

static constexpr std::array<std::string_view, 3> protocolNames = {"Simple", "LL", "LL128"};
static constexpr std::array<std::string_view, 9> stepNames = {"s",    "r",   "rcs", "rrs", "rrc",
                                                              "rrcs", "cpy", "re",  "nop"};
static constexpr std::array<std::string_view, 3> bufNames = {"i", "o", "s"};

/// The value whose name `text` is.
template <typename Enum, size_t n>
static std::optional<Enum> parse(const std::array<std::string_view, n> &names,
                                 std::string_view text) {
  auto it = std::find(names.begin(), names.end(), text);
  if (it == names.end())
    return std::nullopt;
  return Enum(it - names.begin());
}

std::string_view name(Protocol protocol) { return protocolNames[size_t(protocol)]; }

std::optional<Protocol> parseProtocol(std::string_view text) {
  return parse<Protocol>(protocolNames, text);
}

int32_t slotsOf(Protocol protocol) { return protocol == Protocol::Simple ? 2 : 8; }

std::string_view name(StepType type) { return stepNames[size_t(type)]; }

std::optional<StepType> parseStepType(std::string_view text) {
  return parse<StepType>(stepNames, text);
}

char letter(Buf buf) { return bufNames[size_t(buf)].front(); }

std::optional<Buf> parseBuf(std::string_view text) { return parse<Buf>(bufNames, text); }

bool receives(StepType type) {
  return type == StepType::Receive || type == StepType::ReceiveCopySend ||
         type == StepType::ReceiveReduceSend || type == StepType::ReceiveReduceCopy ||
         type == StepType::ReceiveReduceCopySend;
}

bool sends(StepType type) {
  return type == StepType::Send || type == StepType::ReceiveCopySend ||
         type == StepType::ReceiveReduceSend || type == StepType::ReceiveReduceCopySend;
}

bool readsSrc(StepType type) {
  return type != StepType::Receive && type != StepType::ReceiveCopySend && type != StepType::Nop;
}

bool writesDst(StepType type) {
  return type != StepType::Send && type != StepType::ReceiveReduceSend && type != StepType::Nop;
}

bool combines(StepType type) {
  return type == StepType::ReceiveReduceSend || type == StepType::ReceiveReduceCopy ||
         type == StepType::ReceiveReduceCopySend || type == StepType::Reduce;
}

} // namespace ccl::msccl
