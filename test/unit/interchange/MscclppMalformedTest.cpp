// Texts that are no plans: every error has its place.

#include "test/unit/interchange/Mscclpp.h"

using namespace ccl;
using namespace ccl::mscclpp::test;

namespace {

/// One GPU a line, one op a line.
const std::string base = json(R"({'name': 'x', 'collective': 'allgather', 'protocol': 'Simple',
 'inplace': true,
 'gpus': [
  {'id': 0, 'input_chunks': 1, 'output_chunks': 2, 'scratch_chunks': 1,
   'channels': [{'channel_type': 'memory', 'connected_to': [1]},
    {'channel_type': 'switch', 'buffer_type': 's', 'rank_groups': [{'size': 2, 'ranks': [0, 1]}]}],
   'remote_buffers': [{'rank': 1, 'type': 'o', 'access_channel_types': ['memory']}],
   'semaphores': [{'init_value': 0}],
   'threadblocks': [{'id': 0, 'channels': [{'channel_type': 'memory', 'channel_ids': [0]},
     {'channel_type': 'switch', 'channel_ids': [0]}],
    'remote_buffer_refs': [{'access_channel_type': 'memory', 'remote_buffer_ids': [0]}],
    'ops': [
     {'name': 'put', 'src_buff': [{'type': 'o', 'index': 0, 'size': 1}],
      'dst_buff': [{'buffer_id': 0, 'index': 0, 'size': 1}], 'channel_type': 'memory'},
     {'name': 'nop'},
     {'name': 'signal', 'channel_ids': [0], 'channel_type': 'memory'},
     {'name': 'wait', 'channel_ids': [0], 'channel_type': 'memory'},
     {'name': 'barrier', 'barrier_id': 0, 'num_threadblocks': 1},
     {'name': 'pipeline', 'iter_context': {'unit_size': 64, 'num_chunks': 1}, 'ops': [
      {'name': 'nop'}]}]}]},
  {'id': 1, 'input_chunks': 1, 'output_chunks': 2, 'scratch_chunks': 1,
   'channels': [{'channel_type': 'memory', 'connected_to': [0]}],
   'remote_buffers': [{'rank': 0, 'type': 'o', 'access_channel_types': ['memory']}],
   'threadblocks': [{'id': 0, 'channels': [{'channel_type': 'memory', 'channel_ids': [0]}],
    'remote_buffer_refs': [{'access_channel_type': 'memory', 'remote_buffer_ids': [0]}],
    'ops': [
     {'name': 'put', 'src_buff': [{'type': 'o', 'index': 1, 'size': 1}],
      'dst_buff': [{'buffer_id': 0, 'index': 1, 'size': 1}], 'channel_type': 'memory'},
     {'name': 'nop'},
     {'name': 'signal', 'channel_ids': [0], 'channel_type': 'memory'},
     {'name': 'wait', 'channel_ids': [0], 'channel_type': 'memory'}]}]}]}
)");

std::string firstError(const std::string &text) {
  std::vector<Diagnostic> diagnostics;
  if (mscclpp::readPlan(text, diagnostics))
    return "none";
  REQUIRE_FALSE(diagnostics.empty());
  const Diagnostic &d = diagnostics.front();
  std::string_view kind = d.kind == Diagnostic::Kind::Malformed ? "malformed" : "unsupported";
  return fmt::format("{}:{}: {}: {}", d.place.line, d.place.column, kind, d.text);
}

/// The first error when the first `from` of the base is `to`.
std::string with(std::string from, std::string to) {
  std::string text = base;
  from = json(from);
  size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return firstError(text.replace(at, from.size(), json(to)));
}

} // namespace

TEST_CASE("the base of these tests is right") { CHECK_EQ(verdict(base), "ok"); }

TEST_CASE("what is not JSON") {
  CHECK_EQ(firstError("").substr(0, 32), "1:1: malformed: this is not JSON");
  CHECK_EQ(firstError("{\"a\": 1,\n  }").substr(0, 32), "2:4: malformed: this is not JSON");
  CHECK_EQ(firstError("\"\xff\"").substr(0, 32), "1:2: malformed: this is not JSON");
  CHECK_EQ(firstError("{\"a\": 1[2]}").substr(0, 32), "1:8: malformed: this is not JSON");
  CHECK_EQ(firstError("{\"a\": [2}]").substr(0, 33), "1:10: malformed: this is not JSON");
  CHECK_EQ(firstError("{\"a\": [2, 3]]").substr(0, 33), "1:14: malformed: this is not JSON");
  CHECK_EQ(firstError("{[1]: 2}").substr(0, 32), "1:2: malformed: this is not JSON");
  CHECK_EQ(firstError("{\"gpus\": [{\"a\": [1, 2], b}]}").substr(0, 33),
           "1:26: malformed: this is not JSON");
  CHECK_EQ(firstError("[1]"), "1:1: malformed: a plan is an object, not an array");
  CHECK_EQ(firstError("{\"gpus\": 7}"), "1:10: malformed: \"gpus\" is an array, not a number");
  CHECK_EQ(firstError("{}"), "1:1: malformed: a plan has no \"gpus\"");
  CHECK_EQ(firstError("{\"gpus\": []}"), "1:10: malformed: a plan has 1 to 65536 GPUs, this one 0");
}

TEST_CASE("nesting has a limit") {
  std::string deep(1000000, '[');
  CHECK_EQ(firstError(deep), "1:65: malformed: arrays and objects are nested more than 64 deep");
  std::string objects;
  for (int i = 0; i < 100; ++i)
    objects += "{\"a\":\n";
  CHECK_EQ(firstError(objects), "65:1: malformed: arrays and objects are nested more than 64 deep");
  CHECK_EQ(firstError("[\"" + deep + "\"]"), "1:1: malformed: a plan is an object, not an array");
  CHECK_EQ(firstError("[\"\\\"" + deep + "\"]"),
           "1:1: malformed: a plan is an object, not an array");
}

TEST_CASE("a key comes once") {
  CHECK_EQ(with("'inplace': true,", "'inplace': true, 'inplace': false,"),
           "2:19: malformed: the key \"inplace\" is there twice");
  CHECK_EQ(with("'inplace': true,", "'inplace': true, 'in\\u0070lace': false,"),
           "2:19: malformed: the key \"inplace\" is there twice");
}

TEST_CASE("numbers are counts within limits") {
  CHECK_EQ(with("'input_chunks': 1", "'input_chunks': -1"),
           "4:29: malformed: \"input_chunks\" is -1, and has to be a whole number from 0 to "
           "1073741824");
  CHECK_EQ(with("'input_chunks': 1", "'input_chunks': 1.5").substr(0, 15), "4:29: malformed");
  CHECK_EQ(with("'input_chunks': 1", "'input_chunks': 1e400").substr(0, 4), "4:29");
  CHECK_EQ(with("'input_chunks': 1", "'input_chunks': 99999999999999999999999").substr(0, 15),
           "4:29: malformed");
  CHECK_EQ(with("'input_chunks': 1", "'input_chunks': '1'"),
           "4:29: malformed: \"input_chunks\" is a number, not a string");
  CHECK_EQ(with("'input_chunks': 1", "'input_chunks': 1.0"), "none");
  CHECK_EQ(with("'scratch_chunks': 1", "'scratch_chunks': 1000000000").substr(0, 16),
           "4:3: unsupported");
  CHECK_EQ(with("'unit_size': 64", "'unit_size': 0").substr(0, 16), "19:57: malformed");
  CHECK_EQ(with("'num_threadblocks': 1", "'num_threadblocks': 0").substr(0, 16),
           "18:63: malformed");
}

TEST_CASE("fields that are missing or of another kind") {
  CHECK_EQ(with("'collective': 'allgather', ", ""), "1:1: malformed: a plan has no \"collective\"");
  CHECK_EQ(with("'inplace': true", "'inplace': 1"),
           "2:13: malformed: \"inplace\" is true or false, not a number");
  CHECK_EQ(with("'Simple'", "'LL128'"),
           "1:54: malformed: \"LL128\" is no protocol: there are \"Simple\" and \"LL\"");
  CHECK_EQ(with("{'name': 'nop'}", "{}"), "15:6: malformed: an op has no \"name\"");
  CHECK_EQ(with("{'name': 'nop'}", "3"), "15:6: malformed: an op is an object, not a number");
  CHECK_EQ(with("{'name': 'nop'}", "{'name': null}"),
           "15:15: malformed: the name of an op is a string, not null");
  CHECK_EQ(with("'nop'", "'jump'"), "15:15: unsupported: there is no op \"jump\"");
  CHECK_EQ(with("'type': 'o', 'index'", "'index'"), "13:35: malformed: a buffer has no \"type\"");
  CHECK_EQ(with("'type': 'o', 'index'", "'type': 'x', 'index'"),
           "13:44: malformed: \"x\" is no buffer: there are \"i\", \"o\" and \"s\"");
  CHECK_EQ(with("'channel_type': 'memory', 'connected_to'", "'connected_to'"),
           "5:17: malformed: a channel has no \"channel_type\"");
}

TEST_CASE("ids lie in their tables") {
  CHECK_EQ(with("{'id': 1", "{'id': 0"), "21:10: malformed: the GPU at position 1 has the id 0");
  CHECK_EQ(with("'threadblocks': [{'id': 0", "'threadblocks': [{'id': 1"),
           "9:21: malformed: thread block 1 of 1: ids count from 0");
  CHECK_EQ(with("'connected_to': [1]", "'connected_to': [2]").substr(0, 15), "5:61: malformed");
  CHECK_EQ(with("'channel_ids': [0]", "'channel_ids': [1]"),
           "9:87: malformed: rank 0 has 1 memory channels, there is no number 1");
  CHECK_EQ(with("'signal', 'channel_ids': [0]", "'signal', 'channel_ids': [1]"),
           "16:41: malformed: the thread block has 1 memory channels, there is no number 1");
  CHECK_EQ(with("'remote_buffer_ids': [0]", "'remote_buffer_ids': [3]"),
           "11:84: malformed: rank 0 has 1 remote buffers, there is no number 3");
  CHECK_EQ(with("'buffer_id': 0", "'buffer_id': 1"),
           "14:34: malformed: the thread block refers to 1 remote buffers by memory channels, "
           "there is no number 1");
  CHECK_EQ(with("'buffer_id': 0", "'switch_channel_id': 1"),
           "14:42: malformed: the thread block has 1 switch channels, there is no number 1");
  CHECK_EQ(with("'nop'}", "'sem_acquire', 'semaphore_ids': [1]}"),
           "15:48: malformed: rank 0 has 1 semaphores, there is no number 1");
  CHECK_EQ(with("'access_channel_type': 'memory'", "'access_channel_type': 'port'"),
           "11:82: malformed: remote buffer 0 is not accessed by port channels");
  CHECK_EQ(with("'ranks': [0, 1]", "'ranks': [1]"),
           "6:68: malformed: rank 0 is not in its own group");
  CHECK_EQ(with("'ranks': [0, 1]", "'ranks': [0, 1, 0]"),
           "6:68: malformed: the group has a rank twice");
}

TEST_CASE("ops have the operands that they take") {
  CHECK_EQ(with("'put'", "'copy'"),
           "13:6: malformed: copy has other destinations than it takes: 1 local");
  CHECK_EQ(with("'put'", "'get'"),
           "13:6: malformed: get has other sources than it takes: 1 or more remote");
  CHECK_EQ(with("'index': 0, 'size': 1}],\n", "'index': 0, 'size': 2}],\n"),
           "14:20: malformed: 1 chunks, where the other side of put has 2");
  CHECK_EQ(with("'put'", "'pws'"),
           "13:6: malformed: pws has 1 destinations and 0 channels to them");
  CHECK_EQ(with("'put'", "'ppkt'"),
           "14:20: unsupported: the packets of ppkt are in \"o\"; packets are kept in scratch "
           "only");
  CHECK_EQ(with("{'name': 'nop'}]}]}]},",
                "{'name': 'pipeline', 'iter_context': {'unit_size': 64, 'num_chunks': 1}, 'ops': "
                "[]}]}]}]},"),
           "20:7: unsupported: a pipeline in a pipeline");
  CHECK_EQ(with("'index': 0, 'size': 1}],\n", "'index': 2, 'size': 1}],\n"),
           "13:35: malformed: chunks 2 to 2 of \"o\" of rank 0, which has 2");
  CHECK_EQ(with("'size': 1}],\n", "'size': 1, 'offset': 7}],\n"),
           "13:35: unsupported: both an index and an offset: a template of a plan, whose sizes "
           "are filled in when it runs");
}

TEST_CASE("channels are of a type that the op takes") {
  CHECK_EQ(with("'signal', 'channel_ids': [0], 'channel_type': 'memory'",
                "'signal', 'channel_ids': [0], 'channel_type': 'switch'"),
           "16:6: malformed: signal is over memory or port channels, not \"switch\"");
  CHECK_EQ(
      with("{'channel_type': 'memory', 'channel_ids'", "{'channel_type': 'none', 'channel_ids'"),
      "9:61: malformed: a channel is of type \"memory\", \"port\" or \"switch\"");
  CHECK_EQ(with("'access_channel_types': ['memory']", "'access_channel_types': 'none'"),
           "7:72: malformed: a channel is of type \"memory\", \"port\" or \"switch\"");
}

TEST_CASE("messages say no more than the beginning of what the file says") {
  CHECK_EQ(with("'nop'", "'" + std::string(1000, 'x') + "'"),
           "15:15: unsupported: there is no op \"" + std::string(40, 'x') + "\"");
}

TEST_CASE("all ranks of a group count among what ops touch") {
  std::string ranks, gpus, ops;
  for (int i = 0; i < 4096; ++i)
    ranks += fmt::format("{}{}", i ? ", " : "", i);
  for (int i = 0; i < 120; ++i)
    ops += fmt::format("{}{{'name': 'glre', 'src_buff': [{{'switch_channel_id': 0, 'index': 0, "
                       "'size': 1}}], 'dst_buff': [{{'type': 'o', 'index': 0, 'size': 1}}]}}",
                       i ? ", " : "");
  for (int i = 0; i < 4096; ++i)
    gpus += fmt::format("{}{{'id': {}, 'input_chunks': 1, 'output_chunks': 1, 'scratch_chunks': 0, "
                        "'channels': [",
                        i ? ", " : "", i) +
            (i ? "], 'threadblocks': []}"
               : "{'channel_type': 'switch', 'buffer_type': 'i', 'rank_groups': [{'size': 4096, "
                 "'ranks': [" +
                     ranks +
                     "]}]}], 'threadblocks': [{'id': 0, 'channels': [{'channel_type': 'switch', "
                     "'channel_ids': [0]}], 'ops': [" +
                     ops + "]}]}");
  auto plan = [&](std::string_view more) {
    return json(fmt::format("{{'name': 'x', 'collective': 'test', 'protocol': 'Simple', 'inplace': "
                            "false, 'gpus': [{}]{}}}",
                            gpus, more));
  };
  CHECK_EQ(firstError(plan("")), "none");
  ops += ", " + ops;
  gpus.insert(gpus.find("'ops': [") + 8, ops + ", ");
  CHECK_EQ(firstError(plan("")),
           "0:0: unsupported: the 360 ops of this plan touch more than 1071616 chunks");
}

TEST_CASE("chunks are those of the collective") {
  CHECK_EQ(with("'output_chunks': 2", "'output_chunks': 3"),
           "4:49: malformed: rank 0 has 3 output chunks, and allgather of 2 ranks asks for 2");
  CHECK_EQ(with("'allgather'", "'alltoall'"),
           "4:29: malformed: 1 chunks are not 2 equal shards, as alltoall of 2 ranks asks for");
}

TEST_CASE("thread block groups") {
  auto group = [](std::string_view info) {
    return fmt::format("'size': 1}}], 'channel_type': 'memory', 'tbg_info': {}", info);
  };
  std::string from = "'size': 1}], 'channel_type': 'memory'";
  CHECK_EQ(with(from, group("{'tb_id': 2, 'tbg_size': 2}")).substr(0, 15), "14:110: malform");
  CHECK_EQ(with(from, group("{'tb_id': 0, 'tbg_size': 5000}")).substr(0, 15), "14:125: malform");
}

TEST_CASE("the key of our own is checked, too") {
  auto own = [](std::string_view value) {
    return with("'inplace': true,", fmt::format("'inplace': true, 'ccl': {},", value));
  };
  CHECK_EQ(own("3"), "2:26: malformed: the contract is an object, not a number");
  CHECK_EQ(own("{'collective': 'x'}"),
           "2:26: malformed: \"x\" is no collective that is known here");
  CHECK_EQ(own("{'collective': 'all_reduce'}"), "2:26: malformed: all_reduce needs a reduction");
  CHECK_EQ(own("{'collective': 'broadcast', 'root': 2}").substr(0, 15), "2:62: malformed");
  CHECK_EQ(own("{'collective': 'permute', 'to': [1, 1]}"),
           "2:58: malformed: \"to\" names each of 2 ranks once");
  CHECK_EQ(own("{'collective': 'custom', 'in': 1, 'out': 2, 'rows': [[0, 0, 0]]}").substr(0, 15),
           "2:79: malformed");
  CHECK_EQ(own("{'collective': 'all_to_all', 'chunks': 1073741824}"),
           "2:65: malformed: \"chunks\" is 1073741824, and has to be a whole number from 1 to "
           "16777216");
  // Rows are taken apart as chunks are.
  std::string rows = "[0, 0, 0, 0]";
  for (int i = 0; i < 4096; ++i)
    rows += ", [0, 0, 0, 0]";
  std::string text =
      two({.more = ", 'ccl': {'collective': 'custom', 'in': 1, 'out': 1, 'rows': [" + rows + "]}"},
          {"{'name': 'copy', 'src_buff': [{'type': 'i', 'index': 0, 'size': 1}], "
           "'dst_buff': [{'type': 'o', 'index': 0, 'size': 1}], 'tbg_info': "
           "{'tb_id': 0, 'tbg_size': 4096}}"});
  CHECK_EQ(firstError(text),
           "0:0: unsupported: the contract of this plan has more than 1048704 rows, one for each "
           "part of a chunk; it has 2 ops");
}

TEST_CASE("no more than a few errors are told") {
  std::string text = replaced(base, json("'index'"), json("'idx'"));
  std::vector<Diagnostic> diagnostics;
  CHECK_FALSE(mscclpp::readPlan(text, diagnostics));
  CHECK_EQ(diagnostics.size(), 4);
  std::string many = "{\"name\": \"x\", \"collective\": \"test\", \"inplace\": false, \"gpus\": [";
  for (int i = 0; i < 50; ++i)
    many += i ? ", 1" : "1";
  diagnostics.clear();
  CHECK_FALSE(mscclpp::readPlan(many + "]}", diagnostics));
  CHECK_EQ(diagnostics.size(), 8);
}

TEST_CASE("every prefix and every damaged byte ends in an error or a plan") {
  for (size_t length = 0; length < base.size(); ++length) {
    std::vector<Diagnostic> diagnostics;
    if (!mscclpp::readPlan(std::string_view(base).substr(0, length), diagnostics))
      REQUIRE_FALSE(diagnostics.empty());
  }
  for (size_t at = 0; at < base.size(); ++at)
    for (char c : {'9', '"', '{', ']', '-', 'x'}) {
      std::string text = base;
      text[at] = c;
      std::vector<Diagnostic> diagnostics;
      if (!mscclpp::readPlan(text, diagnostics))
        REQUIRE_FALSE(diagnostics.empty());
    }
}
