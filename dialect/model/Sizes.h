//===- Sizes.h - Numbers of bytes or elements as people type them ----------===//
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ccl::model {

/// "64M": suffixes K, M, G, T are binary, a trailing B or iB is allowed. Returns what is wrong
/// with `text`, or "" and sets `size`.
std::string parseSize(std::string_view text, int64_t &size);

} // namespace ccl::model
