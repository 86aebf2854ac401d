// The programs in examples/, for tests that want one of them.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace ccl::test {

/// The text of examples/`file`, without the comments that it starts with.
inline std::string example(const std::string &file) {
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  std::ifstream stream(root / "examples" / file);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const size_t begin = text.find("ccl.");
  return begin == std::string::npos ? "" : text.substr(begin);
}

} // namespace ccl::test
