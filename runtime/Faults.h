//===- Faults.h - Named places where a rank can be made to fail ---------------===//
//
//   CCL_FAULT=POINT:RANK:ACTION[:NTH]      wait.first:2:kill    exit:0:delay:50:3
//
// ACTION is kill (SIGKILL), stop (SIGSTOP), close (the sockets of this process), fail (the
// operation ends with an error) or delay:MS. It happens when RANK passes POINT for the NTH
// time in its process, the first time unless told. `ccl info --json` lists the points, so
// that a test can go through all of them. Built only with the CMake option CCL_FAULTS,
// which is off in a release: then CCL_FAULT() is `false` and the variable is unknown.
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/Support/Error.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string_view>

namespace ccl::faults {

enum class Point : uint8_t { Connect, Exchange, FirstWait, MidSlot, LastWait, Exit, Destroy };
enum class Action : uint8_t { Kill, Stop, Close, Fail, Delay };

struct PointRow {
  Point point;
  std::string_view name, where;
};
/// The table, in the order in which a job passes them.
const std::array<PointRow, 7> &points();
constexpr std::array<std::string_view, 4> actions = {"kill", "stop", "close", "fail"};

struct Fault {
  Point point;
  int64_t rank;
  Action action;
  std::chrono::milliseconds delay{0};
  uint64_t nth = 1;
};
/// Errors (Failure::BadArgument) say what was expected.
llvm::Expected<Fault> parse(std::string_view text);

/// Whether this is a build with fault points.
bool enabled();
/// What happens from now on; nothing: no fault. The first `reached` takes it from the
/// environment if nobody called this.
void arm(std::optional<Fault> fault);
/// Does what is due at this point; true: the caller must fail. For CCL_FAULT.
bool reached(Point point, int64_t rank);
/// The error (Failure::Machine) of the caller that must fail.
llvm::Error injected(std::string_view where);

/// Registers what the action `close` does, as long as it lives. Called by the thread that
/// passes the point; must not pass one itself.
class CloseHook {
public:
  explicit CloseHook(std::function<void()> close);
  ~CloseHook();
  CloseHook(const CloseHook &) = delete;
  CloseHook &operator=(const CloseHook &) = delete;

private:
  std::list<std::function<void()>>::iterator place;
};

} // namespace ccl::faults

/// `if (CCL_FAULT(FirstWait, rank)) return an error;` in sources of the runtime.
#ifdef CCL_FAULTS
#define CCL_FAULT(point, rank) (::ccl::faults::reached(::ccl::faults::Point::point, rank))
#else
#define CCL_FAULT(point, rank) (false)
#endif
