// What the ops of MSCCL++ plans mean.

#include "test/unit/interchange/Mscclpp.h"

using namespace ccl;
using namespace ccl::mscclpp::test;

namespace {

const std::string nop = "{'name': 'nop'},\n";
/// Both ranks tell each other that they have come so far, on memory channel 1.
const std::string meet = "{'name': 'nop'}, {'name': 'signal', 'channel_ids': [1], "
                         "'channel_type': 'memory'}, {'name': 'wait', 'channel_ids': [1], "
                         "'channel_type': 'memory'}, {'name': 'nop'}";

std::string local(std::string_view type, std::string_view index, int size = 1) {
  return fmt::format("{{'type': '{}', 'index': {}, 'size': {}}}", type, index, size);
}
std::string remote(int id, std::string_view index, int size = 1) {
  return fmt::format("{{'buffer_id': {}, 'index': {}, 'size': {}}}", id, index, size);
}
std::string group(int id, std::string_view index, int size = 1) {
  return fmt::format("{{'switch_channel_id': {}, 'index': {}, 'size': {}}}", id, index, size);
}
/// An op with sources and destinations.
std::string op(std::string_view name, std::string_view src, std::string_view dst,
               std::string_view more = "'channel_type': 'memory'") {
  return fmt::format("{{'name': '{}', 'src_buff': [{}], 'dst_buff': [{}], {}}}", name, src, dst,
                     more);
}
std::string join(std::initializer_list<std::string> ops) {
  return fmt::format("{}", fmt::join(ops, ",\n"));
}

const Shape gather{"allgather", true, 1, 2, 0};
const Shape reduce{"allreduce", true, 1, 1, 2};

} // namespace

TEST_CASE("put and get move chunks between ranks") {
  CHECK_EQ(verdict(two(gather, {join({op("put", local("o", "@"), remote(1, "@")), meet})})), "ok");
  CHECK_EQ(verdict(two(gather, {join({op("get", remote(1, "#"), local("o", "#")), meet})})), "ok");
  // In place, "i" is the rank's own part of "o".
  CHECK_EQ(verdict(two(gather, {join({op("put", local("i", "0"), remote(1, "@")), meet})})), "ok");
  // Nobody says that it is there.
  Foreign silent = read(two(gather, {op("put", local("o", "@"), remote(1, "@"))}));
  CHECK_EQ(verdict(silent), "ok");
  CHECK(check(silent).exitBarrier);
}

TEST_CASE("put and get go in pairs, of several sizes") {
  Shape shape{"allgather", true, 3, 6, 0};
  std::string src = local("i", "0", 1) + ", " + local("i", "1", 2);
  auto dst = [](int rank) {
    return remote(1, fmt::format("{}", 3 * rank), 1) + ", " +
           remote(1, fmt::format("{}", 3 * rank + 1), 2);
  };
  std::string text = two(shape, {join({op("put", src, "$"), meet})});
  size_t first = text.find("$");
  text.replace(first, 1, json(dst(0)));
  text.replace(text.find("$"), 1, json(dst(1)));
  Foreign foreign = read(text);
  CHECK_EQ(verdict(foreign), "ok");
  CHECK_EQ(countOf(foreign, model::Instruction::Kind::Transfer), 4);
}

TEST_CASE("copy and re are local, rre, res and rres reach out") {
  auto staged = [&](std::string last) {
    return two(reduce, {join({op("put", local("i", "0"), remote(2, "1")), meet, last})});
  };
  CHECK_EQ(verdict(staged(op("re", local("i", "0") + ", " + local("s", "1"), local("i", "0")))),
           "ok");
  // A copy first, then reading what the other copied.
  auto direct = [&](std::string name, std::string dst, std::string more = "") {
    return two(reduce,
               {join({op("copy", local("i", "0"), local("s", "0")), meet,
                      op(name, local("i", "0") + ", " + remote(2, "0"), dst), meet + more})});
  };
  CHECK_EQ(verdict(direct("rre", local("i", "0"))), "ok");
  CHECK_EQ(verdict(direct("rres", local("i", "0") + ", " + remote(2, "1"))), "ok");
  Foreign sums = read(two(reduce, {join({op("put", local("i", "0"), remote(2, "1")), meet,
                                         op("res", local("i", "0") + ", " + local("s", "1"),
                                            local("i", "0") + ", " + remote(2, "0"))})}));
  CHECK_EQ(verdict(sums), "ok");
  CHECK_EQ(sums.contract.reduction, model::Reduction::Sum);
}

TEST_CASE("packets wait until they are there") {
  Shape shape{"allgather", false, 1, 2, 2, "LL"};
  std::string own = op("copy", local("i", "0"), local("o", "@"));
  auto send = op("ppkt", local("i", "0"), remote(2, "@"));
  auto receive = op("upkt", local("s", "#"), local("o", "#"));
  CHECK_EQ(verdict(two(shape, {join({own, send, receive})})), "ok");
  CHECK_EQ(verdict(two(shape, {join({own, send}), receive})), "ok"); // another thread block
  // Two packets of one sender take one wait, of the later one.
  Shape wide{"test", false, 2, 4, 4, "LL"};
  Foreign foreign = read(two(wide, {join({op("ppkt", local("i", "0"), remote(2, "0")),
                                          op("ppkt", local("i", "1"), remote(2, "1")),
                                          op("upkt", local("s", "0", 2), local("o", "2", 2))})}));
  CHECK_EQ(verdict(foreign), "unchecked");
  CHECK_EQ(countOf(foreign, model::Instruction::Kind::Wait), 2);
  CHECK_EQ(countOf(foreign, model::Instruction::Kind::Signal), 2);
  // Never written: a wait that nothing ends, where the packet is read.
  Foreign never = read(two(shape, {"\n" + receive}));
  CHECK_EQ(verdict(never), "deadlock");
  const model::Fault fault = check(never).faults.front();
  CHECK_EQ(never.places[size_t(fault.loc)].line, 3);
}

TEST_CASE("packets are copied, forwarded and combined") {
  Shape shape{"allgather", false, 1, 2, 4, "LL"};
  std::string own = op("copy", local("i", "0"), local("o", "@"));
  CHECK_EQ(verdict(two(shape, {join({own, op("cpkt", local("i", "0"), local("s", "@")),
                                     op("rppkt", local("s", "@"), remote(2, "@")),
                                     op("upkt", local("s", "#"), local("o", "#"))})})),
           "ok");
  Shape sum{"allreduce", false, 1, 1, 4, "LL"};
  std::string send = op("ppkt", local("i", "0"), remote(2, "0"));
  std::string both = local("i", "0") + ", " + local("s", "0");
  CHECK_EQ(verdict(two(sum, {join({send, op("repkt", both, local("o", "0"))})})), "ok");
  CHECK_EQ(verdict(two(
               sum, {join({send, op("respkt", both, local("o", "0") + ", " + remote(2, "1"))})})),
           "ok");
  CHECK_EQ(
      verdict(two(sum, {join({send, op("recpkt", both, local("o", "0") + ", " + local("s", "1"))}),
                        op("upkt", local("s", "1"), local("s", "2"))})),
      "ok");
  Foreign all = read(
      two(sum, {join({send, op("recspkt", both,
                               local("o", "0") + ", " + local("s", "1") + ", " + remote(2, "2"))}),
                join({op("upkt", local("s", "1"), local("s", "3")),
                      op("upkt", local("s", "2"), local("s", "3"))})}));
  CHECK_EQ(verdict(all), "ok");
  CHECK_EQ(countOf(all, model::Instruction::Kind::Wait), 6);
}

TEST_CASE("a put on a port channel is made by a proxy") {
  auto port = [](std::string_view name) {
    return op(name, local("o", "@"), remote(1, "@"), "'channel_type': 'port', 'channel_ids': [0]");
  };
  std::string signal = "{'name': 'signal', 'channel_ids': [0], 'channel_type': 'port'}";
  std::string wait = "{'name': 'wait', 'channel_ids': [0], 'channel_type': 'port'}";
  std::string flush = "{'name': 'flush', 'channel_ids': [0], 'channel_type': 'port'}";
  Foreign foreign = read(two(gather, {join({port("put"), signal, wait})}));
  CHECK_EQ(verdict(foreign), "ok");
  REQUIRE_EQ(foreign.program.ranks[0].agents.size(), 2);
  CHECK(foreign.program.ranks[0].agents[1].proxy);
  CHECK_EQ(verdict(two(gather, {join({port("pws"), wait})})), "ok");
  CHECK_EQ(verdict(two(gather, {join({port("pwsf"), wait})})), "ok");
  CHECK(warns(read(two(gather, {join({port("pwsf"), wait})})), "offset"));

  // The source may be used again after a flush, but not before.
  Shape shape{"test", false, 1, 1, 1};
  std::string fill = op("copy", local("i", "0"), local("s", "0"));
  auto send =
      op("put", local("s", "0"), remote(1, "0"), "'channel_type': 'port', 'channel_ids': [0]");
  CHECK_EQ(verdict(two(shape, {join({fill, send, signal, wait, fill})})), "race");
  CHECK_EQ(verdict(two(shape, {join({fill, send, flush, signal, wait, fill})})), "unchecked");
}

TEST_CASE("switch channels combine and store at all ranks of a group") {
  Shape shape{"allreduce", true, 2, 2, 0};
  Foreign foreign = read(two(
      shape,
      {join({meet, op("glres", group(0, "@"), group(0, "@"), "'channel_type': 'switch'"), meet})}));
  CHECK_EQ(verdict(foreign), "ok");
  CHECK_EQ(verdict(two(Shape{"allreduce", false, 1, 1, 0},
                       {op("glre", group(0, "0"), local("o", "0"), "'channel_type': 'switch'")})),
           "ok");
  CHECK_EQ(
      verdict(two(gather,
                  {join({op("gstore", local("o", "@"), group(1, "@"), "'channel_type': 'switch'"),
                         meet})})),
      "ok");
  // A packet that is stored where it already is stays what it is.
  Shape packets{"allgather", true, 1, 2, 2, "LL"};
  Foreign stored = read(two(
      packets, {join({op("cpkt", local("o", "@"), local("s", "@")),
                      op("gstorepkt", local("s", "@"), group(2, "@"), "'channel_type': 'switch'")}),
                join({op("upkt", local("s", "0"), local("o", "0")),
                      op("upkt", local("s", "1"), local("o", "1"))})}));
  CHECK_EQ(verdict(stored), "ok");
  CHECK(warns(stored, "does not know gstorepkt"));
  // Also if the block that writes it comes later in the file.
  CHECK_EQ(verdict(two(packets,
                       {op("gstorepkt", local("s", "@"), group(2, "@"), "'channel_type': 'switch'"),
                        join({op("cpkt", local("o", "@"), local("s", "@")),
                              op("upkt", local("s", "0"), local("o", "0")),
                              op("upkt", local("s", "1"), local("o", "1"))})})),
           "ok");
  // A group of one keeps what it does: it reads.
  std::string alone =
      two({"test", false, 1, 1, 1},
          {op("gstore", local("s", "0"), group(2, "0"), "'channel_type': 'switch'")});
  const std::string pair = json("'size': 2, 'ranks': [0, 1]");
  for (size_t at = alone.find(pair), gpu1 = alone.find("\n{\"id\": 1"); at != alone.npos;
       at = alone.find(pair))
    alone.replace(at, pair.size(),
                  json(at < gpu1 ? "'size': 1, 'ranks': [0]  " : "'size': 1, 'ranks': [1]  "));
  CHECK_EQ(verdict(alone), "uninitialized");
}

TEST_CASE("barriers join thread blocks") {
  auto barrier = [](int blocks) {
    return fmt::format("{{'name': 'barrier', 'barrier_id': 0, 'num_threadblocks': {}}}", blocks);
  };
  Shape test{"test", false, 2, 2, 2};
  auto through = [&](std::string middle) {
    auto block = [&](int part) {
      std::string at = fmt::format("{}", part), other = fmt::format("{}", 1 - part);
      return join({op("copy", local("i", at), local("s", at)), middle,
                   op("copy", local("s", other), local("o", other))});
    };
    return two(test, {block(0), block(1)});
  };
  CHECK_EQ(verdict(through(barrier(2))), "unchecked");
  CHECK_EQ(verdict(through("{'name': 'nop'}")), "race");
  CHECK_EQ(verdict(through(barrier(3))), "deadlock");
  std::vector<Diagnostic> diagnostics;
  CHECK_FALSE(mscclpp::readPlan(through(barrier(1)), diagnostics));
  CHECK_EQ(diagnostics.front().kind, Diagnostic::Kind::Unsupported);
}

TEST_CASE("semaphores count") {
  Shape shape{"test", false, 1, 1, 1};
  auto semaphore = [](std::string_view name, int id) {
    return fmt::format("{{'name': 'sem_{}', 'semaphore_ids': [{}]}}", name, id);
  };
  auto plan = [&](int id, std::string first = "") {
    return two(
        shape,
        {join({op("copy", local("i", "0"), local("s", "0")), semaphore("release", id)}),
         join({first + semaphore("acquire", id), op("copy", local("s", "0"), local("o", "0"))})});
  };
  CHECK_EQ(verdict(plan(0)), "unchecked");
  CHECK_EQ(verdict(plan(1)), "race"); // the first acquire is free
  CHECK_EQ(verdict(two(shape, {semaphore("acquire", 0)})), "deadlock");
  CHECK_EQ(verdict(two(shape, {semaphore("acquire", 1)})), "deadlock"); // for the next launch
  CHECK_EQ(verdict(two(shape, {join({semaphore("acquire", 1), semaphore("release", 1)})})),
           "unchecked");
  // Whoever comes first takes what is there at the beginning.
  std::string mutex = join({semaphore("acquire", 1), semaphore("release", 1)});
  std::vector<Diagnostic> shared;
  CHECK_FALSE(mscclpp::readPlan(two(shape, {mutex, mutex}), shared));
  REQUIRE_FALSE(shared.empty());
  CHECK_EQ(shared.front().kind, Diagnostic::Kind::Unsupported);
  // One acquires what two release, all at once.
  CHECK_EQ(verdict(two(shape, {semaphore("release", 0), semaphore("release", 0),
                               join({semaphore("acquire", 0), semaphore("acquire", 0)})})),
           "unchecked");
  std::vector<Diagnostic> diagnostics;
  CHECK_FALSE(mscclpp::readPlan(
      two(shape, {semaphore("release", 0), semaphore("release", 0),
                  join({semaphore("acquire", 0), op("copy", local("i", "0"), local("o", "0")),
                        semaphore("acquire", 0)})}),
      diagnostics));
  REQUIRE_FALSE(diagnostics.empty());
  CHECK_EQ(diagnostics.front().kind, Diagnostic::Kind::Unsupported);
}

TEST_CASE("a pipeline is its body, if it is in balance") {
  auto pipeline = [](std::string body) {
    return fmt::format("{{'name': 'pipeline', 'iter_context': {{'unit_size': 1024, 'num_chunks': "
                       "1}}, 'ops': [{}]}}",
                       body);
  };
  std::string put = op("put", local("o", "@"), remote(1, "@"));
  CHECK_EQ(verdict(two(gather, {pipeline(join({put, meet}))})), "ok");
  std::string signal = "{'name': 'signal', 'channel_ids': [1], 'channel_type': 'memory'}";
  std::string wait = "{'name': 'wait', 'channel_ids': [1], 'channel_type': 'memory'}";
  std::vector<Diagnostic> diagnostics;
  CHECK_FALSE(
      mscclpp::readPlan(two(gather, {join({pipeline(join({put, signal})), wait})}), diagnostics));
  REQUIRE_FALSE(diagnostics.empty());
  CHECK_EQ(diagnostics.front().kind, Diagnostic::Kind::Unsupported);
}

TEST_CASE("thread blocks of a group share a chunk") {
  auto part = [](int index) {
    return fmt::format("'channel_type': 'memory', 'tbg_info': {{'tb_id': {}, 'tbg_size': 3}}",
                       index);
  };
  std::vector<std::string> blocks;
  for (int i : {0, 1, 2})
    blocks.push_back(op("put", local("o", "@"), remote(1, "@"), part(i)));
  Foreign foreign = read(two(gather, blocks));
  CHECK_EQ(foreign.contract.chunks, 3);
  CHECK_EQ(verdict(foreign), "ok");
  // Two chunks among two blocks are not halves of each: what is written by one block is
  // read as the part of another, which was not waited for.
  auto half = [](int index) {
    return fmt::format("'channel_type': 'memory', 'tbg_info': {{'tb_id': {}, 'tbg_size': 2}}",
                       index);
  };
  std::vector<std::string> crossed;
  for (int i : {0, 1}) {
    std::string on = fmt::format("'channel_ids': [{}], 'channel_type': 'memory'", i);
    crossed.push_back(join({op("copy", local("i", "0", 2), local("s", "0", 2), half(i)),
                            fmt::format("{{'name': 'signal', {}}}", on),
                            fmt::format("{{'name': 'wait', {}}}", on),
                            op("get", remote(2, "0"), local("o", "0"), half(i))}));
  }
  CHECK_EQ(verdict(two({"test", false, 2, 2, 2}, crossed)), "race");
  // Each pair of an op is shared by all.
  std::vector<std::string> pairs;
  for (int i : {0, 1})
    pairs.push_back(op("put", local("i", "0", 2) + ", " + local("i", "2"),
                       remote(1, "0", 2) + ", " + remote(1, "2"), half(i)));
  Foreign shared = read(two({"sendrecv", false, 3, 3, 0}, pairs));
  CHECK_EQ(shared.contract.chunks, 6);
  CHECK_EQ(verdict(shared), "ok");
}

TEST_CASE("what is fused may still race") {
  // Both ranks exchange two chunks in place: each overwrites what the other has to send.
  Shape shape{"test", false, 2, 0, 0};
  Foreign foreign = read(two(shape, {join({meet,
                                           op("put", local("i", "0") + ", " + local("i", "1"),
                                              remote(0, "1") + ", " + remote(0, "0")),
                                           meet})}));
  CHECK_EQ(verdict(foreign), "race");
}

TEST_CASE("a copy does not wait for packets") {
  Shape shape{"allgather", true, 1, 2, 2, "LL"};
  auto plan = [&](std::string_view last) {
    return two(shape, {join({op("ppkt", local("o", "@"), remote(2, "@")),
                             op(last, local("s", "#"), local("o", "#"))})});
  };
  CHECK_EQ(verdict(plan("upkt")), "ok");
  CHECK_EQ(verdict(plan("copy")), "race");
}

TEST_CASE("signals that are left over are for the next launch") {
  std::string signal = "{'name': 'signal', 'channel_ids': [0], 'channel_type': 'memory'}";
  std::string wait = "{'name': 'wait', 'channel_ids': [0], 'channel_type': 'memory'}";
  CHECK_EQ(verdict(two({"test"}, {join({signal, signal, wait, wait})})), "unchecked");
  CHECK_EQ(verdict(two({"test"}, {join({signal, signal, wait})})), "deadlock");
}

TEST_CASE("the k-th channel to a peer pairs with its k-th") {
  auto sync = [](std::string_view name, int channel) {
    return fmt::format("{{'name': '{}', 'channel_ids': [{}], 'channel_type': 'memory'}}", name,
                       channel);
  };
  Shape shape{"test", false, 1, 1, 0};
  CHECK_EQ(verdict(two(shape, {join({sync("signal", 0), sync("wait", 0)})})), "unchecked");
  CHECK_EQ(verdict(two(shape, {join({sync("signal", 0), sync("wait", 1)})})), "deadlock");
  CHECK_EQ(verdict(two(shape, {join({sync("wait", 0), sync("signal", 0)})})), "deadlock");
  CHECK_EQ(verdict(two(shape, {sync("signal", 0), sync("wait", 0)})), "unchecked");
  // Two thread blocks wait on one channel; the one that signals does so at once.
  CHECK_EQ(verdict(two(shape, {join({sync("signal", 0), sync("signal", 0), sync("wait", 0)}),
                               sync("wait", 0)})),
           "unchecked");
  std::vector<Diagnostic> diagnostics;
  CHECK_FALSE(mscclpp::readPlan(two(shape, {join({sync("signal", 0), sync("wait", 0)}),
                                            join({sync("signal", 0), sync("wait", 0)})}),
                                diagnostics));
  REQUIRE_FALSE(diagnostics.empty());
  CHECK_EQ(diagnostics.front().kind, Diagnostic::Kind::Unsupported);
}

TEST_CASE("an unpaired wait is a deadlock with a place") {
  Foreign foreign =
      read(two({"test"}, {"\n  {'name': 'wait', 'channel_ids': [0], 'channel_type': 'memory'}"}));
  model::ProgramReport report = check(foreign);
  REQUIRE_FALSE(report.ok());
  CHECK_EQ(report.faults.front().kind, model::FaultKind::Unpaired);
  interchange::TextPlace place = foreign.places[size_t(report.faults.front().loc)];
  CHECK((place.line == 3 || place.line == 6)); // of one rank or the other
  CHECK_EQ(place.column, 3);
}
