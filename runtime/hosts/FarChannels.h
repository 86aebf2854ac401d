//===- FarChannels.h - A rank's channels to ranks of other hosts -----------------===//
#pragma once

#include "runtime/Group.h"
#include "runtime/Launch.h"
#include "runtime/hosts/Hosts.h"
#include "runtime/rdma/Wire.h"

namespace ccl {

/// What a rank of a program has to do with other hosts.
struct FarProgram {
  std::vector<ChannelEnd *> ends;    ///< all that lead there
  std::vector<ChannelEnd *> sending; ///< those of them that send data
  /// By index in `sending`: what goes through in one micro-batch, in order.
  std::vector<std::vector<WireMessage>> messages;
};

/// Of one communicator, used by its rank's thread.
class FarChannels {
public:
  /// `group` outlives it.
  explicit FarChannels(Group &group) : group(group) {}

  /// Fills what of `table` (see ChannelSet::resolve) is missing: ends that lead to other hosts.
  /// Collective among the ranks that such channels join; after the entry of a launch. Errors:
  /// those of the NICs; a plan that does not say what is sent.
  llvm::Error resolve(const Plan &plan, const RankFacts &facts, std::vector<ChannelEnd *> &table,
                      FarProgram &program);

  /// Around what the program does. `program` lives until the end.
  void begin(const FarProgram &program, const Plan &plan, const KernelArgs &args);
  /// Until the NICs are done with what was sent.
  llvm::Error end(const std::function<std::string()> &what);
  /// Instead of end(), after a failure.
  void abandon();
  /// While the rank waits: moves data, and fails the communicator if that has failed.
  void progress();

private:
  using Keys = std::vector<ChannelKey>;
  llvm::Error open();
  void noticeLeavers();
  llvm::Error connect(const std::map<int32_t, Keys> &channels);
  llvm::Expected<std::string> awaitMail(int32_t peer);

  Group &group;
  std::unique_ptr<rdma::Wire> wire;
  std::vector<int32_t> peers; ///< that are connected, and have not left
  bool isRunning = false;
};

} // namespace ccl
