//===- SimulateTrace.cpp --------------------------------------------------===//
#include "dialect/simulate/SimulateTrace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace ccl::model {
namespace {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      result += '\\', result += c;
    else if (static_cast<unsigned char>(c) < 0x20)
      fmt::format_to(std::back_inserter(result), "\\u{:04x}", int(c));
    else
      result += c;
  }
  return result + '"';
}

class Writer {
public:
  template <typename... Args>
  void event(fmt::format_string<Args...> format, Args &&...args) {
    text += text.empty() ? "" : ",\n";
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
  }
  void name(std::string_view what, int64_t process, int64_t thread, std::string_view name) {
    event(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", what, process,
          thread, quoted(name));
  }
  std::string text;
};

std::string agentName(const Agent &agent) {
  return fmt::format("{} {}", agent.proxy ? "proxy" : "block", agent.id);
}

} // namespace

std::string describe(const RankProgram &rank, const Instruction &instruction) {
  auto peer = [&](int32_t channel) { return rank.channels[size_t(channel)].peer; };
  if (instruction.kind == Instruction::Kind::Signal)
    return fmt::format("signal rank {}", peer(instruction.channel));
  if (instruction.kind == Instruction::Kind::Wait)
    return fmt::format("wait for rank {}", peer(instruction.channel));
  std::string text = instruction.reduce ? "reduce" : "copy";
  for (const Operand &operand : instruction.from)
    if (operand.kind == Operand::Kind::Channel)
      fmt::format_to(std::back_inserter(text), ", receive from rank {}", peer(operand.channel));
    else if (operand.kind == Operand::Kind::Peer)
      fmt::format_to(std::back_inserter(text), ", read from rank {}", operand.peer);
  for (const Operand &operand : instruction.to)
    if (operand.kind == Operand::Kind::Channel)
      fmt::format_to(std::back_inserter(text), ", send to rank {}", peer(operand.channel));
    else if (operand.kind == Operand::Kind::Peer)
      fmt::format_to(std::back_inserter(text), ", write to rank {}", operand.peer);
  return text;
}

std::string chromeTrace(const SimulateReport &report, const Program &program,
                        const Topology &topology) {
  Writer writer;
  const int64_t links = topology.ranks();
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    writer.name("process_name", int64_t(rank), 0,
                report.folded ? "every rank, as rank 0" : fmt::format("rank {}", rank));
    const std::vector<Agent> &agents = program.ranks[rank].agents;
    for (size_t a = 0; a < agents.size(); ++a)
      writer.name("thread_name", int64_t(rank), int64_t(a), agentName(agents[a]));
  }
  const Timeline none;
  const Timeline &timeline = report.timeline ? *report.timeline : none;
  std::vector<bool> used(topology.links.size());
  for (const Timeline::Service &service : timeline.services)
    used[size_t(service.link)] = true;
  for (const Timeline::Change &change : timeline.changes)
    used[size_t(change.link)] = true;
  writer.name("process_name", links, 0, "links");
  for (size_t l = 0; l < used.size(); ++l)
    if (used[l])
      writer.name("thread_name", links, int64_t(l),
                  fmt::format("{} to {}", topology.nodeName(topology.links[l].src),
                              topology.nodeName(topology.links[l].dst)));

  std::vector<double> before(report.agents.size()); ///< where the last slice of an agent ended
  for (size_t a = 0; a < before.size(); ++a)
    before[a] = report.agents[a].launchUs;
  for (const Timeline::Span &span : timeline.spans) {
    const AgentUse &agent = report.agents[size_t(span.agent)];
    const RankProgram &rank = program.ranks[size_t(agent.rank)];
    const Instruction &instruction =
        rank.agents[size_t(agent.agent)].code[size_t(span.instruction)];
    double &last = before[size_t(span.agent)];
    const bool waits = instruction.kind == Instruction::Kind::Wait;
    const double begin = waits ? last : span.begin;
    if (!waits && span.begin > last)
      writer.event(
          R"({{"ph":"X","name":"waiting","pid":{},"tid":{},"ts":{},"dur":{},"args":{{"instruction":{},"batch":{}}}}})",
          agent.rank, agent.agent, last, span.begin - last, span.instruction, span.batch);
    writer.event(
        R"({{"ph":"X","name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{"instruction":{},"batch":{}}}}})",
        quoted(describe(rank, instruction)), agent.rank, agent.agent, begin, span.end - begin,
        span.instruction, span.batch);
    last = span.end;
    if (span.why != Timeline::Cause::Flight)
      continue;
    const Timeline::Flight &flight = timeline.flights[size_t(span.cause)];
    const AgentUse &sender = report.agents[size_t(timeline.spans[size_t(flight.span)].agent)];
    writer.event(R"({{"ph":"s","name":"data","cat":"data","id":{},"pid":{},"tid":{},"ts":{}}})",
                 span.cause, sender.rank, sender.agent, flight.issue);
    writer.event(
        R"({{"ph":"f","bp":"e","name":"data","cat":"data","id":{},"pid":{},"tid":{},"ts":{}}})",
        span.cause, agent.rank, agent.agent, span.begin);
  }
  for (const Timeline::Service &service : timeline.services) {
    const Timeline::Flight &flight = timeline.flights[size_t(service.flight)];
    writer.event(
        R"({{"ph":"X","name":"rank {} to rank {}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{"bytes":{}}}}})",
        flight.src, flight.dst, links, service.link, service.begin, service.end - service.begin,
        flight.bytes);
  }
  for (const Timeline::Change &change : timeline.changes)
    writer.event(
        R"({{"ph":"X","name":"changes to rank {} to rank {}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{}}}})",
        change.src, change.dst, links, change.link, change.begin, change.end - change.begin);
  return fmt::format("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n", writer.text);
}

} // namespace ccl::model
