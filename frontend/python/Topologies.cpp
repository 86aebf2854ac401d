//===- Topologies.cpp - Topologies, bounds and simulations --------------------------===//
#include "frontend/python/Handles.h"
#include "frontend/python/Interrupt.h"

#include <ccl/topology.h>

#include <pybind11/stl.h>

namespace ccl::python {
namespace {

//===----------------------------------------------------------------------===//
// Topologies
//===----------------------------------------------------------------------===//

/// `text`: None if `source` is a name or a path; `source` None: this machine.
Topology openTopology(const std::optional<std::string> &source,
                      const std::optional<std::string> &text, int64_t nodes,
                      const std::string &join, const std::string &rates, const std::string &gpu,
                      int pcie, double nic, const std::string &symbol,
                      const std::vector<std::string> &forbidden) {
  TopologyOptions options{.nodes = nodes,
                          .join = join,
                          .symbol = symbol,
                          .gpu = gpu,
                          .pcie = pcie,
                          .nic = nic,
                          .forbidden = forbidden};
  if (rates == "effective")
    options.rates = TopologyOptions::Rates::effective;
  else if (rates != "nominal")
    raiseValue("rates: '{}' is none of nominal, effective", rates);
  return take(withoutGil([&] {
    return text     ? Topology::parse(*text, options, *source)
           : source ? Topology::open(*source, options)
                    : Topology::detect(options);
  }));
}

BoundOptions toBoundOptions(int root, double gap, const py::object &timeLimit) {
  return {root, gap, toTimeout(timeLimit, "time_limit")};
}

py::list linksOf(const Topology &topology) {
  py::list links;
  for (const Topology::Link &link : topology.links())
    links.append(py::make_tuple(link.source, link.destination, link.GBps, link.us));
  return links;
}

py::list switchesOf(const Topology &topology) {
  py::list switches;
  for (const Topology::Switch &each : topology.switches())
    switches.append(py::make_tuple(each.name, each.kind, each.multicast, each.reduce));
  return switches;
}

std::optional<std::string> ratesOf(const Topology &topology) {
  const std::optional<TopologyOptions::Rates> rates = topology.rates();
  if (!rates)
    return std::nullopt;
  return *rates == TopologyOptions::Rates::effective ? "effective" : "nominal";
}

py::list namesOf() {
  py::list names;
  for (const Topology::Name &row : Topology::names())
    names.append(py::make_tuple(row.name, row.size, row.what));
  return names;
}

py::dict axesOf(const Topology &topology) {
  py::dict axes;
  for (const Topology::Axis &axis : topology.axes())
    axes[py::str(axis.name)] = axis.size;
  return axes;
}

py::list ncclEstimates(const Topology &self, const std::string &collective, int64_t bytes,
                       int capability) {
  py::list estimates;
  for (const NcclEstimate &each : take(withoutGil([&, known = toCollective(collective)] {
         return self.ncclEstimates(known, bytes, capability);
       })))
    estimates.append(py::make_tuple(each.algorithm, each.protocol, each.us, each.algbw,
                                    each.channels, each.threads, each.isTaken));
  return estimates;
}

void addTopology(py::module_ &module) {
  module.def("open_topology", &openTopology);
  module.def("topology_names", &namesOf);
  py::class_<Topology>(module, "Topology")
      .def_property_readonly("name", &Topology::name)
      .def_property_readonly("label", &Topology::label)
      .def_property_readonly("what", &Topology::what)
      .def_property_readonly("ranks", &Topology::ranks)
      .def_property_readonly("rates", &ratesOf)
      .def_property_readonly("notes", &Topology::notes)
      .def_property_readonly("missing", &Topology::missing)
      .def_property_readonly("remarks", &Topology::remarks)
      .def("node_name", &Topology::nodeName)
      .def("axes", &axesOf)
      .def("switches", &switchesOf)
      .def("links", &linksOf)
      .def("nccl_estimates", &ncclEstimates)
      .def("text",
           [](const Topology &self) { return take(withoutGil([&] { return self.text(); })); })
      .def("bound",
           [](const Topology &self, const std::string &collective, int root, double gap,
              const py::object &timeLimit) {
             return take(abandonable([self, collective = toCollective(collective),
                                      options = toBoundOptions(root, gap, timeLimit)] {
               return self.bound(collective, options);
             }));
           })
      .def("bounds", [](const Topology &self, int root, double gap, const py::object &timeLimit) {
        return take(abandonable([self, options = toBoundOptions(root, gap, timeLimit)] {
          return self.bounds(options);
        }));
      });
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

void addBounds(py::module_ &module) {
  py::class_<Bound>(module, "Bound")
      .def_property_readonly("collective",
                             [](const Bound &self) { return std::string(name(self.collective())); })
      .def_property_readonly("root", &Bound::root)
      .def_property_readonly("algbw", &Bound::algbw)
      .def_property_readonly("attained", &Bound::attained)
      .def_property_readonly("exact", &Bound::isExact)
      .def_property_readonly("certificate", &Bound::certificate)
      .def_property_readonly("num", &Bound::num)
      .def_property_readonly("den", &Bound::den)
      .def_property_readonly("cut", &Bound::cut)
      .def("us", &Bound::us);
}

//===----------------------------------------------------------------------===//
// Simulations
//===----------------------------------------------------------------------===//

using Sizes = std::vector<std::pair<std::string, int64_t>>;

/// `kind` says what `source` is: a text, a path, the name of a collective.
Simulator openSimulator(const Topology &topology, const std::string &kind,
                        const std::string &source, const std::string &label, int ranks,
                        const std::string &type, const std::string &op,
                        const std::string &algorithm, Sizes sizes, int root, std::vector<int> grid,
                        std::vector<int> targets, const std::string &via, int slots) {
  ProgramOptions options = toOptions(ranks, type, op, via, slots);
  options.algorithm = algorithm;
  options.sizes = std::move(sizes);
  options.root = root;
  options.grid = std::move(grid);
  options.targets = std::move(targets);
  if (kind == "collective") {
    const Collective collective = toCollective(source);
    return take(withoutGil([&] { return topology.simulator(collective, options); }));
  }
  return take(withoutGil([&] {
    return kind == "path" ? topology.simulatorOfFile(source, options)
                          : topology.simulator(source, options, label);
  }));
}

Simulator simulatorOfAlgorithm(const Topology &topology, const Algorithm &algorithm,
                               const std::string &type, const std::string &op,
                               const std::string &via, int slots) {
  const ProgramOptions options = toOptions(0, type, op, via, slots);
  Algorithm snapshot(algorithm); // other threads may go on writing moves meanwhile
  return take(withoutGil([&] { return topology.simulator(snapshot, options); }));
}

SimulationOptions::Sharing toSharing(const std::string &text) {
  if (text != "fifo" && text != "fair")
    raiseValue("sharing: '{}' is none of fifo, fair", text);
  return text == "fair" ? SimulationOptions::Sharing::fair : SimulationOptions::Sharing::fifo;
}

SimulationOptions::BatchOrder toBatchOrder(const std::string &text) {
  using Order = SimulationOptions::BatchOrder;
  for (auto [name, order] :
       {std::pair("rank", Order::rank), {"agent", Order::agent}, {"barrier", Order::barrier}})
    if (text == name)
      return order;
  raiseValue("batch_order: '{}' is none of rank, agent, barrier", text);
}

/// `counts`: None, or of uneven shards, instead of `bytes`.
Simulation run(const Simulator &self, int64_t bytes,
               const std::optional<std::vector<int64_t>> &counts, const std::string &model,
               const std::string &sharing, int64_t microBatches, const std::string &batchOrder,
               std::optional<double> launch, std::optional<double> sync,
               std::optional<double> overhead, std::optional<double> lane,
               std::optional<double> epoch, std::vector<std::string> curves, bool bound, double gap,
               const py::object &timeLimit) {
  SimulationOptions options;
  options.model = model;
  options.sharing = toSharing(sharing);
  options.microBatches = microBatches;
  options.batchOrder = toBatchOrder(batchOrder);
  options.launchUs = launch;
  options.syncUs = sync;
  options.overheadUs = overhead;
  options.laneGBps = lane;
  options.epochUs = epoch;
  options.curves = std::move(curves);
  options.bound = toBoundOptions(0, gap, timeLimit);
  if (!bound)
    options.bound.reset();
  return take(abandonable([self, bytes, counts, options] {
    return counts ? self.runV(*counts, options) : self.run(bytes, options);
  }));
}

py::list linkUses(const Simulation &self) {
  py::list uses;
  for (const Simulation::LinkUse &use : self.links())
    uses.append(py::make_tuple(use.link, use.bytes, use.busyUs));
  return uses;
}

py::list agentUses(const Simulation &self) {
  py::list uses;
  for (const Simulation::AgentUse &use : self.agents())
    uses.append(py::make_tuple(use.rank, use.agent, use.launchUs, use.busyUs, use.linkUs,
                               use.changeUs, use.slotUs, use.dataUs, use.signalUs, use.batchUs,
                               use.endUs));
  return uses;
}

py::list criticalPath(const Simulation &self) {
  py::list path;
  for (const Simulation::PathPart &part : take(abandonable([self] { return self.criticalPath(); })))
    path.append(py::make_tuple(std::string(name(part.kind)), part.beginUs, part.endUs,
                               part.queuedUs, part.changeUs, part.rank, part.peer, part.what));
  return path;
}

void addSimulations(py::module_ &module) {
  module.def("simulator", &openSimulator);
  module.def("simulator", &simulatorOfAlgorithm);
  module.def("simulator", [](const Topology &topology, const Program &program) {
    return take(withoutGil([&] { return topology.simulator(program); }));
  });
  py::class_<Simulator>(module, "Simulator")
      .def_property_readonly("name", &Simulator::name)
      .def_property_readonly(
          "collective", [](const Simulator &self) { return std::string(name(self.collective())); })
      .def_property_readonly("type",
                             [](const Simulator &self) { return std::string(name(self.type())); })
      .def("run", &run);
  py::class_<Simulation>(module, "Simulation")
      .def_property_readonly("bytes", &Simulation::bytes)
      .def_property_readonly("count", &Simulation::count)
      .def_property_readonly("micro_batches", &Simulation::microBatches)
      .def_property_readonly("model", &Simulation::model)
      .def_property_readonly("us", &Simulation::us)
      .def_property_readonly("algbw", &Simulation::algbw)
      .def_property_readonly("busbw", &Simulation::busbw)
      .def_property_readonly("bound", &Simulation::bound)
      .def_property_readonly("bound_us", &Simulation::boundUs)
      .def_property_readonly("ratio", &Simulation::ratio)
      .def_property_readonly("messages", &Simulation::messages)
      .def_property_readonly("events", &Simulation::events)
      .def("links", &linkUses)
      .def("agents", &agentUses)
      .def("critical_path", &criticalPath)
      .def(
          "trace",
          [](const Simulation &self) { return take(abandonable([self] { return self.trace(); })); })
      .def("html",
           [](const Simulation &self) { return take(abandonable([self] { return self.html(); })); })
      // A file that is half written would be left by who does not wait.
      .def("write_trace",
           [](const Simulation &self, const std::string &path) {
             check(withoutGil([&] { return self.writeTrace(path); }));
           })
      .def("write_html", [](const Simulation &self, const std::string &path) {
        check(withoutGil([&] { return self.writeHtml(path); }));
      });
}

} // namespace

void addTopologies(py::module_ &module) {
  addTopology(module);
  addBounds(module);
  addSimulations(module);
}

} // namespace ccl::python
