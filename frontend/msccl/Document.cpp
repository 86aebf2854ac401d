#include "frontend/msccl/Document.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_map>

namespace ccl::msccl {
namespace {

using interchange::Diagnostic;
using interchange::TextPlace;

constexpr size_t attributeLimit = 64;
constexpr int64_t rankLimit = 1 << 20;
constexpr int64_t intLimit = std::numeric_limits<int32_t>::max();

template <size_t n>
using Names = std::array<std::string_view, n>;
constexpr Names<16> algoNames = {"name",     "proto",    "nchannels", "nchunksperloop",
                                 "ngpus",    "coll",     "inplace",   "outofplace",
                                 "minBytes", "maxBytes", "redop",     "nthreads",
                                 "root",     "ccl_coll", "ccl_to",    "ccl_rows"};
constexpr Names<4> gpuNames = {"id", "i_chunks", "o_chunks", "s_chunks"};
constexpr Names<4> blockNames = {"id", "send", "recv", "chan"};
constexpr Names<10> stepNames = {"s",      "type", "srcbuf", "srcoff", "dstbuf",
                                 "dstoff", "cnt",  "depid",  "deps",   "hasdep"};

/// The attributes of one element by the order of their names.
template <size_t n>
struct Fields {
  pugi::xml_node node;
  const Names<n> *names = nullptr;
  std::array<pugi::xml_attribute, n> values;
};

class Reader {
public:
  Reader(const Xml &xml, std::vector<Diagnostic> &diagnostics)
      : xml(xml), diagnostics(diagnostics), before(diagnostics.size()) {}

  std::optional<Document> read();

private:
  void readGpu(pugi::xml_node node, Document &document);
  void readBlock(pugi::xml_node node, Document &document, Gpu &gpu);
  void readStep(pugi::xml_node node, const Gpu &gpu, Block &block);
  void checkOperand(const Step &step, const Gpu &gpu, bool isSource);
  void checkPeers(const Block &block, const Document &document, const Gpu &gpu);
  void checkDependences(const Gpu &gpu);
  void checkGpus(Document &document, size_t elements);

  template <size_t n>
  Fields<n> fields(pugi::xml_node node, const Names<n> &names);
  template <size_t n>
  int64_t integer(const Fields<n> &fields, size_t which, int64_t low, int64_t high);
  template <size_t n>
  std::optional<int64_t> optionalInteger(const Fields<n> &fields, size_t which, int64_t low,
                                         int64_t high);
  /// An error if there is no such attribute.
  template <size_t n>
  std::string_view text(const Fields<n> &fields, size_t which);
  template <size_t n>
  Buf buffer(const Fields<n> &fields, size_t which);
  void children(pugi::xml_node node, const char *name);

  Diagnostic *error(TextPlace place, std::string text) {
    if (isFull())
      return nullptr;
    diagnostics.push_back({Diagnostic::Kind::Malformed, place, -1, std::move(text), {}});
    return &diagnostics.back();
  }
  bool isFull() const { return diagnostics.size() - before >= errorLimit; }
  bool isGood() const { return diagnostics.size() == before; }

  const Xml &xml;
  std::vector<Diagnostic> &diagnostics;
  const size_t before;
  std::unordered_map<int32_t, pugi::xml_node> gpuNodes; ///< by id
};

template <size_t n>
Fields<n> Reader::fields(pugi::xml_node node, const Names<n> &names) {
  Fields<n> result{node, &names, {}};
  size_t count = 0, next = 0;
  for (pugi::xml_attribute attribute : node.attributes()) {
    if (++count > attributeLimit) {
      error(xml.place(attribute),
            fmt::format("`{}` has more than {} attributes", node.name(), attributeLimit));
      break;
    }
    // Mostly they come in our order.
    std::string_view name = attribute.name();
    size_t i = next < n && names[next] == name
                   ? next
                   : size_t(std::find(names.begin(), names.end(), name) - names.begin());
    next = i + 1;
    if (i == n)
      continue;
    if (!result.values[i])
      result.values[i] = attribute;
    else if (Diagnostic *made =
                 error(xml.place(attribute), fmt::format("a second attribute `{}`", names[i])))
      made->notes.push_back({xml.place(result.values[i]), -1, "the first one"});
  }
  return result;
}

template <size_t n>
std::optional<int64_t> Reader::optionalInteger(const Fields<n> &fields, size_t which, int64_t low,
                                               int64_t high) {
  pugi::xml_attribute attribute = fields.values[which];
  if (!attribute)
    return std::nullopt;
  std::string_view word = attribute.value();
  int64_t value = 0;
  auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
  bool whole = code == std::errc() && end == word.data() + word.size();
  if (whole && value >= low && value <= high)
    return value;
  if (!whole && code != std::errc::result_out_of_range)
    error(xml.place(attribute),
          fmt::format("{}=\"{}\" is not a whole number", attribute.name(), word.substr(0, 40)));
  else
    error(xml.place(attribute), fmt::format("{}=\"{}\" is outside [{}, {}]", attribute.name(),
                                            word.substr(0, 40), low, high));
  return std::nullopt;
}

template <size_t n>
int64_t Reader::integer(const Fields<n> &fields, size_t which, int64_t low, int64_t high) {
  text(fields, which);
  // After an error the value is never used.
  return optionalInteger(fields, which, low, high).value_or(low);
}

template <size_t n>
std::string_view Reader::text(const Fields<n> &fields, size_t which) {
  if (!fields.values[which])
    error(xml.place(fields.node),
          fmt::format("`{}` has no attribute `{}`", fields.node.name(), (*fields.names)[which]));
  return fields.values[which].value();
}

template <size_t n>
Buf Reader::buffer(const Fields<n> &fields, size_t which) {
  std::string_view word = text(fields, which);
  std::optional<Buf> known = parseBuf(word);
  if (!known && fields.values[which])
    error(xml.place(fields.values[which]), fmt::format("{}=\"{}\": a buffer is `i`, `o` or `s`",
                                                       (*fields.names)[which], word.substr(0, 40)));
  // After an error the value is never used.
  return known.value_or(Buf::In);
}

void Reader::children(pugi::xml_node node, const char *name) {
  for (pugi::xml_node child : node.children())
    if (!name || std::string_view(child.name()) != name) {
      error(xml.place(child), fmt::format("an element `{}` in `{}`{}", child.name(), node.name(),
                                          name ? fmt::format("; it holds `{}`", name) : ""));
      return;
    }
}

std::optional<Document> Reader::read() {
  pugi::xml_node node = xml.root();
  if (std::string_view(node.name()) != "algo") {
    error(xml.place(node), fmt::format("the element `{}`; an MSCCL algorithm is an `algo`",
                                       std::string_view(node.name()).substr(0, 40)));
    return std::nullopt;
  }
  Document document;
  document.node = node;
  auto algo = fields(node, algoNames);
  document.name = algo.values[0].value();
  std::string_view protocol = text(algo, 1);
  if (std::optional<Protocol> known = parseProtocol(protocol))
    document.protocol = *known;
  else if (algo.values[1])
    error(xml.place(algo.values[1]), fmt::format("proto=\"{}\": a protocol is `Simple`, `LL` or "
                                                 "`LL128`",
                                                 protocol.substr(0, 40)));
  document.channels = integer(algo, 2, 0, intLimit);
  document.chunksPerLoop = integer(algo, 3, 1, chunkLimit);
  document.gpuCount = int32_t(integer(algo, 4, 1, rankLimit));
  document.coll = text(algo, 5);
  document.inPlace = integer(algo, 6, 0, 1) != 0;
  if (auto value = optionalInteger(algo, 7, 0, 1))
    document.outOfPlace = *value != 0;
  document.minBytes = optionalInteger(algo, 8, 0, std::numeric_limits<int64_t>::max());
  document.maxBytes = optionalInteger(algo, 9, 0, std::numeric_limits<int64_t>::max());
  document.threads = optionalInteger(algo, 11, 0, intLimit);
  if (auto value = optionalInteger(algo, 12, 0, document.gpuCount - 1))
    document.root = int32_t(*value);
  auto word = [&](size_t which, std::optional<std::string> &target) {
    if (algo.values[which])
      target = algo.values[which].value();
  };
  word(10, document.redop);
  word(13, document.cclColl);
  word(14, document.targets);
  word(15, document.rows);

  children(node, "gpu");
  size_t elements = 0;
  for (pugi::xml_node child : node.children("gpu")) {
    if (isFull())
      return std::nullopt;
    ++elements;
    readGpu(child, document);
  }
  checkGpus(document, elements);
  if (!isGood())
    return std::nullopt;
  return document;
}

void Reader::checkGpus(Document &document, size_t elements) {
  if (!isGood())
    return;
  if (elements != size_t(document.gpuCount)) {
    error(
        xml.place(document.node, "ngpus"),
        fmt::format("ngpus=\"{}\", but there are {} `gpu` elements", document.gpuCount, elements));
    return;
  }
  // Distinct, in range and as many as there are ranks: each is there.
  std::vector<Gpu> sorted(elements);
  for (Gpu &gpu : document.gpus)
    sorted[size_t(gpu.id)] = std::move(gpu);
  document.gpus = std::move(sorted);
}

void Reader::readGpu(pugi::xml_node node, Document &document) {
  auto values = fields(node, gpuNames);
  Gpu gpu;
  gpu.node = node;
  gpu.id = int32_t(integer(values, 0, 0, document.gpuCount - 1));
  for (size_t i = 0; i < 3; ++i)
    gpu.chunks[i] = integer(values, i + 1, 0, chunkLimit);
  children(node, "tb");
  for (pugi::xml_node child : node.children("tb")) {
    if (isFull())
      return;
    readBlock(child, document, gpu);
  }
  if (isGood())
    checkDependences(gpu);
  auto [first, fresh] = gpuNodes.emplace(gpu.id, node);
  if (!fresh && isGood())
    if (Diagnostic *made = error(xml.place(node, "id"), fmt::format("a second gpu {}", gpu.id)))
      made->notes.push_back({xml.place(first->second), -1, "the first one"});
  document.gpus.push_back(std::move(gpu));
}

void Reader::readBlock(pugi::xml_node node, Document &document, Gpu &gpu) {
  auto values = fields(node, blockNames);
  Block block;
  block.node = node;
  block.id = int32_t(integer(values, 0, 0, intLimit));
  block.send = int32_t(integer(values, 1, -1, intLimit));
  block.recv = int32_t(integer(values, 2, -1, intLimit));
  block.channel = int32_t(integer(values, 3, -1, intLimit));
  children(node, "step");
  for (pugi::xml_node child : node.children("step")) {
    if (isFull())
      return;
    readStep(child, gpu, block);
  }
  checkPeers(block, document, gpu);
  gpu.blocks.push_back(std::move(block));
}

void Reader::checkPeers(const Block &block, const Document &document, const Gpu &gpu) {
  for (auto [peer, name] : {std::pair(block.send, "send"), std::pair(block.recv, "recv")}) {
    if (peer >= document.gpuCount)
      error(xml.place(block.node, name),
            fmt::format("{}=\"{}\": there are {} gpus", name, peer, document.gpuCount));
    else if (peer == gpu.id)
      error(xml.place(block.node, name),
            fmt::format("{}=\"{}\": a gpu has no connection with itself", name, peer));
    else if (peer >= 0 && block.channel < 0)
      error(xml.place(block.node, "chan"),
            fmt::format("chan=\"{}\", but the block has a peer ({}=\"{}\")", block.channel, name,
                        peer));
  }
}

void Reader::readStep(pugi::xml_node node, const Gpu &gpu, Block &block) {
  auto values = fields(node, stepNames);
  children(node, nullptr);
  Step step;
  step.node = node;
  step.number = int32_t(integer(values, 0, 0, intLimit));
  std::string_view type = text(values, 1);
  if (std::optional<StepType> known = parseStepType(type)) {
    step.type = *known;
  } else if (values.values[1] && type == "ra") {
    if (Diagnostic *made = error(xml.place(values.values[1]),
                                 "type=\"ra\": the residual addition of the first runtime takes a "
                                 "buffer that collectives do not have"))
      made->kind = Diagnostic::Kind::Unsupported;
  } else if (values.values[1]) {
    error(xml.place(values.values[1]),
          fmt::format("type=\"{}\": a step is one of s, r, rcs, rrs, rrc, rrcs, cpy, re, nop",
                      type.substr(0, 40)));
  }
  step.src = buffer(values, 2);
  step.dst = buffer(values, 4);
  const size_t errors = diagnostics.size();
  step.srcOffset = int32_t(integer(values, 3, -1, intLimit));
  step.dstOffset = int32_t(integer(values, 5, -1, intLimit));
  bool moves = step.type != StepType::Nop;
  step.count = int32_t(integer(values, 6, moves ? 1 : -1, intLimit));
  step.depBlock = int32_t(integer(values, 7, -1, intLimit));
  step.depStep = int32_t(integer(values, 8, -1, intLimit));
  step.hasDep = integer(values, 9, 0, 1) != 0;
  const bool known =
      diagnostics.size() == errors; // else what follows would be about made-up numbers
  if (known && readsSrc(step.type))
    checkOperand(step, gpu, /*isSource=*/true);
  if (known && writesDst(step.type))
    checkOperand(step, gpu, /*isSource=*/false);
  if (sends(step.type) && block.send < 0)
    error(xml.place(node),
          fmt::format("type=\"{}\" sends, but the block's send is -1", name(step.type)));
  if (receives(step.type) && block.recv < 0)
    error(xml.place(node),
          fmt::format("type=\"{}\" receives, but the block's recv is -1", name(step.type)));
  block.steps.push_back(std::move(step));
}

void Reader::checkOperand(const Step &step, const Gpu &gpu, bool isSource) {
  Buf buf = isSource ? step.src : step.dst;
  int64_t offset = isSource ? step.srcOffset : step.dstOffset;
  int64_t chunks = gpu.chunks[size_t(buf)];
  if (offset >= 0 && offset + step.count <= chunks)
    return;
  error(xml.place(step.node, isSource ? "srcoff" : "dstoff"),
        fmt::format("chunk {} of `{}` does not exist: gpu {} has {}_chunks=\"{}\"",
                    offset < 0 || offset >= chunks ? offset : chunks, letter(buf), gpu.id,
                    letter(buf), chunks));
}

void Reader::checkDependences(const Gpu &gpu) {
  std::unordered_map<int32_t, const Block *> byId;
  for (const Block &block : gpu.blocks) {
    auto [it, fresh] = byId.emplace(block.id, &block);
    if (fresh)
      continue;
    if (Diagnostic *made = error(xml.place(block.node, "id"),
                                 fmt::format("a second block {} of gpu {}", block.id, gpu.id)))
      made->notes.push_back({xml.place(it->second->node), -1, "the first one"});
  }
  for (const Block &block : gpu.blocks)
    for (const Step &step : block.steps) {
      if (step.depBlock < 0 || isFull())
        continue;
      auto it = byId.find(step.depBlock);
      if (it == byId.end())
        error(xml.place(step.node, "depid"),
              fmt::format("depid=\"{}\": gpu {} has no such block", step.depBlock, gpu.id));
      else if (step.depStep < 0 || size_t(step.depStep) >= it->second->steps.size())
        error(xml.place(step.node, "deps"),
              fmt::format("deps=\"{}\": block {} of gpu {} has {} steps", step.depStep,
                          step.depBlock, gpu.id, it->second->steps.size()));
    }
}

} // namespace

std::optional<Document> readDocument(const Xml &xml, std::vector<Diagnostic> &diagnostics) {
  return Reader(xml, diagnostics).read();
}

std::string writeDocument(const Document &document) {
  fmt::memory_buffer text;
  auto out = std::back_inserter(text);
  auto optional = [&](std::string_view name, const auto &value) {
    if (value)
      fmt::format_to(out, " {}=\"{}\"", name, *value);
  };
  fmt::format_to(out,
                 "<algo name=\"{}\" proto=\"{}\" nchannels=\"{}\" nchunksperloop=\"{}\" "
                 "ngpus=\"{}\" coll=\"{}\" inplace=\"{}\"",
                 document.name, name(document.protocol), document.channels, document.chunksPerLoop,
                 document.gpuCount, document.coll, int(document.inPlace));
  if (document.outOfPlace)
    fmt::format_to(out, " outofplace=\"{}\"", int(*document.outOfPlace));
  optional("minBytes", document.minBytes);
  optional("maxBytes", document.maxBytes);
  optional("redop", document.redop);
  optional("nthreads", document.threads);
  optional("root", document.root);
  optional("ccl_coll", document.cclColl);
  optional("ccl_to", document.targets);
  optional("ccl_rows", document.rows);
  fmt::format_to(out, ">\n");
  for (const Gpu &gpu : document.gpus) {
    fmt::format_to(out, "  <gpu id=\"{}\" i_chunks=\"{}\" o_chunks=\"{}\" s_chunks=\"{}\">\n",
                   gpu.id, gpu.chunks[0], gpu.chunks[1], gpu.chunks[2]);
    for (const Block &block : gpu.blocks) {
      fmt::format_to(out, "    <tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"{}\">\n", block.id,
                     block.send, block.recv, block.channel);
      for (const Step &step : block.steps)
        fmt::format_to(out,
                       "      <step s=\"{}\" type=\"{}\" srcbuf=\"{}\" srcoff=\"{}\" "
                       "dstbuf=\"{}\" dstoff=\"{}\" cnt=\"{}\" depid=\"{}\" deps=\"{}\" "
                       "hasdep=\"{}\"/>\n",
                       step.number, name(step.type), letter(step.src), step.srcOffset,
                       letter(step.dst), step.dstOffset, step.count, step.depBlock, step.depStep,
                       int(step.hasDep));
      fmt::format_to(out, "    </tb>\n");
    }
    fmt::format_to(out, "  </gpu>\n");
  }
  fmt::format_to(out, "</algo>\n");
  return fmt::to_string(text);
}

} // namespace ccl::msccl
