// Plans of generation 1, and drafts of generation 2.

#include "test/unit/interchange/Mscclpp.h"

using namespace ccl;
using namespace ccl::mscclpp::test;

namespace {

struct OldBlock {
  std::string channels, ops;
};

/// Two ranks that do the same: `@` is the rank, `#` the other one.
std::string old(const Shape &shape, std::string_view channels,
                const std::vector<OldBlock> &blocks) {
  std::vector<std::string> gpus, texts;
  for (const OldBlock &block : blocks)
    texts.push_back(fmt::format("{{'id': {}, 'channels': [{}], 'ops': [\n{}]}}", texts.size(),
                                block.channels, block.ops));
  for (int rank : {0, 1}) {
    std::string gpu =
        fmt::format("{{'id': @, 'inputChunks': {}, 'outputChunks': {}, 'scratchChunks': {}, "
                    "'channels': [{}], 'threadblocks': [{}]}}",
                    shape.in, shape.out, shape.scratch, channels, fmt::join(texts, ", "));
    for (auto [from, to] :
         {std::pair{"2+@", 2 + rank}, {"2+#", 3 - rank}, {"@", rank}, {"#", 1 - rank}})
      gpu = replaced(gpu, from, std::to_string(to));
    gpus.push_back(gpu);
  }
  return json(fmt::format("{{'name': 'x', 'collective': '{}', 'protocol': '{}', 'inplace': {}, "
                          "'gpus': [{}]}}",
                          shape.collective, shape.protocol, shape.inPlace, fmt::join(gpus, ",\n")));
}

/// Channels of a rank over which it reaches `dst` of the other one, from `src`; those of a block.
std::string connect(char src, char dst, std::string_view peers, std::string_view type = "sm") {
  return fmt::format("{{'srcbuff': '{}', 'dstbuff': '{}', 'type': '{}', 'connectedTo': [{}]}}", src,
                     dst, type, peers);
}
std::string use(char src, char dst, std::string_view ids, std::string_view type = "sm") {
  return fmt::format("{{'src': '{}', 'dst': '{}', 'ctype': '{}', 'cids': [{}]}}", src, dst, type,
                     ids);
}
std::string group(char buffer) {
  return fmt::format("{{'buff': '{}', 'type': 'nvls', 'rankGroups': [{{'size': 2, 'ranks': [0, "
                     "1]}}]}}",
                     buffer);
}
std::string sync(std::string_view name, char src, char dst, std::string_view type = "sm") {
  char side = name == "wait" ? 'i' : 'o';
  return fmt::format("{{'name': '{0}', '{1}_buff': {{'src': '{2}', 'dst': '{3}'}}, '{1}_cids': "
                     "[{{'id': 0, 'off': 0}}], 'ctype': '{4}', 'cnt': 1}}",
                     name, side, src, dst, type);
}
std::string put(std::string_view name, char src, std::string_view from, char dst,
                std::string_view to, std::string_view type = "sm", int id = 0) {
  return fmt::format("{{'name': '{}', 'o_buff': {{'src': '{}', 'dst': '{}'}}, 'o_cids': [{{'id': "
                     "{}, 'off': {}}}], 'srcs': [{{'buff': '{}', 'off': {}}}], 'ctype': '{}', "
                     "'cnt': 1}}",
                     name, src, dst, id, to, src, from, type);
}
std::string join(std::initializer_list<std::string> ops) {
  return fmt::format("{}", fmt::join(ops, ",\n"));
}

/// "line:column: kind: text" of every error.
std::vector<std::string> errorsOf(const std::string &text) {
  std::vector<Diagnostic> diagnostics;
  CHECK_FALSE(mscclpp::readPlan(text, diagnostics));
  std::vector<std::string> errors;
  for (const Diagnostic &d : diagnostics)
    errors.push_back(
        fmt::format("{}:{}: {}: {}", d.place.line, d.place.column,
                    d.kind == Diagnostic::Kind::Malformed ? "malformed" : "unsupported", d.text));
  return errors;
}

} // namespace

TEST_CASE("generation 1: cpkt unpacks, and channels carry their buffers") {
  std::string reduce = "{'name': 'rspkt', 'o_buff': {'src': 'i', 'dst': 's'}, 'o_cids': [{'id': 0, "
                       "'off': 2+@}], 'srcs': [{'buff': 's', 'off': @}], 'srcbuff': 'i', 'srcoff': "
                       "@, 'dstbuff': 'i', 'dstoff': @, 'ctype': 'none', 'cnt': 1}";
  std::string unpack = "{'name': 'cpkt', 'srcbuff': 's', 'srcoff': 2+#, 'dstbuff': 'i', 'dstoff': "
                       "#, 'ctype': 'none', 'cnt': 1}";
  std::string text = old(
      {"allreduce", true, 2, 0, 4, "LL"}, connect('i', 's', "#"),
      {{use('i', 's', "0"), join({put("ppkt", 'i', "#", 's', "#"), reduce,
                                  "{'name': 'nop', 'deps': [{'tb': 0, 'step': 1}]}", unpack})}});
  Foreign foreign = read(replaced(text, "collective", "colletive")); // as the oldest say
  INFO(faults(foreign));
  CHECK_EQ(verdict(foreign), "ok");
  CHECK_EQ(foreign.contract.chunks, 2);
  CHECK(warns(foreign, "August 2025"));
}

TEST_CASE("generation 1: dependences of other thread blocks, put and get") {
  std::string get = "{'name': 'get', 'i_buff': {'src': 'o', 'dst': 'i'}, 'i_cids': [{'id': 0, "
                    "'off': 1}], 'dsts': [{'buff': 's', 'off': 1}], 'ctype': 'sm', 'cnt': 1}";
  auto add = [](int chunk) {
    return fmt::format("{{'name': 're', 'srcs': [{{'buff': 's', 'off': {0}}}], 'srcbuff': 'i', "
                       "'srcoff': {0}, 'dstbuff': 'o', 'dstoff': {0}, 'ctype': 'none', 'cnt': 1}}",
                       chunk);
  };
  std::string text =
      old({"allreduce", false, 2, 2, 2},
          connect('i', 's', "#", "proxy") + ", " + connect('o', 'i', "#"),
          {{use('i', 's', "0", "proxy") + ", " + use('o', 'i', "0"),
            join({put("pwsf", 'i', "0", 's', "0", "proxy"), sync("wait", 'i', 's', "proxy"), get})},
           {"", join({"{'name': 'nop', 'deps': [{'tb': 0, 'step': 2}]}", add(0), add(1)})}});
  CHECK_EQ(verdict(text), "ok");
  // Without the dependence the other thread block reads too early.
  CHECK_EQ(verdict(replaced(text, json("{'tb': 0, 'step': 2}"), "")), "race");
  CHECK_EQ(errorsOf(replaced(text, json("'step': 2"), json("'step': 9"))).front(),
           "5:1: malformed: there is no step 9 in a thread block 0");
}

// As in a plan that came with MSCCL++.
TEST_CASE("generation 1: two thread blocks that store into one place of a peer") {
  auto reduce = [](std::string_view chunk, std::string_view sent) {
    return fmt::format("{{'name': 'rrcs', 'i_cids': [{{'id': 0, 'off': {0}}}], 'o_cids': [{{'id': "
                       "0, 'off': {1}}}], 'srcbuff': 'i', 'dstbuff': 'i', 'dstoff': {0}, 'ctype': "
                       "'sm', 'cnt': 1}}",
                       chunk, sent);
  };
  auto plan = [&](std::string_view sent) {
    std::string meet = join({sync("signal", 'i', 'i'), sync("wait", 'i', 'i')});
    return old({"allreduce", true, 4, 0, 0}, connect('i', 'i', "#, #"),
               {{use('i', 'i', "0"), join({meet, reduce("@", "@"), meet})},
                {use('i', 'i', "1"), join({meet, reduce("2+@", sent), meet})}});
  };
  CHECK_EQ(verdict(plan("2+@")), "ok");
  Foreign foreign = read(plan("@"));
  CHECK_EQ(verdict(foreign), "race");
  const std::vector<model::Fault> found = check(foreign).faults;
  REQUIRE_FALSE(found.empty());
  CHECK_EQ(found.front().kind, model::FaultKind::Conflict);
  REQUIRE_EQ(found.front().notes.size(), 1);
  auto line = [&](int32_t loc) { return foreign.places[size_t(loc)].line; };
  // Of rank 1; its blocks' third ops.
  CHECK_EQ(line(found.front().loc), 20);
  CHECK_EQ(line(found.front().notes[0].loc), 15);
}

TEST_CASE("generation 1: channels of one key come in several entries") {
  std::string text =
      old({"test", false, 1, 1, 0}, connect('i', 'o', "#") + ", " + connect('i', 'o', "#"),
          {{use('i', 'o', "0") + ", " + use('i', 'o', "1"),
            join({put("put", 'i', "0", 'o', "0", "sm", 1), sync("signal", 'i', 'o'),
                  sync("wait", 'i', 'o')})}});
  CHECK_EQ(verdict(text), "unchecked");
}

TEST_CASE("generation 1: a switch op takes the channels of its buffers") {
  auto sum = [](std::string_view channels) {
    return fmt::format("{{'name': 'glres', 'srcbuff': 'i', 'srcoff': @, {}, 'dstbuff': 'o', "
                       "'dstoff': @, 'ctype': 'nvls', 'cnt': 1}}",
                       channels);
  };
  auto plan = [&](std::string_view channels) {
    return old({"allreduce", false, 2, 2, 0}, group('i') + ", " + group('o'),
               {{use('i', 'i', "0", "nvls") + ", " + use('o', 'o', "0", "nvls"), sum(channels)}});
  };
  CHECK_EQ(verdict(plan("'i_cids': [{'id': 0}], 'o_cids': [{'id': 0}]")), "ok");
  CHECK_EQ(verdict(plan("'gi_cid': 0, 'go_cid': 0")), "ok");
  CHECK_EQ(errorsOf(plan("'gi_cid': 0, 'go_cid': 1")).front(),
           "2:71: malformed: the thread block has 1 switch channels from \"o\" to \"o\", there is "
           "no number 1");
  CHECK_EQ(errorsOf(plan("'i_cids': [{'id': 0}, {'id': 0}], 'o_cids': [{'id': 0}]")).front(),
           "2:1: malformed: glres has other sources than it takes: one of a switch channel");
}

TEST_CASE("generation 1: what contradicts itself has its place, once") {
  auto plan = [](std::string_view channels, std::string_view used, std::string_view ops) {
    return old({"test", false, 1, 1, 0}, channels, {{std::string(used), std::string(ops)}});
  };
  std::string direct = connect('i', 'o', "#"), mine = use('i', 'o', "0");
  // A signal over a channel that the block has not; the ops beside it are fine.
  std::string fine = put("put", 'i', "0", 'o', "0");
  CHECK_EQ(errorsOf(plan(direct, mine, join({fine, sync("signal", 'i', 'i'), fine}))),
           std::vector<std::string>{
               "3:74: malformed: the thread block has 0 memory channels from \"i\" to \"i\", there "
               "is no number 0",
               "7:74: malformed: the thread block has 0 memory channels from \"i\" to \"i\", there "
               "is no number 0"});
  CHECK_EQ(errorsOf(plan(direct, use('i', 'o', "1"), "")).front(),
           "1:324: malformed: rank 0 has 1 memory channels from \"i\" to \"o\", there is no number "
           "1");
  // Signals go to one peer.
  for (std::string_view name : {"signal", "wait"})
    CHECK_EQ(
        errorsOf(plan(group('i'), use('i', 'i', "0", "nvls"), sync(name, 'i', 'i', "nvls")))
            .front(),
        fmt::format("2:1: malformed: {} is over memory or port channels, not \"switch\"", name));
  CHECK_EQ(errorsOf(plan(connect('i', 'o', "#", "none"), "", "")).front(),
           "1:207: malformed: a channel is of type \"memory\", \"port\" or \"switch\"");
  CHECK_EQ(errorsOf(plan("", "", "{'name': 'glre'}")).front(),
           "2:10: unsupported: this generation of plans has no op \"glre\"");
  std::string text = plan("", "", "");
  size_t second = text.rfind("inputChunks");
  CHECK_EQ(errorsOf(text.replace(second, 11, "input")).front(),
           "3:1: malformed: a GPU has no \"inputChunks\"");
}

TEST_CASE("drafts of generation 2 are read, and told of once") {
  std::string text = two({"allgather", true, 1, 2}, {"{'name': 'nop'}"});
  text = replaced(text, json("'channel_type': 'memory', 'connected_to'"),
                  json("'type': 'memory', 'connectedTo'"));
  Foreign foreign = read(text);
  CHECK(warns(foreign, "the spelling of a draft"));
  CHECK_EQ(foreign.warnings.size(), 1);
}

TEST_CASE("a draft with remote buffers and the keys of generation 1") {
  auto gpu = [](int me, char buffer, int chunk) {
    return fmt::format(
        "{{'id': {0}, 'inputChunks': 1, 'outputChunks': 2, 'scratchChunks': 0,\n'channels': "
        "[{{'type': 'memory', 'connectedTo': [{1}]}}],\n'remoteBuffers': [{{'rank': {1}, 'type': "
        "'{2}', 'accessChannels': ['memory']}}], 'threadblocks': [{{'id': 0, 'channels': "
        "[{{'ctype': 'memory', 'cids': [0]}}], 'remoteBuffersIds': [0],\n'ops': [{{'name': "
        "'rsignal', 'cids': [0], 'ctype': 'memory'}}, {{'name': 'rwait', 'cids': [{{'id': 0}}], "
        "'ctype': 'memory'}},\n{{'name': 'put', 'src_buff': [{{'type': '{2}', 'offset': {3}, "
        "'size': 1}}], 'dst_buff': [{{'buff_id': 0, 'offset': {3}, 'size': 1}}], 'ctype': "
        "'memory'}},\n{{'name': 'signal', 'cids': [0], 'ctype': 'memory'}}, {{'name': 'wait', "
        "'cids': [0], 'ctype': 'memory'}}]}}]}}",
        me, 1 - me, buffer, chunk);
  };
  auto plan = [&](char buffer) {
    return json(fmt::format("{{'name': 'x', 'collective': 'allgather', 'protocol': 'Simple', "
                            "'inplace': true, 'gpus': [\n{},\n{}]}}",
                            gpu(0, buffer, 0), gpu(1, buffer, 1)));
  };
  Foreign foreign = read(plan('o'));
  CHECK_EQ(verdict(foreign), "ok");
  CHECK(warns(foreign, "August 2025"));
  // The input is the rank's own chunk only. As in plans that came with MSCCL++.
  CHECK_EQ(errorsOf(plan('i')),
           std::vector<std::string>{"12:30: malformed: chunks 1 to 1 of \"i\" of rank 1, which has "
                                    "1"});
}
