//===- Source.cpp -----------------------------------------------------------===//
#include "frontend/cli/Source.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Errno.h"
#include "llvm/Support/FileSystem.h"

#include <fmt/format.h>

#include <algorithm>
#include <unistd.h>

using namespace llvm;

namespace ccl::cli {

// Larger programs than this are data: ccl.schedule with a resource still fits.
static constexpr size_t maxBytes = size_t(256) << 20;
static constexpr int maxDepth = 200, maxOperators = 1000;

static Expected<std::string> readAll(int descriptor) {
  std::string text;
  std::vector<char> part(size_t(1) << 16);
  while (true) {
    ssize_t got = sys::RetryAfterSignal(-1, ::read, descriptor, part.data(), part.size());
    if (got < 0)
      return errorCodeToError(std::error_code(errno, std::generic_category()));
    if (got == 0)
      return text;
    text.append(part.data(), size_t(got));
    if (text.size() > maxBytes)
      return createStringError(fmt::format("more than {} bytes", maxBytes));
  }
}

Expected<std::unique_ptr<MemoryBuffer>> readSource(const std::string &path) {
  bool isStdin = path == "-";
  int descriptor = STDIN_FILENO;
  if (path.find('\0') != path.npos) // the system would read another file
    return createStringError("its path has a zero byte");
  if (!isStdin) {
    Expected<sys::fs::file_t> file = sys::fs::openNativeFileForRead(path);
    if (!file)
      return file.takeError();
    descriptor = *file;
  }
  Expected<std::string> text = readAll(descriptor);
  if (!isStdin)
    ::close(descriptor);
  if (!text)
    return text.takeError();
  return MemoryBuffer::getMemBufferCopy(*text, isStdin ? "<stdin>" : path);
}

static TooDeep tooDeepAt(StringRef text, size_t offset, std::string message) {
  StringRef before = text.take_front(offset);
  // Of no line end before it, rfind's answer is the largest number.
  return {before.count('\n') + 1, before.size() - (before.rfind('\n') + 1) + 1, std::move(message)};
}

std::optional<TooDeep> findTooDeep(StringRef text) {
  int depth = 0, operators = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    StringRef rest = text.substr(i);
    if (rest.starts_with("//")) {
      i = std::min(text.find('\n', i), text.size()) - 1;
      continue;
    }
    if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i)
        i += text[i] == '\\';
      continue;
    }
    if (rest.starts_with("->") || rest.starts_with(">=") || rest.starts_with("<=")) {
      ++i;
      continue;
    }
    if (isAlpha(text[i])) {
      StringRef word = rest.take_while([](char c) { return isAlnum(c) || c == '_'; });
      operators += word == "mod" || word == "floordiv" || word == "ceildiv";
      i += word.size() - 1;
    } else if (StringRef("+-*").contains(text[i])) {
      ++operators;
    } else if (StringRef("([{<").contains(text[i])) {
      ++depth;
    } else if (StringRef(")]}>").contains(text[i])) {
      depth = std::max(depth - 1, 0);
    }
    if (StringRef(",[]{}").contains(text[i]))
      operators = 0;
    if (depth > maxDepth)
      return tooDeepAt(text, i, fmt::format("brackets are nested more than {} deep", maxDepth));
    if (operators > maxOperators)
      return tooDeepAt(text, i,
                       fmt::format("an expression has more than {} operators", maxOperators));
  }
  return std::nullopt;
}

} // namespace ccl::cli
