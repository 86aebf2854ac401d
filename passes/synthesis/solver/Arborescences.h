//===- Arborescences.h - Trees of one root, exactly ---------------------------===//
//
// Edmonds (1973): as many trees of one root fit into the links as the least cut from the root to a
// rank has room for. Lovasz's proof (JCTB 21, 1976) is the algorithm: a tree may take a link if
// behind it every cut keeps room for the trees that are still to come, and there is always such a
// link; one maximum flow says so. Trees grow breadth first, which keeps them low.
//
// What leads through switches is made links between ranks first (Junctions.h). That, and so the
// whole, is exact unless switches have more in than out, or routes leave out what the links allow.
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/synthesis/solver/Pack.h"

#include <optional>

namespace ccl::solver {

/// The fastest trees of `problem`, if they are slower than its goal allows and faster than `below`
/// microseconds. Nothing if there are none, if they are not of one root, if there are many ranks,
/// if switches cannot be done without, or if it takes too long.
std::optional<Forest> packArborescences(const Network &network, const PackProblem &problem,
                                        double below, const PackOptions &options);

} // namespace ccl::solver
