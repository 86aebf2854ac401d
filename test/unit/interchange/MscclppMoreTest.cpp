// Contracts of plans, and what MSCCL++ makes of them.

#include "test/unit/interchange/Mscclpp.h"

#include "frontend/mscclpp/Fields.h"

#include <map>

using namespace ccl;
using namespace ccl::mscclpp::test;

namespace {

std::string put(std::string_view type, int buffer, std::string_view more = "") {
  return fmt::format("{{'name': 'put', 'src_buff': [{{'type': '{}', 'index': 0, 'size': 1}}], "
                     "'dst_buff': [{{'buffer_id': {}, 'index': 0, 'size': 1}}], 'channel_type': "
                     "'memory'{}}}",
                     type, buffer, more);
}
std::string sync(std::string_view name, int channel = 0) {
  return fmt::format("{{'name': '{}', 'channel_ids': [{}], 'channel_type': 'memory'}}", name,
                     channel);
}
const std::string copy = "{'name': 'copy', 'src_buff': [{'type': 'i', 'index': 0, 'size': 1}], "
                         "'dst_buff': [{'type': 'o', 'index': 0, 'size': 1}]}";

/// `ranks` GPUs without anything; `blocks` of one rank are given.
std::string plain(std::string_view collective, int ranks, int in, int out,
                  const std::map<int, std::string> &ops, bool inPlace = false) {
  std::vector<std::string> gpus;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::string> remotes, ids;
    for (int peer = 0; peer < ranks; ++peer) {
      remotes.push_back(fmt::format("{{'rank': {}, 'type': 'o', 'access_channel_types': "
                                    "['memory']}}",
                                    peer));
      ids.push_back(fmt::format("{}", peer));
    }
    auto it = ops.find(rank);
    gpus.push_back(fmt::format(
        "{{'id': {}, 'input_chunks': {}, 'output_chunks': {}, 'scratch_chunks': 0, 'channels': "
        "[], 'remote_buffers': [{}], 'threadblocks': [{{'id': 0, 'remote_buffer_refs': "
        "[{{'access_channel_type': 'memory', 'remote_buffer_ids': [{}]}}], 'ops': [{}]}}]}}",
        rank, in, out, fmt::join(remotes, ", "), fmt::join(ids, ", "),
        it == ops.end() ? "" : it->second));
  }
  return json(fmt::format("{{'name': 'x', 'collective': '{}', 'protocol': 'Simple', 'inplace': "
                          "{}, 'gpus': [{}]}}",
                          collective, inPlace, fmt::join(gpus, ", ")));
}

} // namespace

TEST_CASE("sendrecv exchanges between two, and follows the data among more") {
  Foreign pair = read(two({"sendrecv"}, {put("i", 1)}));
  CHECK_EQ(pair.contract.collective, model::Collective::Permute);
  CHECK_EQ(pair.contract.targets, std::vector<int64_t>{1, 0});
  CHECK_EQ(verdict(pair), "ok");
  Foreign ring =
      read(plain("sendrecv", 3, 1, 1, {{0, put("i", 2)}, {1, put("i", 0)}, {2, put("i", 1)}}));
  CHECK_EQ(ring.contract.targets, std::vector<int64_t>{2, 0, 1});
  CHECK_EQ(verdict(ring), "ok");
  Foreign two = read(plain("sendrecv", 3, 1, 1, {{0, put("i", 2)}, {1, put("i", 2)}}));
  CHECK_EQ(two.contract.collective, model::Collective::Custom);
  CHECK(warns(two, "who sends to whom"));
}

TEST_CASE("the root is whom all data comes from, or goes to") {
  Foreign broadcast =
      read(plain("broadcast", 3, 1, 1, {{1, copy + ", " + put("i", 0) + ", " + put("i", 2)}}));
  CHECK_EQ(broadcast.contract.root, 1);
  CHECK_EQ(verdict(broadcast), "ok");
  Foreign unknown = read(plain("broadcast", 3, 1, 1, {{1, put("i", 0)}}));
  CHECK_EQ(unknown.contract.root, 0);
  CHECK(warns(unknown, "which rank is the root"));
}

TEST_CASE("a custom plan without an output leaves its results in the input") {
  Foreign foreign = read(two({"test", false, 1, 0, 0}, {put("i", 0)}));
  REQUIRE_EQ(foreign.program.buffers.size(), 1);
  CHECK_EQ(foreign.program.buffers[0].role, model::Role::InOut);
  CHECK_FALSE(foreign.disjoint);
  // With an output, the input is not to be touched.
  CHECK_EQ(verdict(two({"test", false, 1, 1, 0}, {put("i", 0)})), "wrong");
  CHECK(warns(read(two({"mystery"}, {copy})), "no collective that is known here"));
}

TEST_CASE("reductions other than sum are kept, and warned of") {
  std::string min = "{'name': 'rre', 'src_buff': [{'type': 'i', 'index': 0, 'size': 1}, "
                    "{'buffer_id': 0, 'index': 0, 'size': 1}], 'dst_buff': [{'type': 'o', "
                    "'index': 0, 'size': 1}], 'channel_type': 'memory', 'reduce_op': 'min'}";
  Foreign foreign = read(two({"allreduce"}, {min}));
  CHECK_EQ(foreign.contract.reduction, model::Reduction::Min);
  CHECK_EQ(verdict(foreign), "ok");
  CHECK(warns(foreign, "it ignores \"min\""));
  std::vector<Diagnostic> diagnostics;
  CHECK_FALSE(mscclpp::readPlan(two({"allreduce"}, {min + ", " + replaced(min, "'min'", "'max'")}),
                                diagnostics));
  CHECK(str(diagnostics).find("in two ways") != std::string::npos);
  diagnostics.clear();
  CHECK_FALSE(mscclpp::readPlan(two({"allgather", false, 1, 2}, {min}), diagnostics));
  CHECK(str(diagnostics).find("only moves them") != std::string::npos);
}

TEST_CASE("the key of our own keeps the contract") {
  Shape shape{"custom", false, 2, 1, 0};
  shape.more = ", 'ccl': {'collective': 'custom', 'in': 2, 'out': 1, 'rows': [[0, 0, 0, 1], [1, "
               "0, 1, 1]], 'also_in_place': true}";
  Foreign foreign = read(two(shape, {replaced(copy, "'i', 'index': 0", "'i', 'index': 1")}));
  CHECK_EQ(verdict(foreign), "ok");
  CHECK(foreign.inPlace);
  CHECK(foreign.disjoint);
  CHECK_EQ(verdict(two(shape, {copy})), "wrong");
}

TEST_CASE("arrays of MSCCL++'s executor that are too small are warned of") {
  std::string many = sync("signal");
  many.replace(many.find("[0]"), 3, "[0, 0, 0, 0, 0, 0, 0, 0, 0]");
  std::string waits = replaced(many, "signal", "wait");
  Foreign channels = read(two({"test"}, {many + ", " + waits}));
  CHECK_EQ(verdict(channels), "unchecked");
  CHECK(warns(channels, "signal has 9 channels; MSCCL++ has room for 8"));
  std::string ops;
  for (int i = 0; i < 65; ++i)
    ops += (i ? ", " : "") + copy;
  CHECK(warns(read(two({"test"}, {ops})), "65 ops; MSCCL++ has room for 64"));
  Shape large{"test"};
  large.more = ", 'max_message_size': 4294967297";
  CHECK(warns(read(two(large, {copy})), "4 GiB"));
  std::string get = replaced(replaced(copy, "copy", "get"), "'type': 'i', 'index': 0",
                             "'buffer_id': 0, 'index': 1");
  CHECK(warns(read(two({"test", false, 2, 2}, {get})), "exchanges the offsets"));
  CHECK(warns(read(two({"test", false, 0, 1}, {"{'name': 'nop'}"})), "divides by"));
}

TEST_CASE("threads of a block that overtake each other are warned of") {
  CHECK(warns(read(two({"test"}, {copy + ", " + sync("signal") + ", " + sync("wait")})),
              "no nop between copy and signal"));
  CHECK(warns(read(two({"test"}, {sync("signal") + ", " + sync("wait") + ", " + copy})),
              "no nop between wait and copy"));
  std::string shifted = "{'name': 'copy', 'src_buff': [{'type': 'o', 'index': 0, 'size': 2}], "
                        "'dst_buff': [{'type': 's', 'index': 0, 'size': 2}]}";
  Shape shape{"test", true, 2, 2, 2};
  CHECK(warns(read(two(shape, {copy + ", " + shifted})), "no nop between copy and copy"));
  CHECK_FALSE(warns(read(two(shape, {copy + ", {'name': 'nop'}, " + shifted})), "no nop"));
  // A copy is none of a port channel, also where a block has no others.
  std::string port =
      R"({'name': 'signal', 'channel_ids': [0]}, {'name': 'wait', 'channel_ids': [0]})";
  std::string text = two(shape, {port + ", " + copy});
  CHECK(warns(read(replaced(text, json("{'channel_type': 'memory', 'channel_ids': [0, 1]}, "), "")),
              "no nop between wait and copy"));
}

TEST_CASE("data behind a relaxed signal is warned of") {
  std::string end = sync("rlxsignal") + ", " + sync("rlxwait");
  CHECK(warns(read(two({"allgather", true, 1, 2}, {put("i", 1) + ", {'name': 'nop'}, " + end})),
              "relaxed signal"));
  CHECK_FALSE(
      warns(read(two({"allgather", true, 1, 2}, {end + ", {'name': 'nop'}, " + put("i", 1)})),
            "relaxed signal"));
}

TEST_CASE("no search for relaxed signals without end") {
  std::string ops;
  for (int i = 0; i < 5000; ++i)
    ops += (i ? ", " : "") + copy + ", " + sync("rlxsignal") + ", " + sync("rlxwait");
  Foreign foreign = read(two({"test"}, {ops}));
  CHECK(warns(foreign, "so many relaxed signals"));
  CHECK_EQ(verdict(foreign), "unchecked");
}

TEST_CASE("warnings have a limit") {
  std::string ops;
  for (int i = 0; i < 100; ++i)
    ops += (i ? ", " : "") + copy + ", " + sync("signal") + ", " + sync("wait");
  Foreign foreign = read(two({"test"}, {ops}));
  CHECK_EQ(foreign.warnings.size(), mscclpp::Log::maxWarnings + 1);
  CHECK(warns(foreign, "more warnings are not shown"));
}

TEST_CASE("a copy of a place onto itself reads and writes it") {
  auto verdictOf = [](const std::string &source) {
    const std::string place = "[{'type': '" + source + "', 'index': 0, 'size': 1}]";
    Foreign plan =
        read(two({.inPlace = true, .scratch = 1},
                 {"{'name': 'copy', 'src_buff': " + place + ", 'dst_buff': " + place + "}"}));
    model::ProgramReport report =
        model::check(plan.program, plan.contract, {.inPlace = plan.inPlace});
    CHECK(report.instructions == 2);
    return model::verdict(report.faults, plan.contract);
  };
  CHECK(verdictOf("i") == "unchecked");
  CHECK(verdictOf("s") == "uninitialized");
}
