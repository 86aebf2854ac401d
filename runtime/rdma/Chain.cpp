//===- Chain.cpp -------------------------------------------------------------===//
#include "runtime/rdma/Chain.h"

#include <algorithm>

namespace ccl::rdma {
namespace {

/// The work requests of one message on one stripe.
class StripeWriter {
public:
  StripeWriter(const ChainLimits &limits, int32_t stripe, std::vector<WorkRequest> &chain)
      : limits(limits), stripe(stripe), chain(chain), first(chain.size()) {}

  void add(int64_t offset, int64_t bytes) {
    if (offset != run.offset + run.bytes) {
      flush();
      run = {offset, 0};
    }
    run.bytes += bytes;
  }
  /// The last one tells that the stripe is complete.
  void finish(bool part) {
    flush();
    if (chain.size() == first)
      append(0, 0);
    chain.back().immediate = true;
    chain.back().part = part;
  }

private:
  void flush() {
    while (run.bytes > 0) {
      const int64_t bytes = std::min(run.bytes, limits.mostBytes);
      append(run.offset, bytes);
      run = {run.offset + bytes, run.bytes - bytes};
    }
  }
  void append(int64_t offset, int64_t bytes) {
    WorkRequest request;
    request.offset = offset;
    request.bytes = bytes;
    request.stripe = stripe;
    request.inlined = bytes > 0 && bytes <= limits.inlineBytes;
    chain.push_back(request);
  }

  const ChainLimits &limits;
  const int32_t stripe;
  std::vector<WorkRequest> &chain;
  const size_t first;
  Piece run;
};

/// Bytes [begin, end) of all that the pieces have together.
void appendPart(const std::vector<Piece> &pieces, int64_t begin, int64_t end, StripeWriter &to) {
  int64_t passed = 0;
  for (const Piece &piece : pieces) {
    const int64_t from = std::max(begin, passed), until = std::min(end, passed + piece.bytes);
    if (from < until)
      to.add(piece.offset + (from - passed), until - from);
    passed += piece.bytes;
  }
}

/// The last request of each stripe of the list.
void signalLast(int stripes, std::vector<WorkRequest> &chain) {
  for (int32_t stripe = 0; stripe < stripes; ++stripe) {
    const auto last = std::find_if(chain.rbegin(), chain.rend(), [&](const WorkRequest &request) {
      return request.stripe == stripe;
    });
    if (last != chain.rend())
      last->signaled = true;
  }
}

} // namespace

void appendMessage(const std::vector<Piece> &pieces, const ChainLimits &limits, bool isLast,
                   std::vector<int64_t> &posted, std::vector<WorkRequest> &chain) {
  int64_t bytes = 0;
  for (const Piece &piece : pieces)
    bytes += piece.bytes;
  const int stripes = std::max(limits.stripes, 1);
  const int parts =
      bytes > 0 && bytes / stripes >= std::max<int64_t>(limits.leastStripe, 1) ? stripes : 1;
  posted.resize(std::max(posted.size(), size_t(stripes)), 0);

  for (int32_t stripe = 0; stripe < parts; ++stripe) {
    const size_t first = chain.size();
    StripeWriter writer(limits, stripe, chain);
    appendPart(pieces, stripeBegin(bytes, parts, stripe), stripeBegin(bytes, parts, stripe + 1),
               writer);
    writer.finish(parts > 1);
    for (size_t i = first; i < chain.size(); ++i)
      chain[i].signaled = ++posted[size_t(stripe)] % std::max(limits.signalEvery, 1) == 0;
  }
  if (isLast)
    signalLast(stripes, chain);
}

} // namespace ccl::rdma
