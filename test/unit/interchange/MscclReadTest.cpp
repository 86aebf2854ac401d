// What MSCCL XML means.
#include "test/unit/interchange/Msccl.h"

using namespace ccl;
using namespace ccl::msccl;

/// Two ranks that each send their input and combine what arrives.
static TestFile pairwise(std::vector<std::string> steps) {
  TestFile file;
  file.gpus = {{{1, 1, 0, steps}}, {{0, 0, 0, steps}}};
  return file;
}

TEST_CASE("msccl: s, r, cpy and re") {
  TestFile file = pairwise({"s i0 -", "r - s0", "cpy i0 o0", "re s0 o0"});
  interchange::Foreign foreign = read(file.text());
  CHECK(verdictOf(foreign) == "ok");
  CHECK(foreign.name == "test");
  CHECK(foreign.disjoint);
  CHECK(!foreign.inPlace);
  REQUIRE(foreign.program.buffers.size() == 3);
  CHECK(foreign.contract.str() == "all_reduce sum");
  const model::Agent &agent = foreign.program.ranks[1].agents[0];
  REQUIRE(agent.code.size() == 4);
  // The place of a step is that of its element.
  CHECK(foreign.places[size_t(agent.code[3].loc)] == interchange::TextPlace{15, 7});
  // `re` adds to what is there.
  CHECK(verdictOf(read(pairwise({"s i0 -", "r - o0", "re i0 o0"}).text())) == "ok");
  CHECK(verdictOf(read(pairwise({"s i0 -", "r - o0"}).text())) == "wrong");
  CHECK(verdictOf(read(pairwise({"s i0 -", "r - s0", "re s0 o0"}).text())) == "uninitialized");
}

TEST_CASE("msccl: what rrc, rrs and rrcs add is the receiver's own") {
  CHECK(verdictOf(read(pairwise({"s i0 -", "rrc i0 o0"}).text())) == "ok");
  // A place of the sender, as msccl-tools writes it: nothing was written there.
  TestFile wrong = pairwise({"s i0 -", "rrc s0 o0"});
  interchange::Foreign foreign = read(wrong.text());
  CHECK(verdictOf(foreign) == "uninitialized");
  CHECK(warningsOf(foreign).find("5:41: type=\"rrc\": what is received is added to `s` 0 of this "
                                 "rank, and stored in `o` 0") != std::string::npos);
  CHECK(warningsOf(read(pairwise({"s i0 -", "rrc i0 o0"}).text())).find("is added to") ==
        std::string::npos);

  // A chain: 0 sends, 1 adds and passes on without storing, 2 stores and sends the sum back.
  TestFile chain;
  chain.gpus = {{{1, 2, 0, {"s i0 -", "rcs - o0"}}},
                {{2, 0, 0, {"rrs i0 -", "rcs - o0"}}},
                {{0, 1, 0, {"rrcs i0 o0", "r - o0"}}}};
  foreign = read(chain.text());
  CHECK(verdictOf(foreign) == "ok");
  const model::Instruction &stored = foreign.program.ranks[2].agents[0].code[0];
  CHECK(stored.reduce);
  CHECK(stored.from.size() == 2);
  CHECK(stored.to.size() == 2);
  const model::Instruction &passed = foreign.program.ranks[1].agents[0].code[0];
  CHECK(passed.from.size() == 2);
  CHECK(passed.to.size() == 1);
}

TEST_CASE("msccl: protocols hold 2 or 8 messages") {
  TestFile file = pairwise({"s i0 -", "s i1 -", "s i2 -", "rrc i0 o0", "rrc i1 o1", "rrc i2 o2"});
  file.chunksPerLoop = file.in = file.out = 3;
  CHECK(verdictOf(read(file.text())) == "deadlock");
  file.protocol = "LL";
  interchange::Foreign foreign = read(file.text());
  CHECK(verdictOf(foreign) == "ok");
  CHECK(foreign.program.ranks[0].channels[0].slots == 8);
  file.protocol = "LL128";
  CHECK(verdictOf(read(file.text())) == "ok");
}

TEST_CASE("msccl: dependences become as few signals and waits as matter") {
  TestFile file;
  file.scratch = 3, file.in = file.out = file.chunksPerLoop = 3;
  // Block 1 waits for step 0 (whose flag is that of step 1), again for it, then for step 2.
  file.gpus = {{{-1, -1, 0, {"cpy i0 s0", "cpy i1 s1 flag", "cpy i2 s2 flag"}},
                {-1,
                 -1,
                 0,
                 {"cpy s0 o0 after 0.0", "nop - - after 0.1", "cpy s1 o1 after 0.0",
                  "cpy s2 o2 after 0.2"}}}};
  interchange::Foreign foreign = read(file.text());
  CHECK(verdictOf(foreign) == "ok");
  auto kinds = [&](size_t agent) {
    std::string text;
    for (const model::Instruction &i : foreign.program.ranks[0].agents[agent].code)
      text += "tsw"[size_t(i.kind)];
    return text;
  };
  CHECK(kinds(0) == "ttsts");
  CHECK(kinds(1) == "wttwt");
  REQUIRE(foreign.program.ranks[0].channels.size() == 2);
  CHECK(foreign.program.ranks[0].channels[0].peer == 0);
  CHECK(foreign.program.ranks[0].channels[0].slots == 0);

  // Without the last dependence the read comes too early, or not.
  file.gpus[0][1].steps.back() = "cpy s2 o2";
  std::string message;
  CHECK(verdictOf(read(file.text()), &message) == "race");
}

TEST_CASE("msccl: waiting for a flag that is never stored is a deadlock") {
  TestFile file;
  file.gpus = {{{-1, -1, 0, {"cpy i0 o0"}}, {-1, -1, 0, {"cpy i0 s0 after 0.0"}}}};
  CHECK(verdictOf(read(file.text())) == "deadlock");
  file.gpus[0][0].steps = {"cpy i0 o0 flag"};
  CHECK(verdictOf(read(file.text())) == "ok");
  // A nop stores none.
  file.gpus[0][0].steps = {"cpy i0 o0", "nop - - flag"};
  interchange::Foreign foreign = read(file.text());
  CHECK(verdictOf(foreign) == "deadlock");
  CHECK(warningsOf(foreign).find("nops store no flag") != std::string::npos);
  // A block may wait for its own past, not for its future.
  file.gpus = {{{-1, -1, 0, {"cpy i0 o0 flag", "cpy i0 s0 after 0.0"}}}};
  CHECK(verdictOf(read(file.text())) == "ok");
  file.gpus = {{{-1, -1, 0, {"cpy i0 o0 after 0.1", "cpy i0 s0 flag"}}}};
  CHECK(verdictOf(read(file.text())) == "deadlock");
}

TEST_CASE("msccl: in place there is one buffer, i and o are parts of it") {
  TestFile file;
  file.coll = "allgather", file.chunksPerLoop = file.out = 2, file.in = 0;
  file.attributes = "inplace=\"1\"";
  file.gpus = {{{1, 1, 0, {"s o0 -", "r - o1"}}}, {{0, 0, 0, {"s o1 -", "r - o0"}}}};
  interchange::Foreign foreign = read(file.text());
  CHECK(verdictOf(foreign) == "ok");
  CHECK(!foreign.disjoint);
  CHECK(foreign.inPlace);
  REQUIRE(foreign.program.buffers[0].role == model::Role::InOut);
  CHECK(foreign.program.buffers[0].chunks == 2);
  // The input of rank 1 is chunk 1.
  file.in = 1;
  file.gpus[1] = {{0, 0, 0, {"s i0 -", "r - o0"}}};
  foreign = read(file.text());
  CHECK(verdictOf(foreign) == "ok");
  CHECK(foreign.program.ranks[1].agents[0].code[0].from[0].chunk == 1);
  // Out of place the rank's own chunk is missing.
  file.attributes = "inplace=\"0\"";
  CHECK(verdictOf(read(file.text())) == "uninitialized");
  // Both forms: two buffers, each proved.
  file.attributes = "inplace=\"1\" outofplace=\"1\" minBytes=\"0\" maxBytes=\"0\"";
  file.gpus = {{{1, 1, 0, {"cpy i0 o0", "s i0 -", "r - o1"}}},
               {{0, 0, 0, {"cpy i0 o1", "s i0 -", "r - o0"}}}};
  foreign = read(file.text());
  CHECK(verdictOf(foreign) == "ok");
  CHECK(foreign.disjoint);
  CHECK(foreign.inPlace);
}

TEST_CASE("msccl: out of place the input is only read") {
  TestFile file = pairwise({"s i0 -", "rrc i0 i0", "cpy i0 o0"});
  CHECK(verdictOf(read(file.text())) == "wrong");
  file.attributes = "inplace=\"1\"";
  CHECK(verdictOf(read(file.text())) == "ok");
}

TEST_CASE("msccl: the root of a broadcast and of a reduction") {
  TestFile file;
  file.coll = "broadcast";
  file.gpus = {{{-1, 1, 0, {"r - o0"}}}, {{0, -1, 0, {"cpy i0 o0", "s i0 -"}}}};
  interchange::Foreign foreign = read(file.text());
  CHECK(foreign.contract.root == 1);
  CHECK(verdictOf(foreign) == "ok");
  file.coll = "reduce";
  file.gpus = {{{1, -1, 0, {"s i0 -"}}}, {{-1, 0, 0, {"rrc i0 o0"}}}};
  foreign = read(file.text());
  CHECK(foreign.contract.root == 1);
  CHECK(verdictOf(foreign) == "ok");
  // Where both could be it, the file has to say it.
  file.gpus = {{{1, 1, 0, {"s i0 -", "r - o0"}}}, {{0, 0, 0, {"s i0 -", "rrc i0 o0"}}}};
  CHECK(errorOf(file.text()) == "1:77: unsupported: the root of this reduce does not follow from "
                                "its steps; say root=\"r\"");
  file.attributes = "inplace=\"0\" root=\"1\"";
  CHECK(verdictOf(read(file.text())) == "ok");
}

TEST_CASE("msccl: both words for reduce_scatter, other reductions, custom collectives") {
  TestFile file;
  file.in = file.chunksPerLoop = 2;
  file.gpus = {{{1, 1, 0, {"s i1 -", "rrc i0 o0"}}}, {{0, 0, 0, {"s i0 -", "rrc i1 o0"}}}};
  for (std::string word : {"reduce_scatter", "reducescatter"}) {
    file.coll = word;
    CHECK(verdictOf(read(file.text())) == "ok");
  }
  file.attributes = "inplace=\"0\" redop=\"max\"";
  CHECK(read(file.text()).contract.reduction == model::Reduction::Max);
  file.attributes = "inplace=\"0\"";
  file.coll = "custom";
  CHECK(verdictOf(read(file.text())) == "unchecked");
  file.attributes = "inplace=\"0\" ccl_rows=\"0 0 0 0,0 0 1 0,1 0 0 1,1 0 1 1\"";
  CHECK(verdictOf(read(file.text())) == "ok");
  file.attributes = "inplace=\"0\" ccl_rows=\"0 0 0 0,0 0 1 0,1 0 0 1,1 0 1 0\"";
  CHECK(verdictOf(read(file.text())) == "wrong");
  file.attributes = "inplace=\"0\" ccl_coll=\"permute\" ccl_to=\"1 0\"";
  file.in = file.chunksPerLoop = 1;
  file.gpus = {{{1, 1, 0, {"s i0 -", "r - o0"}}}, {{0, 0, 0, {"s i0 -", "r - o0"}}}};
  CHECK(verdictOf(read(file.text())) == "ok");
}

TEST_CASE("msccl: one scratch place of two blocks, as unequal layouts made msccl-tools write it") {
  // Rank 1 passes two messages on, over one place: each block is right for itself.
  TestFile file;
  file.coll = "custom", file.in = file.out = file.chunksPerLoop = 2, file.channels = 2;
  file.attributes = "inplace=\"0\" ccl_rows=\"2 0 0 0,2 1 0 1\"";
  file.gpus = {{{1, -1, 0, {"s i0 -"}}, {1, -1, 1, {"s i1 -"}}},
               {{2, 0, 0, {"r - s0", "s s0 -"}}, {2, 0, 1, {"rcs - s0"}}},
               {{-1, 1, 0, {"r - o0"}}, {-1, 1, 1, {"r - o1"}}}};
  std::string message;
  CHECK(verdictOf(read(file.text()), &message) == "race");
  CHECK(message.find("rank 1, block 0, instruction") != std::string::npos);
  CHECK(message.find("rank 1, block 1, instruction 0") != std::string::npos);
  CHECK(message.find("scratch[0]") != std::string::npos);
  file.scratch = 2;
  file.gpus[1][1].steps = {"rcs - s1"};
  CHECK(verdictOf(read(file.text())) == "ok");
}

TEST_CASE("msccl: what the runtimes would not take") {
  TestFile file = pairwise({"s i0 -", "rrc i0 o0"});
  CHECK(warningsOf(read(file.text())) ==
        "1:1: `algo` lacks outofplace, minBytes, maxBytes: not taken by RCCL, msccl-executor-nccl\n"
        "5:19: rcs, rrs, rrc and rrcs are refused by builds of 2024: not taken by RCCL (1 more of "
        "this kind)\n");
  file.attributes = "inplace=\"0\" outofplace=\"1\" minBytes=\"0\" maxBytes=\"0\"";
  file.gpus = {{{1, 1, 0, {"s i0 -", "r - s0", "cpy i0 o0", "re s0 o0"}}},
               {{0, 0, 0, {"s i0 -", "r - s0", "cpy i0 o0", "re s0 o0"}}}};
  CHECK(warningsOf(read(file.text())) == "");

  TestFile large = file;
  large.gpus = {{{-1, -1, 40, std::vector<std::string>(65, "cpy i0 o0")}}};
  large.channels = 41;
  std::string warnings = warningsOf(read(large.text()));
  CHECK(warnings.find("1:34: 41 channels; at most 32: not taken by MSCCL, RCCL, "
                      "msccl-executor-nccl") != std::string::npos);
  CHECK(warnings.find("68:7: 65 steps; at most 64 in a block: not taken by RCCL, "
                      "msccl-executor-nccl\n") != std::string::npos);
  large.gpus = {{{-1, -1, 0, {"cpy i0 o0", "nop - - after 1.0", "cpy i0 o0"}},
                 {-1, -1, 0, {"cpy i0 s0 x72 flag"}}}};
  large.in = large.out = large.scratch = large.chunksPerLoop = 72;
  warnings = warningsOf(read(large.text()));
  CHECK(warnings.find("cnt=\"72\"; it must be below 72") != std::string::npos);
  CHECK(warnings.find("after a nop that waits comes a step with depid=\"-1\"") !=
        std::string::npos);

  std::string text = file.text();
  text.replace(text.find("proto=\"Simple\""), 14, "proto='Simple' \n");
  warnings = warningsOf(read("<?xml version=\"1.0\"?>\n" + text));
  CHECK(warnings.find("1:1: an XML declaration is not read") != std::string::npos);
  CHECK(warnings.find("only double quotes are read") != std::string::npos);
  CHECK(warnings.find("attributes are to be separated by one space") != std::string::npos);
}

TEST_CASE("msccl: what the runtimes would not take of the algo") {
  TestFile file;
  file.gpus = {{{-1, -1, 0, {"cpy i0 o0"}}}};
  auto warns = [&](const std::string &attributes, const std::string &warning) {
    file.attributes = attributes;
    const std::string warnings = warningsOf(read(file.text()));
    CHECK_MESSAGE(warnings.find(warning) != std::string::npos, warnings);
  };
  const std::string all = "outofplace=\"1\" minBytes=\"0\" maxBytes=\"0\"";
  warns("inplace=\"0\" outofplace=\"0\" minBytes=\"0\" maxBytes=\"0\"",
        "neither inplace nor outofplace is 1: not taken by RCCL, msccl-executor-nccl\n");
  warns("inplace=\"0\" outofplace=\"1\" minBytes=\"5\" maxBytes=\"4\"",
        "maxBytes is smaller than minBytes: not taken by RCCL, msccl-executor-nccl\n");
  warns("inplace=\"0\" outofplace=\"1\" minBytes=\"5\" maxBytes=\"0\"",
        "maxBytes is smaller than minBytes (it has no word for no limit): not taken by MSCCL\n");
  warns("inplace=\"0\" nthreads=\"33\" " + all,
        "nthreads=\"33\" is no multiple of a warp (32): not taken by MSCCL\n");
  file.coll = "custom";
  warns("inplace=\"0\" " + all,
        "coll=\"custom\" is unknown there: not taken by RCCL, msccl-executor-nccl\n");
  file.coll = "gather";
  warns("inplace=\"0\" " + all, "coll=\"gather\" is unknown there: not taken by MSCCL\n");
  file.coll = "allreduce";
  file.gpus.assign(1025, {{{-1, -1, 0, {"cpy i0 o0"}}}});
  warns("inplace=\"0\" " + all,
        "1025 gpus; at most 1024 elements in one: not taken by RCCL, msccl-executor-nccl\n");
}

TEST_CASE("msccl: what the runtimes would not take of blocks and steps") {
  TestFile file;
  file.attributes = "inplace=\"0\" outofplace=\"1\" minBytes=\"0\" maxBytes=\"0\"";
  auto warns = [&](std::vector<TestBlock> blocks, const std::string &warning) {
    file.gpus = {std::move(blocks)};
    const std::string warnings = warningsOf(read(file.text()));
    CHECK_MESSAGE(warnings.find(warning) != std::string::npos, warnings);
  };
  warns({{-1, -1, 0, {"cpy i0 o0", "nop"}}},
        "5:7: a nop at the end of a block: nothing waits: not taken by MSCCL");
  warns({{-1, -1, -1, {"cpy i0 o0"}}},
        "3:36: chan=\"-1\"; a block without peers needs a channel, too: not taken by RCCL, "
        "msccl-executor-nccl\n");
  warns({{-1, -1, 1, {"cpy i0 o0"}}}, "3:36: chan=\"1\", but nchannels=\"1\"\n");
  warns(std::vector<TestBlock>(217, {-1, -1, 0, {"cpy i0 o0"}}),
        "block 216; at most 216 blocks in a gpu: not taken by MSCCL, RCCL\n");
  warns(std::vector<TestBlock>(1025, {-1, -1, 0, {"cpy i0 o0"}}),
        "1025 blocks; at most 1024 elements in one: not taken by RCCL, msccl-executor-nccl\n");
  warns(std::vector<TestBlock>(64, {-1, -1, 0, std::vector<std::string>(64, "cpy i0 o0")}),
        "4162 elements are read for a gpu; at most 4096: not taken by RCCL, msccl-executor-nccl");
  file.in = file.out = file.scratch = file.chunksPerLoop = 2;
  warns({{-1, -1, 0, {"re i0 s0", "re i0 s0", "re i0 s0 x2"}}},
        "cnt=\"2\" after cnt=\"1\": consecutive `re` into one place are made one");
  // 33 blocks send to as many gpus, on one channel.
  TestFile fan;
  fan.coll = "custom";
  fan.gpus.assign(34, {});
  for (int peer = 1; peer < 34; ++peer)
    fan.gpus[0].push_back({peer, -1, 0, {"s i0 -"}}),
        fan.gpus[size_t(peer)] = {{-1, 0, 0, {"r - o0"}}};
  CHECK(warningsOf(read(fan.text())).find("more than 32 blocks of a gpu send on channel 0") !=
        std::string::npos);
  // Ids with a gap.
  file = TestFile();
  file.gpus = {{{-1, -1, 0, {"cpy i0 o0"}}}};
  std::string text = file.text();
  text.replace(text.find("tb id=\"0\""), 9, "tb id=\"1\"");
  CHECK(warningsOf(read(text))
            .find("there is no block 0, but one with a larger id: not taken by "
                  "RCCL, msccl-executor-nccl\n") != std::string::npos);
}

TEST_CASE("msccl: what the runtimes' own parsers do not read, each kind once") {
  TestFile file;
  file.gpus = {{{-1, -1, 0, {"cpy i0 o0"}}}};
  const std::string plain = file.text();
  CHECK(warningsOf(read(plain)).find("parsers") == std::string::npos);
  auto warns = [&](std::string_view what, const std::string &by, const std::string &warning) {
    std::string text = plain;
    size_t at = text.find(what);
    REQUIRE(at != text.npos);
    text.replace(at, what.size(), by);
    std::string warnings = warningsOf(read(text));
    INFO(text.substr(0, 300));
    CHECK_MESSAGE(warnings.find(warning + " by the runtimes' own parsers") != std::string::npos,
                  warnings);
  };
  warns("<algo", "\xef\xbb\xbf<algo", "1:1: a byte order mark is not read");
  warns("<algo", "<!DOCTYPE algo><algo", "1:1: a DOCTYPE is not read");
  warns("name=\"test\"", "name=\"a&amp;b\"", "1:14: entities are not resolved");
  warns("name=\"test\"", "name =\"test\"", "1:12: no space may be around =");
  warns("name=\"test\"", "name=\"" + std::string(255, 'x') + "\"",
        "1:12: a value of 255 characters; at most 254 are kept");
  std::string many;
  for (int i = 0; i < 17; ++i)
    many += fmt::format(" a{}=\"\"", i);
  warns("<tb", "<tb" + many, "more than 16 attributes; the others are not read");
  // However many there are: the first one, and their number.
  std::string text = plain;
  text.insert(text.find("  <gpu"), std::string(1000000, '\t'));
  CHECK(warningsOf(read("<!-- \t -->" + text))
            .find("2:1: tabs between elements are not read by the runtimes' own parsers (999999 "
                  "more of this kind)\n") != std::string::npos);
}

TEST_CASE("msccl: a step's number is its place in the block, whatever s says") {
  TestFile file = pairwise({"s i0 -", "rrc i0 o0"});
  std::string text = file.text();
  text.replace(text.find(" s=\"1\""), 6, " s=\"7\"");
  interchange::Foreign foreign = read(text);
  CHECK(verdictOf(foreign) == "ok");
  CHECK(warningsOf(foreign).find("5:13: s=\"7\" of step 1") != std::string::npos);
}
