//===- Json.cpp - Fuzzing MSCCL++ plans: read, prove, write, read again ------------------===//
#include "frontend/mscclpp/PlanFile.h"
#include "test/fuzz/Foreign.h"
#include "test/fuzz/Mutate.h"

using namespace ccl;
using namespace ccl::fuzz;

static const Vocabulary vocabulary = {
    Language::Json,
    {"name",
     "collective",
     "protocol",
     "inplace",
     "reuse_resources",
     "gpus",
     "id",
     "input_chunks",
     "output_chunks",
     "scratch_chunks",
     "channels",
     "channel_type",
     "connected_to",
     "memory",
     "port",
     "switch",
     "buffer_type",
     "rank_groups",
     "size",
     "ranks",
     "remote_buffers",
     "rank",
     "type",
     "threadblocks",
     "channel_ids",
     "semaphores",
     "init_value",
     "remote_buffer_refs",
     "access_channel_type",
     "access_channel_types",
     "remote_buffer_ids",
     "ops",
     "src_buff",
     "dst_buff",
     "tbg_info",
     "tb_id",
     "tbg_size",
     "barrier_id",
     "num_threadblocks",
     "semaphore_ids",
     "reduce_op",
     "iter_context",
     "unit_size",
     "num_chunks",
     "buffer_id",
     "index",
     "switch_channel_id",
     "nop",
     "barrier",
     "signal",
     "wait",
     "rlxsignal",
     "rlxwait",
     "put",
     "pws",
     "pwsf",
     "get",
     "flush",
     "copy",
     "re",
     "res",
     "rre",
     "rres",
     "ppkt",
     "rppkt",
     "cpkt",
     "upkt",
     "repkt",
     "respkt",
     "recpkt",
     "recspkt",
     "glre",
     "glres",
     "gstore",
     "gstorepkt",
     "pipeline",
     "sem_acquire",
     "sem_release",
     "Simple",
     "LL",
     "i",
     "o",
     "s",
     "true",
     "false",
     "null",
     "allreduce",
     "allgather",
     "reducescatter",
     "alltoall",
     "broadcast",
     "sendrecv",
     "inputChunks",
     "outputChunks",
     "scratchChunks",
     "chunkGroups",
     "srcbuff",
     "srcoff",
     "dstbuff",
     "dstoff",
     "cnt",
     "ctype",
     "i_cids",
     "o_cids",
     "i_buff",
     "o_buff",
     "srcs",
     "dsts",
     "sm",
     "proxy",
     "nvls",
     "use_double_scratch_buffer",
     "num_threads_per_block",
     "buffer_alignment",
     "min_message_size",
     "max_message_size",
     "cids",
     "off",
     "buff",
     "deps",
     "tb",
     "step"},
    {"{\"id\":#,",
     "{\"index\":#,",
     "{\"size\":#,",
     "{\"buffer_id\":#,",
     "{\"type\":\"s\",",
     "{\"tbg_info\":{\"tb_id\":#,\"tbg_size\":#},",
     "{\"channel_ids\":[#],",
     "{\"init_value\":#,",
     "{\"scratch_chunks\":#,",
     "{\"semaphore_ids\":[#],",
     "[{\"name\":\"nop\"},",
     "[{\"name\":\"barrier\",\"barrier_id\":#,\"num_threadblocks\":#},",
     "[{\"name\":\"signal\",\"channel_type\":\"memory\",\"channel_ids\":[#]},",
     "[{\"name\":\"wait\",\"channel_type\":\"memory\",\"channel_ids\":[#]},",
     "[{\"name\":\"sem_acquire\",\"semaphore_ids\":[#]},",
     "[{\"name\":\"copy\",\"src_buff\":[{\"type\":\"i\",\"index\":#,\"size\":#}],\"dst_buff\":[{"
     "\"type\":\"o\",\"index\":#,\"size\":#}]},",
     "[{\"type\":\"i\",\"index\":#,\"size\":#},",
     "[{\"buffer_id\":#,\"index\":#,\"size\":#},",
     "[{\"name\":\"pipeline\",\"iter_context\":{\"unit_size\":#,\"num_chunks\":#},\"ops\":[]},",
     "[#,",
     "{\"semaphores\":[{\"init_value\":#}],"}};
CCL_FUZZ_MUTATOR(vocabulary)

/// What is right can be written, or the writer says why not; and it is read again as right.
static void checkWriter(const interchange::Foreign &foreign) {
  std::vector<interchange::Diagnostic> diagnostics;
  std::optional<std::string> text = mscclpp::writePlan(foreign, diagnostics);
  bool error = false;
  for (const interchange::Diagnostic &d : diagnostics)
    error |= d.kind != interchange::Diagnostic::Kind::Warning;
  require(text.has_value() != error, "what is not written has an error");
  if (!text)
    return;
  std::vector<interchange::Diagnostic> again;
  std::optional<interchange::Foreign> reread = mscclpp::readPlan(*text, again);
  require(reread.has_value(), "what was written is read");
  if (isSmall(*reread))
    require(prove(*reread), "what was written is right");
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text(reinterpret_cast<const char *>(data), size);
  std::vector<interchange::Diagnostic> diagnostics;
  std::optional<interchange::Foreign> foreign = mscclpp::readPlan(text, diagnostics);
  requireDiagnosed(!foreign, text, diagnostics);
  if (foreign && prove(*foreign) && isChosen(text))
    checkWriter(*foreign);
  return 0;
}
