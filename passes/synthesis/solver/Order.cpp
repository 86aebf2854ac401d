//===- Order.cpp ----------------------------------------------------------===//
#include "passes/synthesis/solver/Order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <queue>
#include <tuple>

namespace ccl::solver {
namespace {

/// The arcs of all trees, and what waits for what. A hop's number is tree * ranks + rank; a root
/// has one, too, that sends nothing: it joins what comes up to the root with what goes down from
/// it.
class HopGraph {
public:
  HopGraph(const Network &network, const Forest &forest, const OrderProblem &problem)
      : network(network), forest(forest), problem(problem), ranks(size_t(network.ranks())),
        ways(forest.trees.size() * ranks, nullptr), next(ways.size(), -1) {
    for (size_t t = 0; t < forest.trees.size(); ++t) {
      const Tree &tree = forest.trees[t];
      for (size_t rank = 0; rank < ranks; ++rank)
        if (tree.has(int32_t(rank)))
          ways[t * ranks + rank] = &Forest::way(network, tree, int32_t(rank));
    }
    for (size_t t = 0; t < forest.trees.size(); ++t)
      join(t);
    firstChild.assign(ways.size() + 1, 0);
    for (int64_t to : next)
      if (to >= 0)
        ++firstChild[size_t(to) + 1];
    for (size_t i = 1; i < firstChild.size(); ++i)
      firstChild[i] += firstChild[i - 1];
    children.resize(size_t(firstChild.back()));
    nameChannels();
    std::vector<int64_t> fill(firstChild.begin(), firstChild.end() - 1);
    for (size_t hop = 0; hop < next.size(); ++hop)
      if (next[hop] >= 0)
        children[size_t(fill[size_t(next[hop])]++)] = int64_t(hop);
  }

  size_t size() const { return ways.size(); }
  int32_t treeOf(size_t hop) const { return int32_t(hop / ranks); }
  int32_t rankOf(size_t hop) const { return int32_t(hop % ranks); }
  /// Null at a root.
  const Way *way(size_t hop) const { return ways[hop]; }
  std::span<const Use> uses(size_t hop) const { return network.uses(*ways[hop]); }
  double duration(const Use &use) const {
    const MessageCost &cost = problem.cost;
    const double message = cost.overheadUs + (cost.alphaOccupies ? use.latency : 0);
    return inEpochs(use.weight * problem.megabytes / cost.efficiency + use.share * message);
  }
  double inEpochs(double time) const {
    const double epoch = problem.cost.epochUs;
    return epoch > 0 ? std::ceil(time / epoch - 1e-9) * epoch : time;
  }
  /// Until what has left the last link is known to be there.
  double delay(size_t hop) const {
    const MessageCost &cost = problem.cost;
    if (cost.alphaOccupies)
      return cost.syncUs;
    double latency = way(hop)->latency;
    if (cost.epochUs > 0)
      latency = latency <= cost.epochUs / 10 ? 0 : inEpochs(latency);
    return latency + cost.syncUs;
  }
  bool storesAndForwards() const { return problem.cost.storesAndForwards; }
  int32_t agent(size_t hop) const {
    return ways[hop]->exit * problem.lanes + treeOf(hop) % problem.lanes;
  }
  bool isUp(size_t hop) const { return forest.trees[size_t(treeOf(hop))].up; }
  /// Between the agent of a hop that goes up and the one that takes it; else, or if slots do not
  /// count, -1.
  int32_t channel(size_t hop) const { return channels.empty() ? -1 : channels[hop]; }
  int32_t numChannels() const { return channelCount; }
  /// Sent, and not yet taken, at most.
  int32_t room() const { return std::max(problem.slots - 2, 1); }

  /// What must be over before `hop` (`after`: what must not begin before it is).
  template <typename Visit>
  void neighbours(size_t hop, bool after, Visit visit) const {
    // Up trees run from the children to the root, down trees from the root.
    if (isUp(hop) == after) {
      if (next[hop] >= 0)
        visit(size_t(next[hop]));
      else if (int32_t t = afterUp(hop); t >= 0 && after)
        visit(size_t(t) * ranks + size_t(rankOf(hop)));
    } else {
      for (int64_t i = firstChild[hop]; i < firstChild[hop + 1]; ++i)
        visit(size_t(children[size_t(i)]));
    }
    if (!after && !isUp(hop) && next[hop] < 0)
      if (const size_t t = size_t(treeOf(hop)); t < problem.after.size() && problem.after[t] >= 0)
        visit(size_t(problem.after[t]) * ranks + size_t(rankOf(hop)));
  }

private:
  void join(size_t t) {
    const Tree &tree = forest.trees[t];
    for (size_t rank = 0; rank < ranks; ++rank)
      if (int32_t parent = Forest::parent(network, tree, int32_t(rank)); parent >= 0)
        next[t * ranks + rank] = int64_t(t * ranks) + parent;
    if (t < problem.after.size() && problem.after[t] >= 0) {
      downOf.resize(forest.trees.size(), -1);
      downOf[size_t(problem.after[t])] = int32_t(t);
    }
  }
  void nameChannels() {
    if (problem.slots <= 0)
      return;
    std::map<std::pair<int32_t, int64_t>, int32_t> numbers;
    channels.assign(ways.size(), -1);
    for (size_t hop = 0; hop < ways.size(); ++hop) {
      if (!isUp(hop) || !ways[hop])
        continue;
      const size_t parent = size_t(next[hop]);
      const int64_t taker = ways[parent] ? agent(parent) : -1 - int64_t(rankOf(parent));
      channels[hop] =
          numbers.try_emplace({agent(hop), taker}, int32_t(numbers.size())).first->second;
    }
    channelCount = int32_t(numbers.size());
  }
  /// The down tree that begins at the root of an up tree.
  int32_t afterUp(size_t hop) const { return downOf.empty() ? -1 : downOf[size_t(treeOf(hop))]; }

  const Network &network;
  const Forest &forest;
  const OrderProblem &problem;
  const size_t ranks;
  std::vector<const Way *> ways;
  std::vector<int64_t> next;                 ///< the parent's hop, or -1
  std::vector<int64_t> firstChild, children; ///< by hop
  std::vector<int32_t> downOf;               ///< by tree, or empty
  std::vector<int32_t> channels;             ///< by hop, or empty
  int32_t channelCount = 0;
};

/// One run through time, forwards or backwards.
class Pass {
public:
  /// Of what is ready the hop with the least key goes first.
  Pass(const HopGraph &graph, const Network &network, int32_t lanes, bool forwards,
       const std::vector<double> &keys)
      : graph(graph), forwards(forwards), keys(keys), start(graph.size(), 0), end(graph.size(), 0),
        missing(graph.size(), 0), free(size_t(network.limits()), 0),
        idleFrom(free.size() * size_t(lanes), 0), waiting(idleFrom.size()), sent(idleFrom.size()),
        landed(idleFrom.size(), 0), openFrom(idleFrom.size(), 0),
        channels(forwards ? size_t(graph.numChannels()) : 0), room(graph.room()) {}

  void run() {
    for (size_t hop = 0; hop < graph.size(); ++hop)
      graph.neighbours(hop, !forwards, [&](size_t) { ++missing[hop]; });
    std::vector<size_t> first;
    for (size_t hop = 0; hop < graph.size(); ++hop)
      if (missing[hop] == 0)
        first.push_back(hop);
    for (size_t hop : first)
      offer(hop, 0);
    double now = 0;
    std::vector<int32_t> woken;
    while (!events.empty() || unblock(now)) {
      now = events.top().time;
      woken.clear();
      while (!events.empty() && events.top().time <= now) {
        const Event event = events.top();
        events.pop();
        if (event.link > 0) {
          take(size_t(event.hop), event.link, now, event.end);
          continue;
        }
        if (event.hop >= 0)
          waiting[size_t(event.agent)].push({keys[size_t(event.hop)], event.hop});
        woken.push_back(event.agent);
      }
      std::sort(woken.begin(), woken.end());
      woken.erase(std::unique(woken.begin(), woken.end()), woken.end());
      for (int32_t agent : woken)
        send(agent, now);
    }
  }

  double finish() const { return *std::max_element(end.begin(), end.end()); }

  const HopGraph &graph;
  const bool forwards;
  const std::vector<double> &keys;
  std::vector<double> start, end; ///< by hop

private:
  struct Task {
    double key;
    int64_t hop;
    bool operator<(const Task &other) const { // of a max-heap
      return std::tie(key, hop) > std::tie(other.key, other.hop);
    }
  };
  /// A hop is ready for its agent, or (hop -1) the agent may send the next, or (link > 0) a message
  /// could begin on that link of its way.
  struct Event {
    double time;
    int32_t agent;
    int64_t hop;
    int32_t link;
    double end;                                ///< of the message on the link before
    bool operator<(const Event &other) const { // of a max-heap
      return std::tie(time, agent, hop, link) >
             std::tie(other.time, other.agent, other.hop, other.link);
    }
  };

  struct Channel {
    std::deque<size_t> sent; ///< and not yet taken
    std::priority_queue<Task> blocked;
  };

  void send(int32_t agent, double now) {
    std::priority_queue<Task> &queue = waiting[size_t(agent)];
    if (idleFrom[size_t(agent)] > now)
      return;
    // What finds its channel full waits, and lets others by.
    while (!queue.empty() && isFull(size_t(queue.top().hop))) {
      channels[size_t(graph.channel(size_t(queue.top().hop)))].blocked.push(queue.top());
      queue.pop();
    }
    if (queue.empty())
      return;
    const size_t hop = size_t(queue.top().hop);
    queue.pop();
    start[hop] = now;
    if (isFenced(hop))
      sent[size_t(agent)].push_back(hop);
    if (const int32_t channel = graph.channel(hop); channel >= 0 && forwards)
      channels[size_t(channel)].sent.push_back(hop);
    takeUp(hop, now);
    idleFrom[size_t(agent)] = take(hop, 0, now, now);
    events.push({idleFrom[size_t(agent)], agent, -1, 0, 0});
  }

  bool isFull(size_t hop) const {
    const int32_t channel = graph.channel(hop);
    return channel >= 0 && forwards && int32_t(channels[size_t(channel)].sent.size()) >= room;
  }

  /// What has come up to `hop` leaves its slots, and what came before it on the channel.
  void takeUp(size_t hop, double now) {
    if (!forwards || graph.numChannels() == 0 || !graph.isUp(hop))
      return;
    graph.neighbours(hop, false, [&](size_t child) {
      if (graph.channel(child) < 0)
        return;
      Channel &channel = channels[size_t(graph.channel(child))];
      auto at = std::find(channel.sent.begin(), channel.sent.end(), child);
      if (at == channel.sent.end())
        return;
      channel.sent.erase(channel.sent.begin(), at + 1);
      release(channel, now);
    });
  }

  /// As many as there is room for, the most urgent first.
  void release(Channel &channel, double now) {
    for (size_t n = channel.sent.size(); n < size_t(room) && !channel.blocked.empty(); ++n) {
      const int64_t hop = channel.blocked.top().hop;
      channel.blocked.pop();
      events.push({now, graph.agent(size_t(hop)), hop, 0, 0});
    }
  }

  /// So many slots do not do: whether more let something go on.
  bool unblock(double now) {
    ++room;
    for (Channel &channel : channels)
      release(channel, now);
    return !events.empty();
  }

  /// A message takes a link of its way when that is done with what came before, and the next as
  /// soon as it can go on there without a gap. When this one is done with it.
  double take(size_t hop, int32_t link, double now, double before) {
    std::span<const Use> uses = graph.uses(hop);
    const Use &use = uses[size_t(link)];
    const double begin = graph.inEpochs(std::max(now, free[size_t(use.limit)]));
    const double done = std::max(before, begin + graph.duration(use));
    free[size_t(use.limit)] = done;
    if (size_t(link) + 1 < uses.size()) {
      const double next = graph.storesAndForwards()
                              ? done
                              : std::max(begin, done - graph.duration(uses[size_t(link) + 1]));
      events.push({next, graph.agent(hop), int64_t(hop), link + 1, done});
    } else {
      land(hop, done + graph.delay(hop));
    }
    return done;
  }

  bool isFenced(size_t hop) const { return forwards && !graph.isUp(hop); }

  /// What goes down is put: that it is there is only known when all that its agent has put before
  /// is there, too.
  void land(size_t hop, double time) {
    if (!isFenced(hop))
      return arrive(hop, time);
    end[hop] = time;
    const size_t agent = size_t(graph.agent(hop));
    while (landed[agent] < sent[agent].size() && end[sent[agent][landed[agent]]] > 0) {
      const size_t first = sent[agent][landed[agent]++];
      openFrom[agent] = std::max(openFrom[agent], end[first]);
      arrive(first, openFrom[agent]);
    }
  }

  void arrive(size_t hop, double time) {
    end[hop] = time;
    if (!graph.way(hop))
      takeUp(hop, time);
    graph.neighbours(hop, forwards, [&](size_t after) {
      // Until it begins, a hop's start is when the last of what it waits for is over.
      start[after] = std::max(start[after], time);
      if (--missing[after] == 0)
        offer(after, start[after]);
    });
  }

  void offer(size_t hop, double time) {
    if (graph.way(hop))
      events.push({time, graph.agent(hop), int64_t(hop), 0, 0});
    else
      arrive(hop, time);
  }

  std::vector<int32_t> missing; ///< by hop: what it still waits for
  std::vector<double> free;     ///< by limit: when it is done with what was sent
  // By agent: the limit that it sends to first, and lane.
  std::vector<double> idleFrom;
  std::vector<std::priority_queue<Task>> waiting;
  std::vector<std::vector<size_t>> sent; ///< what has to be there in this order
  std::vector<size_t> landed;            ///< how many of these are
  std::vector<double> openFrom;
  std::vector<Channel> channels;
  int32_t room;
  std::priority_queue<Event> events;
};

/// Up trees branch by branch, the longest first: what came up is soon taken, and waits in few
/// slots.
void orderUpTrees(const Forest &forest, const HopGraph &graph, double longest,
                  std::vector<double> &tail) {
  const size_t ranks = graph.size() / forest.trees.size();
  std::vector<double> depth(graph.size(), 0); // what a hop and those before it take
  for (size_t t = 0; t < forest.trees.size(); ++t) {
    const Tree &tree = forest.trees[t];
    if (!tree.up)
      continue;
    std::vector<size_t> found = {t * ranks + size_t(tree.root)};
    for (size_t i = 0; i < found.size(); ++i)
      graph.neighbours(found[i], false, [&](size_t child) { found.push_back(child); });
    for (size_t i = found.size(); i-- > 0;) {
      depth[found[i]] += 1;
      graph.neighbours(found[i], false, [&](size_t child) {
        depth[found[i]] = std::max(depth[found[i]], depth[child] + 1);
      });
    }
    // Backwards: a hop, then its branches, the longest last.
    std::vector<size_t> stack = {found.front()}, branches;
    for (double number = double(ranks); !stack.empty(); --number) {
      const size_t hop = stack.back();
      stack.pop_back();
      tail[hop] = -number / double(ranks) * (longest + 1);
      branches.clear();
      graph.neighbours(hop, false, [&](size_t child) { branches.push_back(child); });
      std::sort(branches.begin(), branches.end(), [&](size_t a, size_t b) {
        return std::pair(depth[b], a) < std::pair(depth[a], b);
      });
      stack.insert(stack.end(), branches.begin(), branches.end());
    }
  }
}

/// Earlier pieces, longer ways, and from the root around, so that not all begin with one rank.
std::vector<double> firstKeys(const Network &network, const Forest &forest,
                              const OrderProblem &problem, const HopGraph &graph) {
  // What a hop and those after it take, alone. Deepest first: in the order of a reversed search.
  std::vector<double> tail(graph.size(), 0);
  std::vector<int32_t> missing(graph.size(), 0);
  std::vector<size_t> queue;
  for (size_t hop = 0; hop < graph.size(); ++hop) {
    graph.neighbours(hop, true, [&](size_t) { ++missing[hop]; });
    if (missing[hop] == 0)
      queue.push_back(hop);
  }
  double longest = 0;
  for (size_t i = 0; i < queue.size(); ++i) {
    const size_t hop = queue[i];
    if (graph.way(hop)) {
      double duration = 0;
      for (const Use &use : graph.uses(hop))
        duration = std::max(duration, graph.duration(use));
      tail[hop] += duration + graph.delay(hop);
    }
    longest = std::max(longest, tail[hop]);
    graph.neighbours(hop, false, [&](size_t before) {
      tail[before] = std::max(tail[before], tail[hop]);
      if (--missing[before] == 0)
        queue.push_back(before);
    });
  }
  if (problem.slots > 0)
    orderUpTrees(forest, graph, longest, tail);
  const int32_t ranks = network.ranks();
  const double apart = 1e-7 * (longest + 1) / ranks;
  std::vector<double> keys(graph.size());
  for (size_t hop = 0; hop < keys.size(); ++hop) {
    const size_t t = size_t(graph.treeOf(hop));
    const int32_t around = (graph.rankOf(hop) - forest.trees[t].root + ranks) % ranks;
    const double piece = t < problem.piece.size() ? problem.piece[t] : 0;
    keys[hop] = piece * 2 * (longest + 1) - tail[hop] + apart * around;
  }
  return keys;
}

/// What is wrong with the time of one hop.
std::string wrongTime(const HopGraph &graph, size_t hop, const std::vector<Hop> &times) {
  double least = graph.delay(hop);
  double longest = 0;
  for (const Use &use : graph.uses(hop))
    longest = std::max(longest, graph.duration(use));
  least += longest;
  const Hop &time = times[hop];
  if (time.end - time.start < least * (1 - 1e-9))
    return fmt::format("takes {} us, less than {}", time.end - time.start, least);
  std::string wrong;
  auto look = [&](size_t before) {
    if (times[before].end > time.start * (1 + 1e-9))
      wrong = fmt::format("begins before that of tree {}, rank {}, ends", graph.treeOf(before),
                          graph.rankOf(before));
  };
  graph.neighbours(hop, false, [&](size_t before) {
    if (graph.way(before))
      look(before);
    else // a root sends nothing: what it waits for has to be over
      graph.neighbours(before, false, look);
  });
  return wrong;
}

constexpr size_t manyHops = size_t(1) << 22; ///< of all passes, after the first
constexpr int32_t maxIdle = 4;               ///< forward passes without a gain

} // namespace

std::vector<Hop> order(const Network &network, const Forest &forest, const OrderProblem &problem) {
  const HopGraph graph(network, forest, problem);
  std::vector<double> keys = firstKeys(network, forest, problem, graph);
  std::vector<double> start, end;
  double best = 0;
  int32_t idle = 0;
  const int32_t passes =
      int32_t(std::clamp<size_t>(manyHops / graph.size(), 1, size_t(std::max(problem.passes, 1))));
  for (int32_t i = 0; i < passes; ++i) {
    if (i > 0 && std::chrono::steady_clock::now() > problem.deadline)
      break;
    const bool forwards = i % 2 == 0;
    Pass pass(graph, network, problem.lanes, forwards, keys);
    pass.run();
    const double finish = pass.finish();
    std::vector<double> again(graph.size());
    for (size_t hop = 0; hop < again.size(); ++hop)
      again[hop] = -pass.end[hop];
    if (forwards && (start.empty() || finish < best))
      best = finish, start = std::move(pass.start), end = std::move(pass.end), idle = 0;
    else if (forwards && ++idle == maxIdle)
      break;
    keys = std::move(again);
  }
  std::vector<Hop> result;
  for (size_t hop = 0; hop < graph.size(); ++hop)
    if (graph.way(hop))
      result.push_back({graph.treeOf(hop), graph.rankOf(hop), start[hop], end[hop]});
  std::sort(result.begin(), result.end(), [](const Hop &a, const Hop &b) {
    return std::tie(a.start, a.tree, a.rank) < std::tie(b.start, b.tree, b.rank);
  });
  return result;
}

std::string OrderProblem::check(const Forest &forest) const {
  const size_t trees = forest.trees.size();
  if (trees == 0)
    return "no trees";
  if (!(megabytes > 0))
    return fmt::format("chunks of {} megabytes", megabytes);
  if (lanes < 1 || passes < 1)
    return fmt::format("{} agents a link, {} passes: there has to be one", lanes, passes);
  if (!(cost.efficiency > 0) || cost.overheadUs < 0 || cost.syncUs < 0 || cost.epochUs < 0)
    return "messages that cost less than nothing";
  if (slots < 0)
    return fmt::format("{} slots", slots);
  if (!piece.empty() && piece.size() != trees)
    return fmt::format("pieces of {} trees, but there are {}", piece.size(), trees);
  if (!after.empty() && after.size() != trees)
    return fmt::format("what {} trees come after, but there are {}", after.size(), trees);
  std::vector<bool> isTaken(trees, false);
  for (size_t t = 0; t < after.size(); ++t) {
    if (after[t] < 0)
      continue;
    const size_t before = size_t(after[t]);
    if (before >= trees || isTaken[before] || !forest.trees[before].up || forest.trees[t].up ||
        forest.trees[before].root != forest.trees[t].root)
      return fmt::format("tree {} cannot come after {}: that must be an up tree of its root, and "
                         "nothing else come after it",
                         t, before);
    isTaken[before] = true;
  }
  return "";
}

std::string verify(const Network &network, const Forest &forest, const OrderProblem &problem,
                   const std::vector<Hop> &hops) {
  const HopGraph graph(network, forest, problem);
  std::vector<Hop> times(graph.size(), {-1, -1, 0, 0});
  std::vector<double> agentFree(size_t(network.limits()) * size_t(problem.lanes), 0);
  std::vector<double> work(size_t(network.limits()), 0);
  auto text = [](const Hop &hop) { return fmt::format("tree {}, rank {}", hop.tree, hop.rank); };
  size_t wanted = 0;
  for (size_t hop = 0; hop < graph.size(); ++hop)
    wanted += graph.way(hop) != nullptr;
  for (const Hop &hop : hops) {
    const size_t index = size_t(hop.tree) * size_t(network.ranks()) + size_t(hop.rank);
    if (index >= graph.size() || !graph.way(index) || times[index].tree >= 0)
      return text(hop) + ": unknown, or there twice";
    times[index] = hop;
    double &free = agentFree[size_t(graph.agent(index))];
    if (hop.start < free * (1 - 1e-9))
      return text(hop) + ": its agent is busy";
    free = hop.start + graph.duration(graph.uses(index).front());
    for (const Use &use : graph.uses(index))
      work[size_t(use.limit)] += graph.duration(use);
  }
  if (hops.size() != wanted)
    return fmt::format("{} hops of {}", hops.size(), wanted);
  for (const Hop &hop : hops) {
    const size_t index = size_t(hop.tree) * size_t(network.ranks()) + size_t(hop.rank);
    if (std::string wrong = wrongTime(graph, index, times); !wrong.empty())
      return text(hop) + ": " + wrong;
  }
  for (size_t limit = 0; limit < work.size(); ++limit)
    if (work[limit] > finish(hops) * (1 + 1e-9))
      return fmt::format("{}: more work than time", network.limitName(int32_t(limit)));
  return "";
}

double finish(const std::vector<Hop> &hops) {
  double end = 0;
  for (const Hop &hop : hops)
    end = std::max(end, hop.end);
  return end;
}

} // namespace ccl::solver
