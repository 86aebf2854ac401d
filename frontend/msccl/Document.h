//===- Document.h - What an MSCCL XML file says, typed ---------------------------===//
//
// <algo> holds a <gpu> for every rank, it its <tb>s (thread blocks), they their <step>s.
// Both dialects: that of the first runtime (microsoft/msccl), and that of the executors in
// RCCL and in Azure's msccl-executor-nccl, which adds outofplace, minBytes and maxBytes.
// A Document agrees with itself: ranks, blocks and places that are named exist.
//===----------------------------------------------------------------------===//
#pragma once

#include "frontend/interchange/Xml.h"

#include <array>

namespace ccl::msccl {

using interchange::Xml;

enum class Protocol : uint8_t { Simple, LL, LL128 };
std::string_view name(Protocol protocol);
std::optional<Protocol> parseProtocol(std::string_view text);
/// Messages that the runtimes hold in a connection.
int32_t slotsOf(Protocol protocol);

/// v: what is received. `src` and `dst` are places of this rank, always.
enum class StepType : uint8_t {
  Send,                  ///< s: sends src
  Receive,               ///< r: dst = v
  ReceiveCopySend,       ///< rcs: dst = v, which is sent on
  ReceiveReduceSend,     ///< rrs: sends v + src, which is not stored
  ReceiveReduceCopy,     ///< rrc: dst = v + src
  ReceiveReduceCopySend, ///< rrcs: dst = v + src, which is sent on
  Copy,                  ///< cpy: dst = src
  Reduce,                ///< re: dst = dst + src
  Nop                    ///< nop: only waits
};
std::string_view name(StepType type);
std::optional<StepType> parseStepType(std::string_view text);
bool receives(StepType type);
bool sends(StepType type);
bool readsSrc(StepType type);
bool writesDst(StepType type);
bool combines(StepType type);

enum class Buf : uint8_t { In, Out, Scratch };
char letter(Buf buf); ///< i, o, s
std::optional<Buf> parseBuf(std::string_view text);

struct Step {
  StepType type = StepType::Nop;
  Buf src = Buf::In, dst = Buf::In;
  int32_t srcOffset = -1, dstOffset = -1, count = 1;
  int32_t depBlock = -1, depStep = -1; ///< waits until that block has done this step; -1: no
  bool hasDep = false;                 ///< others wait for it
  int32_t number = 0;                  ///< `s` as written; steps count by their order
  int32_t loc = -1;                    ///< reader: of its place; writer: of what it comes from
  pugi::xml_node node;                 ///< reader
};

struct Block {
  int32_t id = 0, send = -1, recv = -1, channel = 0; ///< peers, or -1
  std::vector<Step> steps;
  pugi::xml_node node;
};

struct Gpu {
  int32_t id = 0;
  std::array<int64_t, 3> chunks = {0, 0, 0}; ///< by Buf
  std::vector<Block> blocks;
  pugi::xml_node node;
};

struct Document {
  std::string name, coll;
  Protocol protocol = Protocol::Simple;
  int64_t channels = 1, chunksPerLoop = 1;
  int32_t gpuCount = 1;
  bool inPlace = false;
  std::optional<bool> outOfPlace;
  std::optional<int64_t> minBytes, maxBytes, threads;
  /// redop; and attributes of our own, which say what the format cannot: `root`, `ccl_coll`
  /// (the collective, if `coll` is not it), `ccl_to` (permute), `ccl_rows` (custom).
  std::optional<std::string> redop, cclColl, targets, rows;
  std::optional<int32_t> root;
  std::vector<Gpu> gpus; ///< by rank
  pugi::xml_node node;
};

/// Chunks of a buffer of one rank.
constexpr int64_t chunkLimit = int64_t(1) << 30;
/// A file may have the same fault at each of its steps: so many errors are kept.
constexpr size_t errorLimit = 20;

/// Reads and checks. Errors go to `diagnostics`, at most `errorLimit`; then the result is nothing.
std::optional<Document> readDocument(const Xml &xml,
                                     std::vector<interchange::Diagnostic> &diagnostics);
/// Its texts have no character that XML would have to escape.
std::string writeDocument(const Document &document);

} // namespace ccl::msccl
