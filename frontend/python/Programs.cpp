//===- Programs.cpp - Compiled programs --------------------------------------------===//
#include "frontend/python/Handles.h"
#include "frontend/python/Interrupt.h"

#include <pybind11/stl.h>

namespace ccl::python {

using Sizes = std::vector<std::pair<std::string, int64_t>>;

ProgramOptions toOptions(int ranks, const std::string &type, const std::string &op,
                         const std::string &via, int slots) {
  ProgramOptions options;
  options.ranks = ranks;
  options.type = toDataType(type, "type");
  options.op = toOptionalOp(op);
  if (via == "auto")
    options.via = ProgramOptions::Via::automatic;
  else if (via == "staged")
    options.via = ProgramOptions::Via::staged;
  else if (via == "direct")
    options.via = ProgramOptions::Via::direct;
  else if (!via.empty())
    raiseValue("via: '{}' is none of auto, staged, direct", via);
  options.slots = slots;
  return options;
}

/// `label`: None if `source` is a path.
static Program compile(const std::string &source, const std::optional<std::string> &label,
                       int ranks, const std::string &type, const std::string &op,
                       const std::string &algorithm, Sizes sizes, const std::string &via,
                       int slots) {
  ProgramOptions options = toOptions(ranks, type, op, via, slots);
  options.algorithm = algorithm;
  options.sizes = std::move(sizes);
  return take(withoutGil([&] {
    return label ? Program::compile(source, options, *label)
                 : Program::compileFile(source, options);
  }));
}

static Program generate(const std::string &collectiveName, int ranks, const std::string &type,
                        const std::string &op, const std::string &algorithm, int root,
                        std::vector<int> grid, std::vector<int> targets, const std::string &via,
                        int slots) {
  const Collective collective = toCollective(collectiveName);
  ProgramOptions options = toOptions(ranks, type, op, via, slots);
  options.algorithm = algorithm;
  options.root = root;
  options.grid = std::move(grid);
  options.targets = std::move(targets);
  return take(withoutGil([&] { return Program::generate(collective, options); }));
}

static std::string textOf(const Program &program, const std::string &stage) {
  if (stage != "algorithm" && stage != "program")
    raiseValue("stage: '{}' is none of algorithm, program", stage);
  const auto wanted = stage == "program" ? Program::Stage::program : Program::Stage::algorithm;
  return take(withoutGil([&] { return program.text(wanted); }));
}

static std::string describe(const Program &program) {
  std::string op = program.op() ? fmt::format(" {}", name(*program.op())) : "";
  return fmt::format("<ccl.Program {}: {}{} {}, {} ranks>", program.name(),
                     name(program.collective()), op, name(program.type()), program.ranks());
}

void addPrograms(py::module_ &module) {
  py::class_<Program, std::shared_ptr<Program>> program(
      module, "Program",
      "A proved and compiled program for one number of ranks, element type and reduction.\n\n"
      "`ccl.compile`, `ccl.generate` and `Communicator.program` make them. Immutable; any number\n"
      "of communicators and threads may use one at the same time.");
  program.attr("__module__") = "ccl";
  auto property = [&](const char *name, auto get, const char *text) {
    program.def_property_readonly(name, get, text);
  };
  property("name", [](const Program &p) { return p.name(); }, "Name of the algorithm.");
  property(
      "hash", [](const Program &p) { return p.hash(); },
      "Hex digits that name its entry in the cache on disk.");
  property(
      "collective", [](const Program &p) { return std::string(name(p.collective())); },
      "What it does, \"all_reduce\" for example.");
  property("ranks", [](const Program &p) { return p.ranks(); }, "Number of ranks.");
  property("root", [](const Program &p) { return p.root(); }, "The root, 0 if there is none.");
  property(
      "type", [](const Program &p) { return std::string(name(p.type())); },
      "Type of the elements, \"f32\" for example.");
  property(
      "op",
      [](const Program &p) {
        return p.op() ? std::optional(std::string(name(*p.op()))) : std::nullopt;
      },
      "The reduction, \"sum\" for example; None if it does not reduce.");
  property(
      "in_shards", [](const Program &p) { return p.inShards(); },
      "A rank's input is so many shards.");
  property(
      "out_shards", [](const Program &p) { return p.outShards(); },
      "A rank's output is so many shards.");
  property(
      "proved_out_of_place", [](const Program &p) { return p.provedOutOfPlace(); },
      "Whether it was proved for separate input and output; else those go through a copy.");
  property(
      "proved_in_place", [](const Program &p) { return p.provedInPlace(); },
      "Whether it was proved for input and output in one place; else they go through a copy.");
  property(
      "remarks", [](const Program &p) { return p.remarks(); },
      "What the compiler remarked without refusing; \"\" if nothing.");
  program.def("text", &textOf, py::arg("stage") = "algorithm",
              "The program as MLIR text, as `ccl compile --emit` prints it.\n\n"
              "stage : {\"algorithm\", \"program\"}\n"
              "    The global view, or the programs of the ranks.");
  program.def("__repr__", &describe);

  module.def("compile", &compile);
  module.def("generate", &generate);
  module.def("generators", [](const std::string &collective) {
    return Program::generators(toCollective(collective));
  });
}

} // namespace ccl::python
