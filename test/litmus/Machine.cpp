//===- Machine.cpp - The search ------------------------------------------------===//
#include "test/litmus/Memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

namespace ccl::litmus {
namespace {

/// What one thread did, for traces.
struct Step {
  int thread = -1;
  int pc = -1; ///< -1: it died
  std::string detail;
};

const char *name(Order order) {
  switch (order) {
  case Order::Relaxed: return "relaxed";
  case Order::Acquire: return "acquire";
  case Order::Release: return "release";
  case Order::AcqRel: return "acq_rel";
  }
  return "?";
}

struct HashOfHash {
  size_t operator()(const Hash128 &hash) const { return size_t(hash.low); }
};

} // namespace

class Explorer {
public:
  Explorer(const Model &model, const ExploreOptions &options) : model(model), options(options) {}
  Result run();

private:
  /// A state on the current path, and what can follow.
  struct Frame {
    Step step; ///< that led here
    std::vector<std::pair<Step, State>> next;
    size_t taken = 0;
  };

  void expand(const State &state, std::vector<std::pair<Step, State>> &next);
  bool stepThread(const State &state, int t, std::vector<std::pair<Step, State>> &next);
  void load(const State &state, int t, const Instruction &in, Step step,
            std::vector<std::pair<Step, State>> &next);
  void store(const State &state, int t, const Instruction &in, Step step,
             std::vector<std::pair<Step, State>> &next);
  void update(const State &state, int t, const Instruction &in, Step step,
              std::vector<std::pair<Step, State>> &next);
  void accessPlain(State &state, int t, const Instruction &in, const Step &step);
  void advance(State &state, int t, int pc) const;
  bool isEager(const State &state, int t) const;
  int evaluate(const Thread &thread, const Value &value) const {
    return value.constant + (value.reg >= 0 ? thread.registers[size_t(value.reg)] : 0);
  }
  const ThreadCode &code(int t) const { return model.threads[size_t(t)]; }
  void finish(const State &state);
  void fail(Fault::Kind kind, std::string text, const Step &last);
  std::string describe(const Step &step) const;

  const Model &model;
  const ExploreOptions options;
  Result result;
  std::vector<Frame> path;
  std::unordered_set<Hash128, HashOfHash> seen;
};

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

void Explorer::load(const State &state, int t, const Instruction &in, Step step,
                    std::vector<std::pair<Step, State>> &next) {
  const Thread &thread = state.threads[size_t(t)];
  // Whatever the view allows and `fits` may be what is read.
  auto readFrom = [&](Location x, Order order, auto fits, int pc, const std::string &says) {
    const auto &messages = state.messages[size_t(x)];
    for (size_t m = thread.view[size_t(x)]; m < messages.size(); ++m) {
      const int value = messages[m].value;
      if (!fits(value))
        continue;
      State after = state;
      after.observe(t, x, m, order);
      if (in.reg >= 0)
        after.threads[size_t(t)].registers[size_t(in.reg)] = value;
      advance(after, t, pc);
      step.detail = fmt::format("{} {}", says, value);
      next.emplace_back(step, std::move(after));
    }
  };
  auto endsWait = [&](int value) {
    return in.kind != Instruction::Await || in.condition.holds(value);
  };
  readFrom(in.location, in.order, endsWait, thread.pc + 1, "reads");
  if (in.abort >= 0)
    readFrom(
        in.abort, in.abortOrder, [](int value) { return value != 0; },
        code(t).labels[size_t(in.target)],
        fmt::format("gives up: {} is", model.locations[size_t(in.abort)].name));
}

void Explorer::store(const State &state, int t, const Instruction &in, Step step,
                     std::vector<std::pair<Step, State>> &next) {
  const auto &messages = state.messages[size_t(in.location)];
  const Thread &thread = state.threads[size_t(t)];
  const int value = evaluate(thread, in.value);
  for (size_t at = size_t(thread.view[size_t(in.location)]) + 1; at <= messages.size(); ++at) {
    if (at < messages.size() && messages[at].glued)
      continue;
    State after = state;
    after.insert(t, in.location, at, value, in.order, nullptr);
    advance(after, t, thread.pc + 1);
    step.detail = fmt::format("= {}", value);
    next.emplace_back(step, std::move(after));
  }
}

/// fetch_add, compare_exchange, and the compare_exchange that ends the waiting for a mutex.
void Explorer::update(const State &state, int t, const Instruction &in, Step step,
                      std::vector<std::pair<Step, State>> &next) {
  const auto &messages = state.messages[size_t(in.location)];
  const Thread &thread = state.threads[size_t(t)];
  for (size_t m = thread.view[size_t(in.location)]; m < messages.size(); ++m) {
    const int old = messages[m].value;
    const bool writes = in.kind == Instruction::Add || in.condition.holds(old);
    if (in.kind == Instruction::Lock && !writes)
      continue;
    if (writes && m + 1 < messages.size() && messages[m + 1].glued)
      continue;
    State after = state;
    after.observe(t, in.location, m, in.order);
    int value = evaluate(thread, in.value) + (in.kind == Instruction::Add ? old : 0);
    if (writes)
      after.insert(t, in.location, m + 1, value, in.order, &messages[m]);
    if (in.reg >= 0)
      after.threads[size_t(t)].registers[size_t(in.reg)] = old;
    advance(after, t, thread.pc + 1);
    step.detail = writes ? fmt::format("{} -> {}", old, value) : fmt::format("finds {}", old);
    next.emplace_back(step, std::move(after));
  }
}

void Explorer::accessPlain(State &state, int t, const Instruction &in, const Step &step) {
  const bool writes = in.kind == Instruction::Write;
  if (std::string unknown = state.access(t, in.location, writes); !unknown.empty())
    return fail(Fault::Race,
                fmt::format("{} {} {} while it does not know of {}", code(t).name,
                            writes ? "writes" : "reads", model.locations[size_t(in.location)].name,
                            unknown),
                step);
  Thread &thread = state.threads[size_t(t)];
  int &value = state.plain[size_t(in.location)];
  if (writes)
    value = evaluate(thread, in.value);
  else if (in.reg >= 0)
    thread.registers[size_t(in.reg)] = value;
}

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

void Explorer::advance(State &state, int t, int pc) const {
  Thread &thread = state.threads[size_t(t)];
  thread.pc = pc;
  if (pc >= int(code(t).code.size()))
    thread.status = Thread::Done;
}

bool Explorer::isEager(const State &state, int t) const {
  const Thread &thread = state.threads[size_t(t)];
  if (thread.status != Thread::Running)
    return false;
  switch (code(t).code[size_t(thread.pc)].kind) {
  case Instruction::Read:
  case Instruction::Write:
  case Instruction::Store:
  case Instruction::Expect:
  case Instruction::Branch: return true;
  default: return false;
  }
}

/// Adds what thread t can do next, its death not counted; false if that is nothing.
bool Explorer::stepThread(const State &state, int t, std::vector<std::pair<Step, State>> &next) {
  const Thread &thread = state.threads[size_t(t)];
  if (thread.status != Thread::Running)
    return false;
  const Instruction &in = code(t).code[size_t(thread.pc)];
  const size_t before = next.size();
  Step step{t, thread.pc, ""};
  switch (in.kind) {
  case Instruction::Load:
  case Instruction::Await: load(state, t, in, step, next); break;
  case Instruction::Store: store(state, t, in, step, next); break;
  case Instruction::Add:
  case Instruction::Exchange:
  case Instruction::Lock: update(state, t, in, step, next); break;
  case Instruction::Read:
  case Instruction::Write: {
    State after = state;
    accessPlain(after, t, in, step);
    step.detail = fmt::format("{}", after.plain[size_t(in.location)]);
    advance(after, t, thread.pc + 1);
    next.emplace_back(step, std::move(after));
    break;
  }
  case Instruction::Expect:
  case Instruction::Branch: {
    const int value = thread.registers[size_t(in.reg)];
    const bool holds = in.condition.holds(value);
    if (in.kind == Instruction::Expect && !holds)
      fail(Fault::WrongValue, fmt::format("{}: {} (found {})", code(t).name, in.text, value), step);
    State after = state;
    const bool jumps = in.kind == Instruction::Branch && holds;
    advance(after, t, jumps ? code(t).labels[size_t(in.target)] : thread.pc + 1);
    next.emplace_back(step, std::move(after));
    break;
  }
  }
  return next.size() > before;
}

void Explorer::expand(const State &state, std::vector<std::pair<Step, State>> &next) {
  const int count = int(state.threads.size());
  bool moves = false, waits = false;
  auto die = [&](int t) {
    if (code(t).death < 0 || state.threads[size_t(t)].status != Thread::Running)
      return;
    State after = state;
    after.threads[size_t(t)].status = Thread::Dead;
    const size_t x = size_t(code(t).death);
    after.insert(t, code(t).death, after.messages[x].size(), 1, Order::Relaxed, nullptr);
    next.emplace_back(Step{t, -1, ""}, std::move(after));
  };
  if (options.reduce)
    for (int t = 0; t < count; ++t)
      if (isEager(state, t)) {
        stepThread(state, t, next);
        die(t);
        return;
      }
  for (int t = 0; t < count; ++t) {
    moves |= stepThread(state, t, next);
    waits |= state.threads[size_t(t)].status == Thread::Running && !code(t).daemon;
  }
  if (!moves && waits) {
    std::string text = "nobody can go on:";
    for (int t = 0; t < count; ++t)
      if (state.threads[size_t(t)].status == Thread::Running && !code(t).daemon)
        text += fmt::format(
            " {} waits for {};", code(t).name,
            model.locations[size_t(code(t).code[size_t(state.threads[size_t(t)].pc)].location)]
                .name);
    fail(Fault::Hang, text, {});
    return;
  }
  for (int t = 0; t < count; ++t)
    die(t);
}

//===----------------------------------------------------------------------===//
// Exploring
//===----------------------------------------------------------------------===//

std::string Explorer::describe(const Step &step) const {
  const ThreadCode &thread = code(step.thread);
  if (step.pc < 0)
    return fmt::format("{}: dies\n", thread.name);
  const Instruction &in = thread.code[size_t(step.pc)];
  static const char *const kinds[] = {"read",     "write",           "load", "store",
                                      "fetchAdd", "compareExchange", "lock", "await",
                                      "expect",   "branch"};
  std::string text = fmt::format("{}: {}", thread.name, kinds[in.kind]);
  if (in.location >= 0)
    text += " " + model.locations[size_t(in.location)].name;
  if (in.location >= 0 && model.locations[size_t(in.location)].isAtomic)
    text += fmt::format(" {}", name(in.order));
  return text + (step.detail.empty() ? "\n" : fmt::format(": {}\n", step.detail));
}

void Explorer::fail(Fault::Kind kind, std::string text, const Step &last) {
  if (result.fault)
    return;
  Fault fault{kind, std::move(text), ""};
  for (const Frame &frame : path)
    if (frame.step.thread >= 0)
      fault.trace += describe(frame.step);
  if (last.thread >= 0)
    fault.trace += describe(last);
  result.fault = std::move(fault);
}

void Explorer::finish(const State &state) {
  ++result.ends;
  Final end;
  std::vector<int> outcome;
  for (const Thread &thread : state.threads) {
    end.registers.push_back(thread.registers);
    end.died.push_back(thread.status == Thread::Dead);
    outcome.insert(outcome.end(), thread.registers.begin(), thread.registers.end());
  }
  if (std::find(end.died.begin(), end.died.end(), true) == end.died.end())
    result.outcomes.insert(std::move(outcome));
  if (model.judge)
    if (std::string wrong = model.judge(end); !wrong.empty())
      fail(Fault::WrongValue, wrong, {});
}

Result Explorer::run() {
  // Depth first: the path is the trace of a fault.
  auto visit = [&](const Step &step, State &state) {
    state.forget();
    if (!seen.insert(state.hash()).second)
      return;
    if (++result.states > options.maxStates)
      return fail(Fault::TooLarge, fmt::format("over {} states", options.maxStates), {});
    path.push_back({step, {}, 0});
    // Not into the path itself: it grows below.
    std::vector<std::pair<Step, State>> next;
    expand(state, next);
    if (next.empty() && !result.fault)
      finish(state);
    path.back().next = std::move(next);
  };
  State first(model);
  for (size_t t = 0; t < first.threads.size(); ++t)
    advance(first, int(t), 0);
  visit({}, first);
  while (!path.empty() && !result.fault) {
    Frame &frame = path.back();
    if (frame.taken == frame.next.size()) {
      path.pop_back();
      continue;
    }
    auto [step, state] = std::move(frame.next[frame.taken++]);
    visit(step, state);
  }
  return result;
}

Result explore(const Model &model, const ExploreOptions &options) {
  return Explorer(model, options).run();
}

} // namespace ccl::litmus
