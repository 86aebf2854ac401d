//===- Ranks.h - Thread ranks for tests of the public interface ------------------===//
#pragma once

#include <ccl/builder.h>

#include <doctest/doctest.h>

#include <functional>
#include <thread>

namespace ccl::test {

using namespace std::chrono_literals;

/// As a condition, with the error's text if it is one.
#define CHECK_OK(status)                                                                           \
  do {                                                                                             \
    ::ccl::Status checked = ::ccl::test::statusOf(status);                                         \
    CHECK_MESSAGE(bool(checked), (checked ? std::string() : checked.error().message));             \
  } while (false)

inline Status statusOf(const Status &status) { return status; }
template <typename T>
Status statusOf(const Result<T> &result) {
  return result.status();
}

/// What a call of the set-up gives. If it gives an error, the test has failed, and ends.
template <typename T>
T valueOf(Result<T> result) {
  CHECK_OK(result);
  return std::move(*result);
}

/// Of a Status or Result; "" if all is well.
template <typename T>
std::string messageOf(const T &result) {
  const Status status = statusOf(result);
  return status ? std::string() : status.error().message;
}
/// The text of an error of that kind.
template <typename T>
std::string refusal(const T &result, Error::Kind kind) {
  const Status status = statusOf(result);
  REQUIRE(!status);
  CHECK(status.error().kind == kind);
  return status.error().message;
}
inline bool contains(const std::string &text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

inline std::vector<Communicator> open(int ranks, OpenOptions options = {}) {
  return valueOf(Communicator::openThreads(ranks, options));
}

/// body(communicator) on a thread for each rank.
inline void onEach(std::vector<Communicator> &ranks,
                   const std::function<void(Communicator &)> &body) {
  std::vector<std::thread> threads;
  for (Communicator &rank : ranks)
    threads.emplace_back([&] { body(rank); });
  for (std::thread &thread : threads)
    thread.join();
}
inline void onRanks(int count, const std::function<void(Communicator &)> &body) {
  std::vector<Communicator> ranks = open(count);
  onEach(ranks, body);
}

} // namespace ccl::test
