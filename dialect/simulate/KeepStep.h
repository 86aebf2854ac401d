//===- KeepStep.h - Whether ranks that do the same keep step ---------------===//
//
// Ranks that all do the same, shifted, keep step if each server (a wire, a shared resource) sees
// what all servers of its class see. What passes a server are images of rank 0's messages: of hop h
// of way w, that of rank g passes the server at hop h of the way between the images of its ends.
// So: the images of one hop are all on different servers, and servers that have one hop in common
// have all in common. Then the server of rank 0's own hop stands for its class.
//
// If the shifts extend to automorphisms of the topology, and of equal ways there is always one,
// ways go to ways. Then images of a hop are images of a server, and what is on one server is on all
// that it is taken to: classes are orbits, and the images are all different if there are as many
// servers in the orbit as ranks. Else all images of all ways are looked at.
//===----------------------------------------------------------------------===//
#pragma once

#include "dialect/bound/Classes.h"
#include "dialect/model/Symmetry.h"
#include "dialect/simulate/SimulateCode.h"

namespace ccl::model {

class KeepStep {
public:
  /// The code is that of rank 0.
  KeepStep(const SimCode &code, const ShiftGroup &group, const Topology &topology,
           const SimulateOptions &options, const Routes &routes)
      : code(code), group(group), topology(topology), options(options), routes(routes),
        wires(routes.wires()), joined(wires.size() + topology.resources.size()) {}

  /// Why they may not, or "".
  std::string check();
  /// By server, wires first: one that rank 0 uses, and which stands for it. What no rank uses
  /// stands for itself.
  std::vector<int32_t> classes();

private:
  using Images = std::vector<std::vector<int32_t>>;
  Images imagesOfRanks() const;
  bool keepsKinds(const Images &ranks, const Images &servers) const;
  bool joinOrbits();
  std::string checkOrbits();
  std::string joinImages();
  std::string addImage(int64_t shift, int32_t way, int64_t firstHop, Routes &all);
  std::string joinHops();
  template <typename Visit>
  void visitServers(const SimWay &way, Visit visit) const;
  const Switch *switchAt(int32_t node) const {
    return node < topology.ranks() ? nullptr : &topology.switches[size_t(node - topology.ranks())];
  }
  bool endsAlike(int32_t wire, int32_t other) const;
  std::string nameOf(int32_t server) const;

  const SimCode &code;
  const ShiftGroup &group;
  const Topology &topology;
  const SimulateOptions &options;
  const Routes &routes;
  const std::vector<Wire> &wires;
  Classes joined;
  std::vector<std::vector<int64_t>> hopsOf; ///< by server: of rank 0's ways, of images
};

} // namespace ccl::model
