//===- Plan.cpp - Names and kinds of ops ----------------------------------===//
#include "frontend/mscclpp/Plan.h"

#include <algorithm>
#include <array>

namespace ccl::mscclpp {

constexpr std::array<std::string_view, 31> opNames = {
    "nop",  "barrier", "signal", "wait",      "rlxsignal", "rlxwait",     "put",        "pws",
    "pwsf", "get",     "flush",  "copy",      "re",        "res",         "rre",        "rres",
    "ppkt", "rppkt",   "cpkt",   "upkt",      "repkt",     "respkt",      "recpkt",     "recspkt",
    "glre", "glres",   "gstore", "gstorepkt", "pipeline",  "sem_acquire", "sem_release"};

std::string_view name(OpKind kind) { return opNames[size_t(kind)]; }

std::optional<OpKind> parseOpKind(std::string_view text) {
  auto it = std::find(opNames.begin(), opNames.end(), text);
  if (it == opNames.end())
    return std::nullopt;
  return OpKind(it - opNames.begin());
}

std::string_view name(ChannelType type) {
  switch (type) {
  case ChannelType::None: return "none";
  case ChannelType::Memory: return "memory";
  case ChannelType::Port: return "port";
  case ChannelType::Switch: return "switch";
  }
  return "none";
}

std::string_view name(BufferType type) {
  switch (type) {
  case BufferType::Input: return "i";
  case BufferType::Output: return "o";
  case BufferType::Scratch: return "s";
  }
  return "s";
}

bool movesPairs(OpKind kind) {
  switch (kind) {
  case OpKind::Put:
  case OpKind::Pws:
  case OpKind::Pwsf:
  case OpKind::Get:
  case OpKind::Ppkt: return true;
  default: return false;
  }
}

bool needsChannels(OpKind kind) {
  switch (kind) {
  case OpKind::Signal:
  case OpKind::Wait:
  case OpKind::RlxSignal:
  case OpKind::RlxWait:
  case OpKind::Flush:
  case OpKind::Pws:
  case OpKind::Pwsf: return true;
  default: return false;
  }
}

PacketOperands packetOperands(OpKind kind) {
  constexpr size_t none = PacketOperands::none;
  switch (kind) {
  case OpKind::Ppkt:
  case OpKind::Cpkt:
  case OpKind::Gstorepkt: return {none, 0};
  case OpKind::Upkt: return {0, none};
  case OpKind::Rppkt: return {0, 0};
  case OpKind::Repkt: return {1, none};
  case OpKind::Respkt:
  case OpKind::Recpkt:
  case OpKind::Recspkt: return {1, 1};
  default: return {};
  }
}

bool usesPackets(OpKind kind) {
  auto [source, destination] = packetOperands(kind);
  return std::min(source, destination) != PacketOperands::none;
}

bool isByPort(const Op &op) {
  return op.channelType == ChannelType::Port && op.kind != OpKind::Get &&
         (movesPairs(op.kind) || op.kind == OpKind::Rppkt);
}

} // namespace ccl::mscclpp
