//===- Processes.h - Tests that need several processes --------------------------===//
//
// Children are forked while the test has no threads, and end with _exit: nothing of the
// test runs twice.
//===----------------------------------------------------------------------===//
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace ccl::test {

/// A forked child and the text that its body returns.
class Child {
public:
  explicit Child(const std::function<std::string()> &body);
  Child(Child &&other) noexcept;
  /// Kills it if it is still there.
  ~Child();

  pid_t pid() const { return process; }
  /// Waits for its text; "" if it ended without one. At most 60 s, then it is killed.
  std::string text();
  /// Waits for its end: exit status, or -signal.
  int status();

private:
  pid_t process = -1;
  int pipe = -1;
};

/// A word from one process to another: `wait` returns once `tell` was called, or all who
/// could are gone.
class Signal {
public:
  Signal();
  ~Signal();
  Signal(const Signal &) = delete;
  void tell(int times = 1) const;
  void wait(int times = 1) const;

private:
  int ends[2] = {-1, -1};
};

int countDescriptors();

/// A folder of this test that is removed with what is in it.
class Folder {
public:
  Folder();
  ~Folder();
  std::string path(const std::string &name = "") const {
    return name.empty() ? root : root + "/" + name;
  }
  bool isEmpty() const;

private:
  std::string root;
};

} // namespace ccl::test
