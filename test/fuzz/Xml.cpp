//===- Xml.cpp - Fuzzing MSCCL XML: read, prove, write, read again -----------------------===//
#include "frontend/msccl/Msccl.h"
#include "test/fuzz/Foreign.h"
#include "test/fuzz/Mutate.h"

using namespace ccl;
using namespace ccl::fuzz;

static const Vocabulary vocabulary = {
    Language::Xml,
    {"algo",
     "gpu",
     "tb",
     "step",
     "name",
     "proto",
     "nchannels",
     "ngpus",
     "coll",
     "inplace",
     "outofplace",
     "minBytes",
     "maxBytes",
     "nchunksperloop",
     "redop",
     "nthreads",
     "id",
     "i_chunks",
     "o_chunks",
     "s_chunks",
     "send",
     "recv",
     "chan",
     "s",
     "type",
     "srcbuf",
     "srcoff",
     "dstbuf",
     "dstoff",
     "cnt",
     "depid",
     "deps",
     "hasdep",
     "r",
     "rcs",
     "rrs",
     "rrc",
     "rrcs",
     "cpy",
     "re",
     "nop",
     "ra",
     "i",
     "o",
     "Simple",
     "LL",
     "LL128",
     "reduce",
     "allreduce",
     "allgather",
     "broadcast",
     "alltoall",
     "reduce_scatter",
     "reducescatter",
     "gather",
     "scatter",
     "custom",
     "sendrecv",
     "root",
     "ccl_coll",
     "ccl_to",
     "ccl_rows",
     "sum",
     "max",
     "avg"},
    {" srcoff=\"#\"",
     " dstoff=\"#\"",
     " cnt=\"#\"",
     " depid=\"#\"",
     " deps=\"#\"",
     " hasdep=\"#\"",
     " send=\"#\"",
     " recv=\"#\"",
     " chan=\"#\"",
     " id=\"#\"",
     " s_chunks=\"#\"",
     " root=\"#\"",
     " outofplace=\"#\"",
     " inplace=\"#\"",
     " ngpus=\"#\"",
     " ccl_rows=\"# # # #\"",
     " ccl_to=\"# #\"",
     " maxBytes=\"#\"",
     "<!-- # --><",
     "<![CDATA[#]]><",
     "<?x #?><",
     "&#65;\"",
     "<step s=\"#\" type=\"nop\" srcbuf=\"i\" srcoff=\"-1\" dstbuf=\"o\" dstoff=\"-1\" cnt=\"#\" "
     "depid=\"#\" deps=\"#\" hasdep=\"#\"/><",
     "<step s=\"#\" type=\"re\" srcbuf=\"i\" srcoff=\"#\" dstbuf=\"o\" dstoff=\"#\" cnt=\"#\" "
     "depid=\"-1\" deps=\"-1\" hasdep=\"0\"/><"}};
CCL_FUZZ_MUTATOR(vocabulary)

/// What is right can be written, or the writer says why not; and it is read again as right.
static void checkWriter(const interchange::Foreign &foreign) {
  for (msccl::Target target : {msccl::Target::None, msccl::Target::Rccl}) {
    std::vector<interchange::Diagnostic> diagnostics;
    msccl::WriteOptions options;
    options.target = target;
    std::optional<std::string> text = msccl::writeXml(foreign, options, diagnostics);
    bool error = false;
    for (const interchange::Diagnostic &d : diagnostics)
      error |= d.kind != interchange::Diagnostic::Kind::Warning;
    require(text.has_value() != error, "what is not written has an error");
    if (!text)
      continue;
    std::vector<interchange::Diagnostic> again;
    std::optional<interchange::Foreign> reread = msccl::readXml(*text, again);
    require(reread.has_value(), "what was written is read");
    if (isSmall(*reread))
      require(prove(*reread), "what was written is right");
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text(reinterpret_cast<const char *>(data), size);
  std::vector<interchange::Diagnostic> diagnostics;
  std::optional<interchange::Foreign> foreign = msccl::readXml(text, diagnostics);
  requireDiagnosed(!foreign, text, diagnostics);
  if (foreign && prove(*foreign) && isChosen(text))
    checkWriter(*foreign);
  return 0;
}
