//===- PlanText.cpp -------------------------------------------------------===//
#include "frontend/mscclpp/PlanText.h"

#include "frontend/mscclpp/OwnKey.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

namespace ccl::mscclpp {

namespace {

/// Numbers things in the order in which they come.
template <typename T>
class Numbering {
public:
  int32_t operator()(const T &value) {
    auto [it, isNew] = numbers.try_emplace(value, int32_t(values.size()));
    if (isNew)
      values.push_back(value);
    return it->second;
  }
  std::vector<T> values;

private:
  std::map<T, int32_t> numbers;
};

using RemoteBuffer = std::pair<int32_t, BufferType>; ///< whose, which

class PlanWriter {
public:
  explicit PlanWriter(const Plan &plan) : plan(plan) {}
  std::string write();

private:
  void writeGpu(size_t rank);
  std::string blockText(const ThreadBlock &block);
  std::string opText(const Op &op);
  std::string buffersText(std::string_view key, const Op &op, const std::vector<BufferUse> &uses);
  std::string tablesText() const;

  const Plan &plan;
  std::string text;

  // Of the rank at hand.
  Numbering<RemoteBuffer> remotes;
  std::map<int32_t, std::pair<bool, bool>> access; ///< by remote: over memory, over port
  // Of the thread block at hand.
  Numbering<int32_t> memory, port, memoryBuffers, portBuffers;
};

std::string quoted(std::string_view text) {
  std::string out;
  llvm::raw_string_ostream stream(out);
  stream << llvm::json::Value(llvm::json::fixUTF8(llvm::StringRef(text.data(), text.size())));
  return stream.str();
}

std::string_view truth(bool value) { return value ? "true" : "false"; }

} // namespace

std::string PlanWriter::buffersText(std::string_view key, const Op &op,
                                    const std::vector<BufferUse> &uses) {
  if (uses.empty())
    return {};
  std::vector<std::string> all;
  for (const BufferUse &use : uses) {
    std::string which;
    if (use.kind == BufferUse::Kind::Local) {
      which = fmt::format("\"type\": \"{}\"", name(use.type));
    } else {
      bool byPort = op.channelType == ChannelType::Port;
      int32_t remote = remotes({use.remote, use.type});
      (byPort ? access[remote].second : access[remote].first) = true;
      which = fmt::format("\"buffer_id\": {}", (byPort ? portBuffers : memoryBuffers)(remote));
    }
    all.push_back(fmt::format("{{{}, \"index\": {}, \"size\": {}}}", which, use.index, use.size));
  }
  return fmt::format(", \"{}\": [{}]", key, fmt::join(all, ", "));
}

std::string PlanWriter::opText(const Op &op) {
  std::string out = fmt::format("{{\"name\": \"{}\"", name(op.kind));
  out += buffersText("src_buff", op, op.src);
  out += buffersText("dst_buff", op, op.dst);
  if (!op.channels.empty()) {
    std::vector<int32_t> ids;
    for (int32_t channel : op.channels)
      ids.push_back((op.channelType == ChannelType::Port ? port : memory)(channel));
    out += fmt::format(", \"channel_ids\": [{}]", fmt::join(ids, ", "));
  }
  if (op.channelType != ChannelType::None)
    out += fmt::format(", \"channel_type\": \"{}\"", name(op.channelType));
  if (!op.semaphores.empty())
    out += fmt::format(", \"semaphore_ids\": [{}]", fmt::join(op.semaphores, ", "));
  if (!op.reduction.empty())
    out += fmt::format(", \"reduce_op\": \"{}\"", op.reduction);
  return out + "}";
}

std::string PlanWriter::tablesText() const {
  auto rows = [](std::initializer_list<std::pair<std::string_view, const Numbering<int32_t> *>> all,
                 std::string_view type, std::string_view ids) {
    std::vector<std::string> out;
    for (auto [name, numbering] : all)
      if (!numbering->values.empty())
        out.push_back(fmt::format("{{\"{}\": \"{}\", \"{}\": [{}]}}", type, name, ids,
                                  fmt::join(numbering->values, ", ")));
    return fmt::format("[{}]", fmt::join(out, ", "));
  };
  return fmt::format("\"channels\": {}, \"remote_buffer_refs\": {}",
                     rows({{"memory", &memory}, {"port", &port}}, "channel_type", "channel_ids"),
                     rows({{"memory", &memoryBuffers}, {"port", &portBuffers}},
                          "access_channel_type", "remote_buffer_ids"));
}

std::string PlanWriter::blockText(const ThreadBlock &block) {
  memory = port = memoryBuffers = portBuffers = {};
  std::vector<std::string> ops;
  for (const Op &op : block.ops)
    ops.push_back(opText(op));
  return fmt::format("    {{\"id\": {}, {}, \"ops\": [{}{}]}}", block.id, tablesText(),
                     ops.empty() ? "" : "\n      ", fmt::join(ops, ",\n      "));
}

void PlanWriter::writeGpu(size_t rank) {
  const Gpu &gpu = plan.gpus[rank];
  remotes = {};
  access.clear();
  std::vector<std::string> blocks, channels, buffers, semaphores;
  for (const ThreadBlock &block : gpu.blocks)
    blocks.push_back(blockText(block));
  for (bool byPort : {false, true}) {
    std::vector<int32_t> peers;
    for (const Channel &channel : byPort ? gpu.port : gpu.memory)
      peers.push_back(channel.peer);
    if (!peers.empty())
      channels.push_back(fmt::format("{{\"channel_type\": \"{}\", \"connected_to\": [{}]}}",
                                     byPort ? "port" : "memory", fmt::join(peers, ", ")));
  }
  for (size_t i = 0; i < remotes.values.size(); ++i) {
    auto [owner, type] = remotes.values[i];
    auto [byMemory, byPort] = access[int32_t(i)];
    buffers.push_back(fmt::format(
        "{{\"rank\": {}, \"type\": \"{}\", \"access_channel_types\": [{}{}{}]}}", owner, name(type),
        byMemory ? "\"memory\"" : "", byMemory && byPort ? ", " : "", byPort ? "\"port\"" : ""));
  }
  for (int64_t initial : gpu.semaphores)
    semaphores.push_back(fmt::format("{{\"init_value\": {}}}", initial));
  text += fmt::format("{}  {{\"id\": {}, \"input_chunks\": {}, \"output_chunks\": {}, "
                      "\"scratch_chunks\": {},\n   \"channels\": [{}],\n   \"remote_buffers\": "
                      "[{}],\n   \"semaphores\": [{}],\n   \"threadblocks\": [\n{}]}}",
                      rank == 0 ? "" : ",\n", rank, gpu.inputChunks, gpu.outputChunks,
                      gpu.scratchChunks, fmt::join(channels, ", "), fmt::join(buffers, ", "),
                      fmt::join(semaphores, ", "), fmt::join(blocks, ",\n"));
}

std::string PlanWriter::write() {
  text = fmt::format("{{\"name\": {},\n \"collective\": {},\n \"protocol\": \"{}\",\n \"inplace\": "
                     "{},\n \"reuse_resources\": {},\n \"num_threads_per_block\": {},\n "
                     "\"use_double_scratch_buffer\": false,\n \"buffer_alignment\": 16,\n "
                     "\"min_message_size\": {}",
                     quoted(plan.name), quoted(plan.collective), plan.packets ? "LL" : "Simple",
                     truth(plan.inPlace), truth(plan.reuseResources), plan.threads,
                     plan.minBytes.value_or(0));
  if (plan.maxBytes)
    text += fmt::format(",\n \"max_message_size\": {}", *plan.maxBytes);
  if (std::string own = writeOwnKey(plan); !own.empty())
    text += fmt::format(",\n \"{}\": {}", ownKey, own);
  text += ",\n \"gpus\": [\n";
  for (size_t rank = 0; rank < plan.gpus.size(); ++rank)
    writeGpu(rank);
  text += "]}\n";
  return std::move(text);
}

std::string planText(const Plan &plan) { return PlanWriter(plan).write(); }

} // namespace ccl::mscclpp
