//===- HostMeeting.cpp - What is said at and after a meeting ----------------===//
#include "runtime/bootstrap/HostMeeting.h"

#include <algorithm>
#include <cstring>

namespace ccl::bootstrap {
namespace {

template <typename T>
void put(std::string &to, T value) {
  to.append(reinterpret_cast<const char *>(&value), sizeof value);
}
void put(std::string &to, const std::string &text) {
  put(to, uint32_t(text.size()));
  to += text;
}

/// Takes values from the front of a body; once one is not there, `isWhole` stays false.
struct Reader {
  llvm::StringRef rest;
  bool isWhole = true;

  template <typename T>
  T take() {
    T value{};
    isWhole &= rest.size() >= sizeof value;
    if (isWhole) {
      std::memcpy(&value, rest.data(), sizeof value);
      rest = rest.drop_front(sizeof value);
    }
    return value;
  }
  std::string takeText(size_t most) {
    const size_t n = take<uint32_t>();
    isWhole &= n <= most && n <= rest.size();
    if (!isWhole)
      return "";
    std::string text = rest.take_front(n).str();
    rest = rest.drop_front(n);
    return text;
  }
  bool isDone() const { return isWhole && rest.empty(); }
};

} // namespace

std::string encodePresent(const Presence &presence) {
  std::string body;
  put(body, presence.entry.pid);
  put(body, int64_t(presence.remaining.count()));
  put(body, presence.entry.host);
  return body;
}

std::optional<Presence> decodePresent(llvm::StringRef body) {
  Reader reader{body};
  Presence presence;
  presence.entry.pid = reader.take<int64_t>();
  presence.remaining =
      Milliseconds(std::clamp<int64_t>(reader.take<int64_t>(), 0, 365LL * 86400 * 1000));
  presence.entry.host = reader.takeText(mostHostBytes);
  return reader.isDone() ? std::optional(presence) : std::nullopt;
}

std::string encodeRoster(uint64_t job, const std::vector<HostEntry> &entries) {
  std::string body;
  put(body, job);
  for (const HostEntry &entry : entries) {
    put(body, entry.pid);
    put(body, entry.host);
    put(body, entry.address);
  }
  return body;
}

bool decodeRoster(llvm::StringRef body, int64_t ranks, HostMeeting &meeting) {
  Reader reader{body};
  meeting.job = reader.take<uint64_t>();
  meeting.entries.resize(size_t(ranks));
  for (HostEntry &entry : meeting.entries) {
    entry.pid = reader.take<int64_t>();
    entry.host = reader.takeText(mostHostBytes);
    entry.address = reader.takeText(mostHostBytes);
  }
  return reader.isDone();
}

std::string encodeFailed(const RuntimeError &error) {
  std::string body;
  put(body, int64_t(error.category));
  put(body, error.culprit);
  return body + error.message;
}

std::optional<RuntimeError> decodeFailed(llvm::StringRef body) {
  Reader reader{body};
  const auto category = reader.take<int64_t>();
  const auto culprit = reader.take<int64_t>();
  return reader.isWhole ? std::optional(toError(category, culprit, reader.rest)) : std::nullopt;
}

std::string encodeSilent(const std::vector<Silent> &silent) {
  return {reinterpret_cast<const char *>(silent.data()), silent.size() * sizeof(Silent)};
}

std::vector<Silent> decodeSilent(llvm::StringRef body) {
  std::vector<Silent> silent(body.size() / sizeof(Silent));
  if (!silent.empty())
    std::memcpy(silent.data(), body.data(), silent.size() * sizeof(Silent));
  return silent;
}

} // namespace ccl::bootstrap
