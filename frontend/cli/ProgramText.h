//===- ProgramText.h - One rank's program in words ------------------------------===//
#pragma once

#include "dialect/model/Program.h"

#include <map>
#include <string>

namespace ccl::cli {

class ProgramText {
public:
  ProgramText(const model::Program &program, const model::Contract &contract, int64_t rank);

  const model::RankProgram &rank() const { return mine; }
  size_t transfers() const { return numTransfers; }
  size_t instructions() const { return numInstructions; }
  /// How many transfers do more than one move.
  size_t fused() const { return numFused; }

  /// "2 blocks, 1 proxy; 12 transfers, 3 signals, 3 waits; sends to ranks 1, 2, receives from
  /// rank 3, reads memory of rank 4".
  std::string summary() const;
  /// "block 3".
  static std::string name(const model::Agent &agent);
  /// "sends to rank 1 (2 slots), receives from rank 3 (tag 1, 2 slots)", or "".
  std::string channels(const model::Agent &agent) const;
  /// "take what comes from rank 3, store it in x[0]".
  std::string describe(const model::Instruction &instruction) const;

private:
  std::string describe(const model::Operand &operand) const;
  std::string partner(const model::Channel &channel) const;
  void look();

  const model::Program &program;
  const model::RankProgram &mine;
  const int64_t me;
  std::string verb; ///< what a reduction makes: "sum"
  size_t numTransfers = 0, numInstructions = 0, numFused = 0, numSignals = 0, numWaits = 0;
  /// Agents at both ends of a channel to oneself, by (to, tag).
  std::map<std::pair<bool, int32_t>, const model::Agent *> ends;
};

} // namespace ccl::cli
