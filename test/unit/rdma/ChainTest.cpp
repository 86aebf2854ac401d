//===- ChainTest.cpp - Work requests of messages: numbers in closed form -----------===//
#include "runtime/rdma/Chain.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

using namespace ccl::rdma;

namespace {

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::vector<WorkRequest> chainOf(const std::vector<Piece> &pieces, const ChainLimits &limits,
                                 bool isLast = true) {
  std::vector<int64_t> posted;
  std::vector<WorkRequest> chain;
  appendMessage(pieces, limits, isLast, posted, chain);
  return chain;
}

int64_t bytesOf(const std::vector<WorkRequest> &chain) {
  int64_t bytes = 0;
  for (const WorkRequest &request : chain)
    bytes += request.bytes;
  return bytes;
}

/// How often each byte is written: by offset, where that changes.
void checkWrittenOnce(const std::vector<Piece> &pieces, const std::vector<WorkRequest> &chain) {
  std::map<int64_t, int64_t> changes;
  for (const WorkRequest &request : chain) {
    changes[request.offset] += 1;
    changes[request.offset + request.bytes] -= 1;
  }
  for (const Piece &piece : pieces) {
    changes[piece.offset] -= 1;
    changes[piece.offset + piece.bytes] += 1;
  }
  for (const auto &[offset, change] : changes)
    CHECK_MESSAGE(change == 0, "at byte " << offset);
}

} // namespace

TEST_CASE("a message of no bytes is an immediate alone") {
  for (const std::vector<Piece> &pieces :
       {std::vector<Piece>{}, {{0, 0}}, {{64, 0}, {128, 0}}, std::vector<Piece>(5)}) {
    ChainLimits limits;
    limits.stripes = 4;
    limits.leastStripe = 0;
    const auto chain = chainOf(pieces, limits);
    REQUIRE(chain.size() == 1);
    CHECK(chain[0].bytes == 0);
    CHECK(chain[0].stripe == 0);
    CHECK(chain[0].immediate);
    CHECK_FALSE(chain[0].part);
    CHECK_FALSE(chain[0].inlined);
    CHECK(chain[0].signaled);
  }
}

TEST_CASE("a message is cut at the device's maximum; its last work request tells it") {
  for (int64_t bytes : {int64_t(1), int64_t(4095), int64_t(4096), int64_t(4097), int64_t(1) << 20,
                        (int64_t(5) << 30) + 1}) {
    ChainLimits limits;
    limits.mostBytes = bytes > (1 << 20) ? int64_t(1) << 30 : 4096;
    const auto chain = chainOf({{128, bytes}}, limits);
    CHECK(int64_t(chain.size()) == ceilDiv(bytes, limits.mostBytes));
    CHECK(bytesOf(chain) == bytes);
    checkWrittenOnce({{128, bytes}}, chain);
    for (size_t i = 0; i < chain.size(); ++i) {
      CHECK(chain[i].immediate == (i + 1 == chain.size()));
      CHECK(chain[i].signaled == (i + 1 == chain.size() || (i + 1) % 64 == 0));
      CHECK(chain[i].inlined == (chain[i].bytes <= 64));
    }
  }
}

TEST_CASE("adjacent pieces are one, others are not") {
  ChainLimits limits;
  CHECK(chainOf({{0, 100}, {100, 100}, {200, 0}, {200, 56}}, limits).size() == 1);
  const auto chain = chainOf({{0, 100}, {128, 100}, {228, 28}, {512, 8}}, limits);
  REQUIRE(chain.size() == 3);
  CHECK(chain[0].bytes == 100);
  CHECK(chain[1].offset == 128);
  CHECK(chain[1].bytes == 128);
  CHECK(chain[2].offset == 512);
  CHECK(chain[2].inlined);
  CHECK(chain[2].immediate);
}

TEST_CASE("stripes: as many as there are, or one") {
  for (int stripes : {1, 2, 3, 8})
    for (int64_t least : {int64_t(1), int64_t(64), int64_t(4096)})
      for (int64_t bytes : {int64_t(1), least * stripes - 1, least * stripes, int64_t(100'001)}) {
        CAPTURE(stripes);
        CAPTURE(least);
        CAPTURE(bytes);
        ChainLimits limits;
        limits.stripes = stripes;
        limits.leastStripe = least;
        limits.mostBytes = 1024;
        const std::vector<Piece> pieces = {{0, bytes / 3}, {1 << 20, bytes - bytes / 3}};
        const auto chain = chainOf(pieces, limits);
        checkWrittenOnce(pieces, chain);
        const int used = bytes >= least * stripes ? stripes : 1;
        for (int stripe = 0; stripe < stripes; ++stripe) {
          std::vector<WorkRequest> part;
          std::copy_if(chain.begin(), chain.end(), std::back_inserter(part),
                       [&](const WorkRequest &request) { return request.stripe == stripe; });
          CHECK(part.empty() == (stripe >= used));
          if (part.empty())
            continue;
          CHECK(bytesOf(part) ==
                stripeBegin(bytes, used, stripe + 1) - stripeBegin(bytes, used, stripe));
          CHECK(std::count_if(part.begin(), part.end(),
                              [](const WorkRequest &request) { return request.immediate; }) == 1);
          CHECK(part.back().immediate);
          CHECK(part.back().part == (used > 1));
          CHECK(part.back().signaled);
        }
      }
}

TEST_CASE("signals: one in so many of each queue pair, and the last of a list") {
  for (int every : {1, 3, 64})
    for (int messages : {1, 2, 64, 200}) {
      CAPTURE(every);
      CAPTURE(messages);
      ChainLimits limits;
      limits.signalEvery = every;
      limits.stripes = 2;
      limits.leastStripe = 1000;
      limits.mostBytes = 512;
      std::vector<int64_t> posted;
      std::vector<WorkRequest> chain;
      // Every third one is cut in two, of two requests each; the others are one request.
      int64_t ofStripe[2] = {0, 0};
      for (int m = 0; m < messages; ++m) {
        const bool isLong = m % 3 == 0;
        appendMessage({{0, isLong ? 2048 : 8}}, limits, m + 1 == messages, posted, chain);
        ofStripe[0] += isLong ? 2 : 1;
        ofStripe[1] += isLong ? 2 : 0;
      }
      REQUIRE(posted.size() == 2);
      for (int stripe = 0; stripe < 2; ++stripe) {
        CHECK(posted[size_t(stripe)] == ofStripe[stripe]);
        const int64_t signaled =
            std::count_if(chain.begin(), chain.end(), [&](const WorkRequest &request) {
              return request.stripe == stripe && request.signaled;
            });
        CHECK(signaled == ceilDiv(ofStripe[stripe], every));
      }
      CHECK(int64_t(chain.size()) == ofStripe[0] + ofStripe[1]);
    }
}

TEST_CASE("what immediates hold") {
  for (uint32_t channel : {0u, 1u, 255u, mostChannels - 1})
    for (uint32_t messages : {1u, 2u, mostMessages})
      for (bool part : {false, true}) {
        const uint32_t immediate = encodeImmediate(channel, messages, part);
        CHECK(channelOf(immediate) == channel);
        CHECK(messagesOf(immediate) == messages);
        CHECK(isPart(immediate) == part);
      }
}
