#include "dialect/model/DataPaths.h"

namespace ccl::model {

/// More edges are not followed for one path.
static constexpr size_t mostEdges = size_t(1) << 18;

void DataPaths::add(RankEvent from, RankEvent to, By by) {
  const int64_t ahead = group.moveRank(group.inverse(from.rank), to.rank);
  // A transfer of several chunks reads what one transfer wrote.
  if (const auto &known = uses[size_t(from.event)];
      !known.empty() && known.back() == Edge{ahead, to.event, by})
    return;
  uses[size_t(from.event)].push_back({ahead, to.event, by});
  sources[size_t(to.event)].push_back({group.inverse(ahead), from.event, by});
}

/// What was found from one of the ends.
class DataPaths::Side {
public:
  Side(const DataPaths &paths, bool forward)
      : paths(paths), edges(forward ? paths.uses : paths.sources), forward(forward) {}

  /// Its agent goes on with `event`.
  void add(RankEvent node, int32_t event) {
    if (!seen.insert(paths.key(node.rank, node.event)).second)
      return;
    pending.push_back(node);
    work += edges[size_t(node.event)].size() + 1;
    const int64_t agent = paths.network.agentOf(size_t(node.event));
    auto [it, isNew] = reached.try_emplace(paths.key(node.rank, agent), event);
    if (!isNew)
      it->second = forward ? std::min(it->second, event) : std::max(it->second, event);
    last = *it;
  }

  /// One more node; whether one of its neighbours meets what the other side found.
  bool expand(const Side &other, bool placesOnly = false) {
    const RankEvent node = pending[next++];
    work -= edges[size_t(node.event)].size() + 1;
    followed += edges[size_t(node.event)].size() + 1;
    for (const Edge &edge : edges[size_t(node.event)]) {
      if (placesOnly && edge.by == By::Message)
        continue;
      add({paths.group.moveRank(node.rank, edge.shift), edge.event}, edge.event);
      if (meets(other))
        return true;
    }
    return false;
  }

  /// Whether the other side found the agent that was reached last.
  bool meets(const Side &other) const {
    auto it = other.reached.find(last.first);
    return it != other.reached.end() &&
           (forward ? last.second <= it->second : it->second <= last.second);
  }

  bool isDone() const { return next == pending.size(); }
  /// Edges that are still to be followed, and that were.
  size_t getWork() const { return work; }
  size_t getFollowed() const { return followed; }

private:
  const DataPaths &paths;
  const std::vector<std::vector<Edge>> &edges;
  const bool forward;
  std::vector<RankEvent> pending;
  size_t next = 0, work = 0, followed = 0;
  std::unordered_set<uint64_t> seen;
  std::unordered_map<uint64_t, int32_t> reached; ///< by rank and agent
  std::pair<uint64_t, int32_t> last;
};

bool DataPaths::lead(RankEvent first, bool writes, RankEvent second) const {
  Side ahead(*this, true), back(*this, false);
  back.add(second, second.event);
  // What a transfer sends may be on its way before it has written.
  ahead.add(first, writes ? first.event + 1 : first.event);
  if (ahead.meets(back) || ahead.expand(back, /*placesOnly=*/writes))
    return true;
  while (ahead.getFollowed() + back.getFollowed() < mostEdges &&
         !(ahead.isDone() && back.isDone())) {
    const bool forward = back.isDone() || (!ahead.isDone() && ahead.getWork() <= back.getWork());
    if (forward ? ahead.expand(back) : back.expand(ahead))
      return true;
  }
  return false;
}

} // namespace ccl::model
