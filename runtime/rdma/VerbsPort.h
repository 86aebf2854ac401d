//===- VerbsPort.h - Devices of libibverbs and their ports -------------------------===//
#pragma once

#include "runtime/rdma/Nic.h"
#include "runtime/rdma/VerbsLibrary.h"

namespace ccl::rdma {

struct VerbsContextCloser {
  const VerbsLibrary *verbs = nullptr;
  void operator()(ibv_context *context) const { verbs->closeDevice(context); }
};
using VerbsContext = std::unique_ptr<ibv_context, VerbsContextCloser>;

/// A port of a device that is open.
struct VerbsPort {
  const VerbsLibrary *verbs = nullptr;
  VerbsContext context;
  NicFacts facts;
  ibv_gid gid{}; ///< at facts.gidIndex
  uint16_t lid = 0;
  ibv_mtu mtu = IBV_MTU_1024; ///< the active one, or the one that the options say if it is less
  uint64_t mostMemory = 0;    ///< of one registration, if the device tells the truth
};

/// The one that `options` choose. Errors (Failure::Machine) say what there is instead.
llvm::Expected<VerbsPort> openVerbsPort(const std::string &library, const NicOptions &options);

/// "::ffff:10.77.0.1"
std::string gidText(const std::array<uint8_t, 16> &gid);
int mtuBytes(ibv_mtu mtu);

} // namespace ccl::rdma
