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

template <msccl::Target target>
static std::optional<std::string> write(const interchange::Foreign &foreign,
                                        Diagnostics &diagnostics) {
  msccl::WriteOptions options;
  options.target = target;
  return msccl::writeXml(foreign, options, diagnostics);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  testFormat(data, size, msccl::readXml, {write<msccl::Target::None>, write<msccl::Target::Rccl>});
  return 0;
}
