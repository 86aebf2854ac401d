// The words of the format.

#include "frontend/msccl/Document.h"

#include <algorithm>

namespace ccl::msccl {

static constexpr std::array<std::string_view, 9> stepNames = {"s",    "r",   "rcs", "rrs", "rrc",
                                                              "rrcs", "cpy", "re",  "nop"};

std::string_view name(Protocol protocol) {
  switch (protocol) {
  case Protocol::Simple: return "Simple";
  case Protocol::LL: return "LL";
  case Protocol::LL128: return "LL128";
  }
  return "Simple";
}

int32_t slotsOf(Protocol protocol) { return protocol == Protocol::Simple ? 2 : 8; }

std::string_view name(StepType type) { return stepNames[size_t(type)]; }

std::optional<StepType> parseStepType(std::string_view text) {
  auto it = std::find(stepNames.begin(), stepNames.end(), text);
  if (it == stepNames.end())
    return std::nullopt;
  return StepType(it - stepNames.begin());
}

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
