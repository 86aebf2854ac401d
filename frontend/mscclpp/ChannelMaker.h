//===- ChannelMaker.h - New channels without slots, with tags of their own ===//
#pragma once

#include "dialect/model/Program.h"

#include <algorithm>
#include <map>
#include <utility>

namespace ccl::mscclpp {

/// Adds channels to ranks that may have some; what others add meanwhile is not seen.
class ChannelMaker {
public:
  explicit ChannelMaker(std::vector<model::RankProgram> &ranks) : ranks(ranks) {
    for (int32_t rank = 0; size_t(rank) < ranks.size(); ++rank)
      for (const model::Channel &channel : ranks[size_t(rank)].channels) {
        int32_t from = channel.to ? rank : channel.peer, to = channel.to ? channel.peer : rank;
        int32_t &next = nextTag[{from, to}];
        next = std::max(next, channel.tag + 1);
      }
  }

  /// Both ends: that of the rank `from`, and that of the rank `to`.
  std::pair<int32_t, int32_t> add(int32_t from, int32_t to) {
    int32_t tag = nextTag[{from, to}]++;
    int32_t out = addEnd(from, true, to, tag);
    return {out, addEnd(to, false, from, tag)};
  }

  /// One end, of the rank `from` (`out`) or of the rank `to`; the other one is missing.
  int32_t addLone(int32_t from, int32_t to, bool out) {
    int32_t tag = nextTag[{from, to}]++;
    return out ? addEnd(from, true, to, tag) : addEnd(to, false, from, tag);
  }

private:
  int32_t addEnd(int32_t rank, bool out, int32_t peer, int32_t tag) {
    std::vector<model::Channel> &channels = ranks[size_t(rank)].channels;
    channels.push_back({out, peer, tag, 0});
    return int32_t(channels.size()) - 1;
  }

  std::vector<model::RankProgram> &ranks;
  std::map<std::pair<int32_t, int32_t>, int32_t> nextTag; ///< by (from, to)
};

} // namespace ccl::mscclpp
