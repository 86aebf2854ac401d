#include "runtime/bootstrap/Monitor.h"
namespace ccl {
struct Monitor::State {};
__attribute__((weak)) llvm::Expected<Meeting> meet(const JoinOptions &, Descriptor, int64_t) {
  return llvm::make_error<RuntimeError>(Failure::Machine, "pending");
}
__attribute__((weak)) llvm::Expected<std::unique_ptr<Monitor>> Monitor::start(Meeting &, Gone, Tick) {
  return llvm::make_error<RuntimeError>(Failure::Machine, "pending");
}
__attribute__((weak)) Monitor::~Monitor() {}
__attribute__((weak)) bool Monitor::isGone(int64_t) const { return false; }
__attribute__((weak)) void Monitor::closeInChild() {}
__attribute__((weak)) void Monitor::closeSockets() {}
} // namespace ccl
