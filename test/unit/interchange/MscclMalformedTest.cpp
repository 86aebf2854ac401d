// Where MSCCL XML is not what it claims to be.
#include "test/unit/interchange/Msccl.h"

using namespace ccl;
using namespace ccl::msccl;

static TestFile small() {
  TestFile file;
  file.gpus = {{{1, 1, 0, {"s i0 -", "rrc i0 o0"}}}, {{0, 0, 0, {"s i0 -", "rrc i0 o0"}}}};
  return file;
}

/// The text of `small` with the first `what` replaced.
static std::string with(std::string_view what, std::string_view by) {
  std::string text = small().text();
  size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

TEST_CASE("msccl malformed: not XML") {
  CHECK(errorOf("") == "1:1: there is no element");
  CHECK(errorOf("\n\n  hello") == "3:3: text between elements; only elements are expected here");
  CHECK(errorOf("<algo>") == "1:6: not well-formed XML: Start-end tags mismatch");
  CHECK(errorOf("<algo></gpu>").find("1:9: not well-formed XML:") == 0);
  CHECK(errorOf("<algo a></algo>") == "1:9: not well-formed XML: Error parsing element attribute");
  CHECK(errorOf(std::string("<algo>\n\0</algo>", 15)) == "2:1: a character with the code 0");
  CHECK(errorOf(small().text() + "Rank 0 is wrong\n") ==
        "15:1: text after the end of the document");
  CHECK(errorOf(small().text() + "<algo/>") ==
        "15:1: a second element at the top, `algo`; `algo` must be the only one");
  std::string deep;
  for (int i = 0; i < 100000; ++i)
    deep += "<a>";
  CHECK(errorOf(deep).find("not well-formed XML") != std::string::npos);
  for (int i = 0; i < 100000; ++i)
    deep += "</a>";
  CHECK(errorOf(deep) == "1:196: elements are nested more than 64 deep");
}

TEST_CASE("msccl malformed: elements and attributes") {
  CHECK(errorOf("<system version=\"1\"/>") ==
        "1:1: the element `system`; an MSCCL algorithm is an `algo`");
  CHECK(errorOf(with("  <gpu id=\"0\"", "  <gpus/><gpu id=\"0\"")) ==
        "2:3: an element `gpus` in `algo`; it holds `gpu`");
  CHECK(errorOf(with("hasdep=\"0\"/>", "hasdep=\"0\">x</step>")) ==
        "4:113: text between elements; only elements are expected here");
  CHECK(errorOf(with(" deps=\"-1\"", "")) == "4:7: `step` has no attribute `deps`");
  CHECK(errorOf(with("ngpus=\"2\"", "ngpus=\"2\" ngpus=\"2\"")) ==
        "1:77: a second attribute `ngpus`");
  CHECK(errorOf(with("cnt=\"1\"", "cnt=\"x\"")) == "4:73: cnt=\"x\" is not a whole number");
  CHECK(errorOf(with("cnt=\"1\"", "cnt=\"0\"")) == "4:73: cnt=\"0\" is outside [1, 2147483647]");
  CHECK(errorOf(with("cnt=\"1\"", "cnt=\"99999999999999999999\"")) ==
        "4:73: cnt=\"99999999999999999999\" is outside [1, 2147483647]");
  CHECK(errorOf(with("hasdep=\"0\"", "hasdep=\"2\"")) == "4:102: hasdep=\"2\" is outside [0, 1]");
  CHECK(errorOf(with("Simple", "LL64")) ==
        "1:19: proto=\"LL64\": a protocol is `Simple`, `LL` or `LL128`");
  CHECK(errorOf(with("srcbuf=\"i\"", "srcbuf=\"x\"")) ==
        "4:28: srcbuf=\"x\": a buffer is `i`, `o` or `s`");
  CHECK(errorOf(with("type=\"s\"", "type=\"send\"")) ==
        "4:19: type=\"send\": a step is one of s, r, rcs, rrs, rrc, rrcs, cpy, re, nop");
  CHECK(errorOf(with("type=\"s\"", "type=\"ra\"")).find("4:19: unsupported: type=\"ra\"") == 0);
  std::string many = "<algo";
  for (int i = 0; i < 100; ++i)
    many += fmt::format(" a{}=\"\"", i);
  CHECK(errorOf(many + "/>").find("`algo` has more than 64 attributes") != std::string::npos);
}

TEST_CASE("msccl malformed: gpus and blocks") {
  CHECK(errorOf(with("ngpus=\"2\"", "ngpus=\"3\"")) ==
        "1:67: ngpus=\"3\", but there are 2 `gpu` elements");
  TestFile empty;
  empty.gpus.resize(2);
  std::string twice = empty.text();
  twice.replace(twice.find("id=\"1\""), 6, "id=\"0\"");
  CHECK(errorOf(twice) == "4:8: a second gpu 0");
  CHECK(errorOf(with("<gpu id=\"1\"", "<gpu id=\"2\"")) == "8:8: id=\"2\" is outside [0, 1]");
  CHECK(errorOf(with("send=\"1\"", "send=\"2\"")) == "3:16: send=\"2\": there are 2 gpus");
  CHECK(errorOf(with("recv=\"1\"", "recv=\"0\"")) ==
        "3:25: recv=\"0\": a gpu has no connection with itself");
  CHECK(errorOf(with("chan=\"0\"", "chan=\"-1\"")) ==
        "3:34: chan=\"-1\", but the block has a peer (send=\"1\")");
  CHECK(errorOf(with("send=\"1\"", "send=\"-1\"")) ==
        "4:7: type=\"s\" sends, but the block's send is -1");
  CHECK(errorOf(with("recv=\"1\"", "recv=\"-1\"")) ==
        "5:7: type=\"rrc\" receives, but the block's recv is -1");
  TestFile file = small();
  file.gpus[0].push_back({-1, -1, 0, {"cpy i0 s0"}});
  std::string text = file.text();
  text.replace(text.find("<tb id=\"1\""), 10, "<tb id=\"0\"");
  CHECK(errorOf(text) == "7:9: a second block 0 of gpu 0");
}

TEST_CASE("msccl malformed: places and dependences") {
  CHECK(errorOf(with("srcoff=\"0\"", "srcoff=\"1\"")) ==
        "4:39: chunk 1 of `i` does not exist: gpu 0 has i_chunks=\"1\"");
  CHECK(errorOf(with("srcoff=\"0\"", "srcoff=\"-1\"")) ==
        "4:39: chunk -1 of `i` does not exist: gpu 0 has i_chunks=\"1\"");
  CHECK(errorOf(with("cnt=\"1\"", "cnt=\"2\"")) ==
        "4:39: chunk 1 of `i` does not exist: gpu 0 has i_chunks=\"1\"");
  CHECK(errorOf(with("depid=\"-1\" deps=\"-1\"", "depid=\"1\" deps=\"0\"")) ==
        "4:81: depid=\"1\": gpu 0 has no such block");
  CHECK(errorOf(with("depid=\"-1\" deps=\"-1\"", "depid=\"0\" deps=\"2\"")) ==
        "4:91: deps=\"2\": block 0 of gpu 0 has 2 steps");
  CHECK(errorOf(with("depid=\"-1\" deps=\"-1\"", "depid=\"0\" deps=\"-1\"")) ==
        "4:91: deps=\"-1\": block 0 of gpu 0 has 2 steps");
}

TEST_CASE("msccl malformed: the collective") {
  CHECK(errorOf(with("coll=\"allreduce\"", "coll=\"allmax\""))
            .find("1:77: coll=\"allmax\" is "
                  "unknown; there are") == 0);
  CHECK(errorOf(with("coll=\"allreduce\"", "coll=\"send\"")) ==
        "1:77: unsupported: coll=\"send\" is no collective");
  CHECK(errorOf(with("nchunksperloop=\"1\"", "nchunksperloop=\"0\"")) ==
        "1:48: nchunksperloop=\"0\" is outside [1, 1073741824]");
  CHECK(errorOf(with("inplace=\"0\"", "inplace=\"0\" redop=\"mean\"")) ==
        "1:106: redop=\"mean\" is unknown; there are sum, prod, min, max");
  CHECK(errorOf(with("inplace=\"0\"", "inplace=\"0\" root=\"0\"")) ==
        "1:106: allreduce has no root");
  CHECK(errorOf(with("inplace=\"0\"", "inplace=\"0\" ccl_coll=\"barrier\"")) ==
        "1:106: ccl_coll=\"barrier\" contradicts coll=\"allreduce\"");
  CHECK(errorOf(with("inplace=\"0\"", "inplace=\"0\" ccl_to=\"1 0\"")) ==
        "1:106: ccl_to is for permute only");
  CHECK(errorOf(with("coll=\"allreduce\" inplace=\"0\"",
                     "coll=\"custom\" inplace=\"0\" ccl_rows=\"0 0 2 0\"")) ==
        "1:103: ccl_rows: `0 0 2 0` is not four numbers below 2, 1, 2, 1");
}

// As a file of the corpus has it: two chunks cannot be one part for each of eight ranks.
TEST_CASE("msccl malformed: a gather has a part for each rank") {
  TestFile file = small();
  file.coll = "allgather", file.chunksPerLoop = 3, file.out = 3;
  CHECK(errorOf(file.text()) == "1:48: nchunksperloop=\"3\" is no multiple of ngpus=\"2\": "
                                "allgather has one part for each rank");
}

// Also in the corpus: in place, `o` of a reduce_scatter is the rank's own part, not all of
// the shared buffer; what lies behind it is not the program's.
TEST_CASE("msccl malformed: places that the collective does not have") {
  TestFile file = small();
  file.coll = "reduce_scatter", file.chunksPerLoop = file.in = file.out = 2;
  file.attributes = "inplace=\"1\"";
  file.gpus = {{{1, 1, 0, {"s o1 -", "rrc o0 o0"}}}, {{0, 0, 0, {"s o0 -", "rrc o1 o1"}}}};
  CHECK(errorOf(file.text()) ==
        "4:39: chunk 1 of `o` does not exist: the output of reduce_scatter on 2 ranks has 1 of "
        "nchunksperloop=\"2\"");
  file.gpus = {{{1, 1, 0, {"s i1 -", "rrc i0 o0"}}}, {{0, 0, 0, {"s i0 -", "rrc i1 o0"}}}};
  CHECK(verdictOf(read(file.text())) == "ok");
}

TEST_CASE("msccl malformed: too much is refused with the number") {
  TestFile file;
  file.in = file.out = file.scratch = file.chunksPerLoop = 1 << 18;
  file.gpus = {{{-1, -1, 0, std::vector<std::string>(5, "cpy i0 o0 x262144")}}};
  CHECK(errorOf(file.text()) == "2:3: unsupported: the steps so far move 1310720 chunks; at most "
                                "1048896 are read of a file with 5 steps");
  file.gpus[0][0].steps.resize(4);
  CHECK(errorOf(file.text()) == "");
  file.in = file.out = file.chunksPerLoop = 1 << 28;
  CHECK(errorOf(file.text()) == "1:1: unsupported: 1 ranks with 537133056 chunks each: at most "
                                "1048832 in all are read of a file with 4 steps");
  // Numbers out of range say nothing of chunks.
  TestFile far = small();
  std::string text = far.text();
  text.replace(text.find("srcoff=\"0\""), 10, "srcoff=\"4294967296\"");
  std::vector<interchange::Diagnostic> once;
  CHECK(!readXml(text, once));
  CHECK(once.size() == 1);
  std::vector<std::string> steps(100, "s i1 -");
  file = small();
  file.gpus[0][0].steps = steps;
  std::vector<interchange::Diagnostic> diagnostics;
  CHECK(!readXml(file.text(), diagnostics));
  CHECK(diagnostics.size() == 20);
}
