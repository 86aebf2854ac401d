//===- Faults.cpp -----------------------------------------------------------===//
#include "runtime/Faults.h"

#include "runtime/Failure.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <fmt/ranges.h>

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace ccl::faults {
namespace {

constexpr std::array<PointRow, 7> table = {{
    {Point::Connect, "connect", "at init, when it has connected and said who it is"},
    {Point::Exchange, "exchange", "at init, when all have come, before memory is exchanged"},
    {Point::FirstWait, "wait.first", "before the first wait of a launch"},
    {Point::MidSlot, "slot.middle", "in a kernel, at a wait that takes long"},
    {Point::LastWait, "wait.last", "when the kernel is done, before copies are"},
    {Point::Exit, "exit", "when the launch is done, before the others are told"},
    {Point::Destroy, "destroy", "when the communicator is destroyed"},
}};

/// Whether there is anything to look for. Points are passed all the time: without a fault
/// they must cost nothing, and order nothing that ThreadSanitizer should see unordered.
enum class Interest : uint8_t { Unknown, None, Some };
std::atomic<Interest> interest{Interest::Unknown};

struct State {
  std::mutex mutex;
  bool armed = false; ///< by a call or, at the first point, from the environment
  std::optional<Fault> fault;
  uint64_t passed = 0;
  std::list<std::function<void()>> hooks;
};

/// Never destroyed: points are passed while the process ends, too.
State &state() {
  static State *theState = new State;
  return *theState;
}

llvm::Error wrong(std::string_view text, std::string why) {
  return makeFailure(Failure::BadArgument, "CCL_FAULT={}: {}; expected POINT:RANK:ACTION[:NTH]",
                     text, why);
}

void armFromEnvironment(State &s) {
  s.armed = true;
  const char *text = enabled() ? std::getenv("CCL_FAULT") : nullptr;
  if (!text || !*text)
    return;
  llvm::Expected<Fault> fault = parse(text);
  // Settings::fromEnvironment refuses it with the reason; a host application that never
  // asks for the settings must not be harmed.
  if (fault)
    s.fault = *fault;
  else
    llvm::consumeError(fault.takeError());
}

/// The action that is due, if any.
std::optional<Fault> takeDue(Point point, int64_t rank) {
  State &s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (!s.armed) {
    armFromEnvironment(s);
    interest.store(s.fault ? Interest::Some : Interest::None, std::memory_order_relaxed);
  }
  if (!s.fault || s.fault->point != point || s.fault->rank != rank || ++s.passed != s.fault->nth)
    return std::nullopt;
  return s.fault;
}

void closeAll() {
  State &s = state();
  // With the lock: nobody's hook goes while it runs.
  std::lock_guard<std::mutex> lock(s.mutex);
  for (const std::function<void()> &hook : s.hooks)
    hook();
}

} // namespace

const std::array<PointRow, 7> &points() { return table; }

llvm::Expected<Fault> parse(std::string_view text) {
  llvm::SmallVector<llvm::StringRef, 5> parts;
  llvm::StringRef(text).split(parts, ':');
  if (parts.size() < 3)
    return wrong(text, fmt::format("only {} parts", parts.size()));
  Fault fault{};
  const PointRow *row = nullptr;
  std::vector<std::string_view> names;
  for (const PointRow &candidate : table) {
    names.push_back(candidate.name);
    if (parts[0] == llvm::StringRef(candidate.name))
      row = &candidate;
  }
  if (!row)
    return wrong(text, fmt::format("no point '{}', there are {}", std::string_view(parts[0]),
                                   fmt::join(names, ", ")));
  fault.point = row->point;
  if (parts[1].getAsInteger(10, fault.rank) || fault.rank < 0)
    return wrong(text, fmt::format("'{}' is no rank", std::string_view(parts[1])));
  size_t next = 3;
  if (parts[2] == "kill")
    fault.action = Action::Kill;
  else if (parts[2] == "stop")
    fault.action = Action::Stop;
  else if (parts[2] == "close")
    fault.action = Action::Close;
  else if (parts[2] == "fail")
    fault.action = Action::Fail;
  else if (parts[2] == "delay") {
    fault.action = Action::Delay;
    int64_t milliseconds = 0;
    if (parts.size() < 4 || parts[3].getAsInteger(10, milliseconds) || milliseconds < 0 ||
        milliseconds > 3600000)
      return wrong(text, "delay needs milliseconds, at most an hour");
    fault.delay = std::chrono::milliseconds(milliseconds);
    next = 4;
  } else
    return wrong(text, fmt::format("no action '{}', there are {} and delay:MS",
                                   std::string_view(parts[2]), fmt::join(actions, ", ")));
  if (parts.size() > next && (parts[next].getAsInteger(10, fault.nth) || fault.nth == 0))
    return wrong(text, fmt::format("'{}' is no count", std::string_view(parts[next])));
  if (parts.size() > next + 1)
    return wrong(text, fmt::format("{} parts", parts.size()));
  return fault;
}

bool enabled() {
#ifdef CCL_FAULTS
  return true;
#else
  return false;
#endif
}

void arm(std::optional<Fault> fault) {
  State &s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.armed = true;
  s.fault = fault;
  s.passed = 0;
  interest.store(fault ? Interest::Some : Interest::None, std::memory_order_relaxed);
}

bool reached(Point point, int64_t rank) {
  if (interest.load(std::memory_order_relaxed) == Interest::None)
    return false;
  const std::optional<Fault> due = takeDue(point, rank);
  if (!due)
    return false;
  switch (due->action) {
  case Action::Kill: kill(getpid(), SIGKILL); break;
  case Action::Stop: kill(getpid(), SIGSTOP); break;
  case Action::Close: closeAll(); break;
  case Action::Fail: return true;
  case Action::Delay: std::this_thread::sleep_for(due->delay); break;
  }
  return false;
}

llvm::Error injected(std::string_view where) {
  return makeFailure(Failure::Machine, "fault injected {}", where);
}

CloseHook::CloseHook(std::function<void()> close) {
  State &s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  place = s.hooks.insert(s.hooks.end(), std::move(close));
}

CloseHook::~CloseHook() {
  State &s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.hooks.erase(place);
}

} // namespace ccl::faults
