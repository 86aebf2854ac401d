// Programs that all ranks execute alike, shifted.
#pragma once

#include "test/unit/simulate/Timing.h"

namespace ccl::model {

/// The program of rank 0, and how it is shifted.
struct Symmetric {
  Program rankZero;
  Symmetry symmetry;
  Contract contract;
};

inline Symmetric ring(int64_t n, int32_t slots, bool fused) {
  Program program = ringProgram(n, slots, fused);
  program.ranks.resize(1);
  return {
      program, {{n}, {{{n, {1}}}}, {}}, makeContract(Collective::AllReduce, n, n, Reduction::Sum)};
}

/// All to all by writing into or reading from all others, `lanes` agents, behind signals.
inline Symmetric direct(int64_t n, bool reads, int32_t lanes) {
  ProgramMaker maker(1, {{"in", Role::In, n}, {"out", Role::Out, n}}, 1);
  maker.add(0, transfer({local(0, 0)}, {local(1, 0)}));
  for (int32_t s = 1; s < n; ++s) {
    const int32_t peer = s, back = int32_t(n) - s;
    const size_t lane = size_t(s % lanes);
    auto add = [&](Instruction i) { maker.add(0, std::move(i), lane); };
    if (reads) {
      add(maker.tell(0, back, 1));
      add(maker.hear(0, peer, 1));
      add(transfer({ccl::model::peer(peer, 0, 0)}, {local(1, peer)}));
      add(maker.tell(0, peer, 2));
      add(maker.hear(0, back, 2));
    } else {
      add(transfer({local(0, peer)}, {ccl::model::peer(peer, 1, 0)}));
      add(maker.tell(0, peer, 1));
      add(maker.hear(0, back, 1));
    }
  }
  return {
      maker.program, {{n}, {{{n, {1}}}, {{n, {1}}}}, {}}, makeContract(Collective::AllToAll, n, 1)};
}

inline SimulateOptions optionsFor(int64_t count, int64_t batches = 1) {
  SimulateOptions options;
  options.count = count, options.batches = batches;
  return options;
}

} // namespace ccl::model
