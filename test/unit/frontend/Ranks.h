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

inline std::string messageOf(const Status &status) {
  return status ? std::string() : status.error().message;
}
inline bool contains(const std::string &text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

inline std::vector<Communicator> open(int ranks, OpenOptions options = {}) {
  Result<std::vector<Communicator>> opened = Communicator::openThreads(ranks, options);
  REQUIRE_MESSAGE(bool(opened), messageOf(opened.status()));
  return std::move(*opened);
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
