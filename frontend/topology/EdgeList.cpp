#include "frontend/topology/EdgeList.h"

#include "frontend/topology/TextLines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <tuple>

namespace ccl::topology {
namespace {

using interchange::Diagnostic;
using interchange::TextPlace;

constexpr int64_t mostNodes = 1 << 20, mostLinks = 1 << 28;

class EdgeListReader {
public:
  explicit EdgeListReader(std::vector<Diagnostic> &diagnostics) : diagnostics(diagnostics) {}
  std::optional<model::Topology> read(std::string_view text);

private:
  bool readHead(const std::vector<Word> &words);
  bool readLink(const std::vector<Word> &words);
  std::optional<int64_t> integer(const Word &word, std::string_view what, int64_t least,
                                 int64_t most);
  bool error(TextPlace place, std::string text) {
    diagnostics.push_back({Diagnostic::Kind::Malformed, place, -1, std::move(text), {}});
    return false;
  }

  std::vector<Diagnostic> &diagnostics;
  model::Topology topology;
  int64_t ranks = 0, nodes = 0, links = 0;
};

std::optional<int64_t> EdgeListReader::integer(const Word &word, std::string_view what,
                                               int64_t least, int64_t most) {
  int64_t value = 0;
  const char *begin = word.text.data(), *end = begin + word.text.size();
  auto [at, code] = std::from_chars(begin, end, value);
  if (code == std::errc() && at == end && value >= least && value <= most)
    return value;
  error(word.place,
        fmt::format("{} is `{}`, not an integer from {} to {}", what, word.text, least, most));
  return std::nullopt;
}

bool EdgeListReader::readHead(const std::vector<Word> &words) {
  if (words.size() != 3)
    return error(words[0].place, fmt::format("the first line has {} words; it must be `N V E`: "
                                             "ranks, nodes, links",
                                             words.size()));
  std::optional<int64_t> n = integer(words[0], "the number of ranks", 1, mostNodes);
  std::optional<int64_t> v = n ? integer(words[1], "the number of nodes", *n, mostNodes) : n;
  std::optional<int64_t> e = v ? integer(words[2], "the number of links", 0, mostLinks) : v;
  if (!e)
    return false;
  ranks = *n, nodes = *v, links = *e;
  topology.axes = {{"gpu", ranks}};
  for (int64_t i = ranks; i < nodes; ++i)
    topology.switches.push_back({fmt::format("switch{}", i - ranks)});
  return true;
}

bool EdgeListReader::readLink(const std::vector<Word> &words) {
  if (words.size() != 3)
    return error(words[0].place,
                 fmt::format("a link is `src dst capacity`; here are {} words", words.size()));
  std::optional<int64_t> src = integer(words[0], "a link's source", 0, nodes - 1);
  std::optional<int64_t> dst = src ? integer(words[1], "a link's destination", 0, nodes - 1) : src;
  if (!dst)
    return false;
  if (*src == *dst)
    return error(words[1].place, fmt::format("the link joins node {} to itself", *src));
  double capacity = 0;
  const std::string &text = words[2].text;
  auto [at, code] = std::from_chars(text.data(), text.data() + text.size(), capacity);
  if (code != std::errc() || at != text.data() + text.size() || !std::isfinite(capacity) ||
      capacity <= 0)
    return error(words[2].place,
                 fmt::format("the capacity is `{}`, not a positive number (GB/s)", text));
  if (capacity < model::leastBandwidth || capacity > model::mostBandwidth)
    return error(words[2].place, fmt::format("the capacity is `{}`, not from {} to {} GB/s", text,
                                             model::leastBandwidth, model::mostBandwidth));
  topology.links.push_back({int32_t(*src), int32_t(*dst), capacity, 0, {}});
  return true;
}

std::optional<model::Topology> EdgeListReader::read(std::string_view text) {
  TextPlace head, last = {1, 1};
  for (TextLine &line : splitLines(text)) {
    line.text.resize(std::min(line.text.find('#'), line.text.size()));
    std::vector<Word> words = line.words();
    if (words.empty())
      continue;
    last = words[0].place;
    if (head.line == 0) {
      if (!readHead(words))
        return std::nullopt;
      head = last;
      continue;
    }
    if (int64_t(topology.links.size()) == links) {
      error(last, fmt::format("more than the {} links that the first line names", links));
      return std::nullopt;
    }
    if (!readLink(words))
      return std::nullopt;
  }
  if (head.line == 0) {
    error(last, "no line; an edge list begins with `N V E`: ranks, nodes, links");
    return std::nullopt;
  }
  if (int64_t(topology.links.size()) < links) {
    error(last, fmt::format("the list ends after {} of the {} links that the first line names",
                            topology.links.size(), links));
    return std::nullopt;
  }
  if (std::string problem = topology.check(); !problem.empty()) {
    error(head, problem);
    return std::nullopt;
  }
  return std::move(topology);
}

} // namespace

std::optional<model::Topology> readEdgeList(std::string_view text,
                                            std::vector<Diagnostic> &diagnostics) {
  return EdgeListReader(diagnostics).read(text);
}

std::string printEdgeList(const model::Topology &topology) {
  std::vector<size_t> order(topology.links.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const model::Link &x = topology.links[a], &y = topology.links[b];
    return std::tuple(x.src, x.dst, a) < std::tuple(y.src, y.dst, b);
  });
  std::string text = fmt::format("{} {} {}\n", topology.ranks(), topology.nodes(), order.size());
  for (size_t i : order) {
    const model::Link &link = topology.links[i];
    fmt::format_to(std::back_inserter(text), "{} {} {}\n", link.src, link.dst, link.bandwidth);
  }
  return text;
}

std::string lostInEdgeList(const model::Topology &topology) {
  bool latencies = std::any_of(topology.links.begin(), topology.links.end(),
                               [](const model::Link &link) { return link.latency > 0; });
  bool combine = std::any_of(topology.switches.begin(), topology.switches.end(),
                             [](const model::Switch &s) { return s.multicast || s.reduce; });
  std::vector<std::string_view> lost;
  for (auto [is, what] : {std::pair(latencies, "latencies"),
                          {combine, "switches that copy or add"},
                          {!topology.resources.empty(), "shared resources"},
                          {topology.reconfigurable.has_value(), "reconfiguration"}})
    if (is)
      lost.push_back(what);
  return fmt::format("{}", fmt::join(lost, ", "));
}

} // namespace ccl::topology
