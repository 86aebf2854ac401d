#include "frontend/msccl/Lanes.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>

namespace ccl::msccl {

using model::Instruction;
using model::Operand;

Lanes::Lanes(const model::Program &program, const Limits *limits,
             const std::map<int32_t, int32_t> &segments)
    : program(program), limits(limits),
      partLimit(limits ? limits->countBelow - 1 : std::numeric_limits<int32_t>::max()) {
  addFifos();
  count();
  addLanes(segments);
  joinLanes();
  color();
}

int32_t Lanes::parts(const Instruction &instruction) const {
  return instruction.count / partLimit + (instruction.count % partLimit != 0);
}

void Lanes::addFifos() {
  std::map<std::tuple<int32_t, int32_t, int32_t>, int32_t> known;
  for (int32_t rank = 0; size_t(rank) < program.ranks.size(); ++rank) {
    fifoOfChannel.emplace_back();
    for (const model::Channel &channel : program.ranks[size_t(rank)].channels) {
      if (channel.slots == 0) {
        fifoOfChannel.back().push_back(-1);
        continue;
      }
      int32_t src = channel.to ? rank : channel.peer, dst = channel.to ? channel.peer : rank;
      auto [it, fresh] = known.emplace(std::tuple(src, dst, channel.tag), fifos.size());
      if (fresh)
        fifos.push_back({src, dst, channel.tag});
      fifoOfChannel.back().push_back(it->second);
    }
  }
}

void Lanes::count() {
  std::vector<std::array<int32_t, 2>> ends(fifos.size()); // taken, sent
  for (size_t rank = 0; rank < program.ranks.size(); ++rank)
    for (const model::Agent &agent : program.ranks[rank].agents)
      for (const Instruction &instruction : agent.code)
        for (const std::vector<Operand> *side : {&instruction.from, &instruction.to})
          for (const Operand &operand : *side)
            if (operand.kind == Operand::Kind::Channel)
              ends[size_t(fifoOfChannel[rank][size_t(operand.channel)])][side == &instruction.to] +=
                  parts(instruction);
  for (size_t f = 0; f < fifos.size(); ++f)
    fifos[f].messages = std::max(ends[f][0], ends[f][1]);
}

void Lanes::addLanes(const std::map<int32_t, int32_t> &segments) {
  for (size_t f = 0; f < fifos.size(); ++f) {
    Fifo &fifo = fifos[f];
    auto cut = segments.find(int32_t(f));
    fifo.segment = std::max(cut == segments.end() ? fifo.messages : cut->second, 1);
    fifo.firstLane = int32_t(lanes.size());
    int32_t number = (fifo.messages + fifo.segment - 1) / fifo.segment;
    for (int32_t s = 0; s < number; ++s) {
      lanes.push_back({fifo.src, fifo.dst, fifo.tag, s});
      fifoOfLane.push_back(int32_t(f));
    }
  }
}

int32_t Lanes::Cursor::take(int32_t channel) {
  int32_t index = lanes.fifoOfChannel[size_t(rank)][size_t(channel)];
  const Fifo &fifo = lanes.fifos[size_t(index)];
  int32_t message = next[index]++;
  return fifo.firstLane + message / fifo.segment;
}

void Lanes::countJoints(int32_t rank, Joints &joints) const {
  Cursor cursor(*this, rank);
  std::vector<int32_t> in;
  for (const model::Agent &agent : program.ranks[size_t(rank)].agents)
    for (const Instruction &instruction : agent.code)
      for (int32_t part = parts(instruction); part > 0; --part) {
        in.clear();
        for (const Operand &operand : instruction.from)
          if (operand.kind == Operand::Kind::Channel)
            in.push_back(cursor.take(operand.channel));
        for (const Operand &operand : instruction.to)
          if (operand.kind == Operand::Kind::Channel)
            for (int32_t send = cursor.take(operand.channel); int32_t recv : in)
              ++joints[{recv, send}];
      }
}

void Lanes::joinLanes() {
  using Ends = std::set<std::pair<int32_t, int32_t>>; // (sender, receiver)
  std::vector<Ends> ends;
  for (size_t i = 0; i < lanes.size(); ++i) {
    lanes[i].group = int32_t(i);
    ends.push_back({{lanes[i].src, lanes[i].dst}});
  }
  if (limits && !limits->hasFusedSteps)
    return;
  std::vector<int32_t> parent(lanes.size());
  std::iota(parent.begin(), parent.end(), 0);
  auto find = [&](int32_t lane) {
    while (parent[size_t(lane)] != lane)
      lane = parent[size_t(lane)] = parent[size_t(parent[size_t(lane)])];
    return lane;
  };
  Joints joints;
  for (size_t rank = 0; rank < program.ranks.size(); ++rank)
    countJoints(int32_t(rank), joints);
  std::vector<std::pair<std::pair<int32_t, int32_t>, int32_t>> wanted(joints.begin(), joints.end());
  std::sort(wanted.begin(), wanted.end(), [](const auto &a, const auto &b) {
    return std::tuple(-a.second, a.first) < std::tuple(-b.second, b.first);
  });
  for (const auto &[pair, number] : wanted) {
    Lane &in = lanes[size_t(pair.first)], &out = lanes[size_t(pair.second)];
    if (in.next >= 0 || out.last >= 0)
      continue;
    int32_t a = find(pair.first), b = find(pair.second);
    if (a != b) {
      // Two lanes of one pair of ranks cannot have one channel.
      Ends &large =
          ends[size_t(a)].size() >= ends[size_t(b)].size() ? ends[size_t(a)] : ends[size_t(b)];
      Ends &small = &large == &ends[size_t(a)] ? ends[size_t(b)] : ends[size_t(a)];
      if (std::any_of(small.begin(), small.end(),
                      [&](const auto &end) { return large.count(end) > 0; }))
        continue;
      large.insert(small.begin(), small.end());
      small.clear();
      if (&large == &ends[size_t(b)])
        std::swap(a, b);
      parent[size_t(b)] = a;
    }
    in.next = pair.second, out.last = pair.first;
  }
  for (size_t i = 0; i < lanes.size(); ++i)
    lanes[i].group = find(int32_t(i));
}

void Lanes::color() {
  // Tags stay as they are if they are without gaps and fit.
  std::set<int32_t> tags;
  for (const Lane &lane : lanes)
    tags.insert(lane.tag);
  std::map<int32_t, int32_t> dense;
  for (int32_t tag : tags)
    dense.emplace(tag, int32_t(dense.size()));
  std::map<int32_t, std::vector<int32_t>> groups;
  for (size_t i = 0; i < lanes.size(); ++i)
    groups[lanes[i].group].push_back(int32_t(i));
  struct Taken {
    std::set<int32_t> channels;
    int32_t lowest = 0; ///< all below are taken
  };
  std::map<std::pair<int32_t, int32_t>, Taken> taken; ///< by sender and receiver
  auto takenOf = [&](int32_t lane) -> Taken & {
    return taken[{lanes[size_t(lane)].src, lanes[size_t(lane)].dst}];
  };
  auto isFree = [&](const std::vector<int32_t> &group, int32_t channel) {
    return std::none_of(group.begin(), group.end(),
                        [&](int32_t lane) { return takenOf(lane).channels.count(channel) > 0; });
  };
  auto give = [&](const std::vector<int32_t> &group, int32_t channel) {
    for (int32_t lane : group) {
      lanes[size_t(lane)].channel = channel;
      Taken &pair = takenOf(lane);
      for (pair.channels.insert(channel); pair.channels.count(pair.lowest) > 0;)
        ++pair.lowest;
    }
    channels = std::max(channels, channel + 1);
  };
  std::vector<const std::vector<int32_t> *> left;
  for (const auto &[root, group] : groups) {
    int32_t channel = dense.at(lanes[size_t(group.front())].tag);
    bool keeps =
        (!limits || channel < limits->channels) &&
        std::all_of(group.begin(), group.end(), [&](int32_t lane) {
          return lanes[size_t(lane)].segment == 0 && dense.at(lanes[size_t(lane)].tag) == channel;
        });
    if (keeps && isFree(group, channel))
      give(group, channel);
    else
      left.push_back(&group);
  }
  for (const std::vector<int32_t> *group : left) {
    int32_t channel = 0;
    for (int32_t lane : *group)
      channel = std::max(channel, takenOf(lane).lowest);
    while (!isFree(*group, channel))
      ++channel;
    give(*group, channel);
  }
}

} // namespace ccl::msccl
