//===- SimulateFair.cpp ---------------------------------------------------===//
#include "dialect/simulate/SimulateFair.h"

#include <algorithm>
#include <limits>

namespace ccl::model {

FairShares::FairShares(const SimCode &code) : code(code) {
  const size_t servers = code.wires.size() + size_t(code.numResources);
  users.resize(servers);
  inComponent.resize(servers);
  room.resize(servers), load.resize(servers), openUsers.resize(servers);
}

void FairShares::add(int32_t number, std::span<const int32_t> wires, double bytes,
                     double mostUsPerByte, double now) {
  if (size_t(number) >= flows.size())
    flows.resize(size_t(number) + 1);
  Flow &flow = flows[size_t(number)];
  flow.servers.clear();
  flow.left = bytes, flow.rate = 0, flow.since = now, flow.active = true;
  flow.most = mostUsPerByte > 0 ? 1 / mostUsPerByte : std::numeric_limits<double>::infinity();
  auto serve = [&](int32_t server, double share) {
    auto known = std::find_if(flow.servers.begin(), flow.servers.end(),
                              [&](const auto &s) { return s.first == server; });
    if (known != flow.servers.end())
      known->second += share; // it passes a shared resource more than once
    else
      flow.servers.push_back({server, share});
  };
  for (int32_t wire : wires) {
    const SimWire &numbers = code.wires[size_t(wire)];
    serve(wire, numbers.usPerByte);
    for (int32_t i = 0; i < numbers.numShares; ++i) {
      const SimShare &share = code.shares[size_t(numbers.firstShare + i)];
      serve(int32_t(code.wires.size()) + share.resource,
            share.usPerByte > 0 ? share.usPerByte : numbers.usPerByte);
    }
  }
  for (auto [server, share] : flow.servers) {
    users[size_t(server)].push_back(number);
    dirty.push_back(server);
  }
}

void FairShares::remove(int32_t number) {
  Flow &flow = flows[size_t(number)];
  flow.active = false;
  for (auto [server, share] : flow.servers) {
    std::vector<int32_t> &list = users[size_t(server)];
    list.erase(std::find(list.begin(), list.end(), number));
    dirty.push_back(server);
  }
}

FairShares::Component FairShares::takeComponent() {
  Component found;
  auto reach = [&](int32_t server) {
    if (!inComponent[size_t(server)])
      found.servers.push_back(server);
    inComponent[size_t(server)] = true;
  };
  for (int32_t server : dirty)
    reach(server);
  dirty.clear();
  for (size_t i = 0; i < found.servers.size(); ++i)
    for (int32_t number : users[size_t(found.servers[i])]) {
      Flow &flow = flows[size_t(number)];
      if (flow.seen)
        continue;
      flow.seen = flow.open = true;
      found.flows.push_back(number);
      for (auto [server, share] : flow.servers)
        reach(server);
    }
  for (int32_t server : found.servers) {
    inComponent[size_t(server)] = false;
    room[size_t(server)] = 1, load[size_t(server)] = 0;
    openUsers[size_t(server)] = int32_t(users[size_t(server)].size());
    for (int32_t number : users[size_t(server)])
      for (auto [used, share] : flows[size_t(number)].servers)
        if (used == server)
          load[size_t(server)] += share;
  }
  return found;
}

std::vector<double> FairShares::rates(const Component &component) {
  size_t open = component.flows.size();
  double level = 0; // the rate of all that are open
  std::vector<double> rates(open);
  constexpr double nearly = 1 + 1e-12;
  while (open > 0) {
    double next = std::numeric_limits<double>::infinity();
    for (int32_t server : component.servers)
      if (load[size_t(server)] > 0)
        next = std::min(next, room[size_t(server)] / load[size_t(server)]);
    for (int32_t number : component.flows)
      if (flows[size_t(number)].open)
        next = std::min(next, flows[size_t(number)].most);
    level = std::max(level, next);
    size_t settled = 0;
    for (size_t i = 0; i < component.flows.size(); ++i) {
      Flow &flow = flows[size_t(component.flows[i])];
      if (!flow.open)
        continue;
      bool full = flow.most <= level * nearly;
      for (auto [server, share] : flow.servers)
        full |= room[size_t(server)] <= level * nearly * load[size_t(server)];
      if (!full)
        continue;
      rates[i] = level;
      flow.seen = false; // settled in this round; loads change after it
      ++settled;
    }
    if (settled == 0)
      break; // no server limits it: cannot be, every flow has one
    for (size_t i = 0; i < component.flows.size(); ++i) {
      Flow &flow = flows[size_t(component.flows[i])];
      if (!flow.open || flow.seen)
        continue;
      flow.open = false;
      for (auto [server, share] : flow.servers) {
        room[size_t(server)] -= rates[i] * share;
        load[size_t(server)] -= share;
        if (--openUsers[size_t(server)] == 0)
          load[size_t(server)] = 0; // whatever rounding left
      }
    }
    open -= settled;
  }
  return rates;
}

void FairShares::settle(double now) {
  changed.clear();
  const Component component = takeComponent();
  const std::vector<double> settled = rates(component);
  for (size_t i = 0; i < settled.size(); ++i) {
    Flow &flow = flows[size_t(component.flows[i])];
    flow.seen = flow.open = false;
    if (flow.rate == settled[i])
      continue;
    flow.left = std::max(0.0, flow.left - flow.rate * (now - flow.since));
    flow.since = now;
    flow.rate = settled[i];
    changed.push_back({component.flows[i], now + flow.left / flow.rate});
  }
}

} // namespace ccl::model
