//===- NvmlApiTest.cpp - Our declarations of NVML against NVIDIA's --------------------===//
#include <doctest/doctest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

/// The folder of nvml.h, or "".
std::string findHeader() {
  std::vector<std::string> roots = {"/usr/local/cuda", "/opt/cuda", "/usr"};
  for (const char *variable : {"CUDA_PATH", "CUDA_HOME", "NVML_HOME"})
    if (const char *root = std::getenv(variable); root && *root)
      roots.insert(roots.begin(), root);
  for (const std::string &root : roots)
    if (std::filesystem::exists(root + "/include/nvml.h"))
      return root + "/include";
  return "";
}

/// What the compiler says of NvmlApiCheck.cpp; "" if nothing.
std::string compile(const std::string &headers, const std::string &flags) {
  const std::string log = "/tmp/ccl-nvml-" + std::to_string(getpid());
  const std::string command =
      CCL_COMPILER " -std=c++20 -fsyntax-only -I" CCL_SOURCE_DIR " -isystem " + headers + " " +
      flags + " " CCL_SOURCE_DIR "/test/unit/topology/NvmlApiCheck.cpp > " + log + " 2>&1";
  const int status = std::system(command.c_str()); // NOLINT: the command is ours
  std::ostringstream text;
  text << std::ifstream(log).rdbuf();
  std::filesystem::remove(log);
  return status == 0 ? "" : command + "\n" + text.str();
}

} // namespace

TEST_CASE("every size, offset, value and signature is that of nvml.h") {
  const std::string headers = findHeader();
  if (headers.empty()) {
    MESSAGE("skipped: there is no nvml.h in NVML_HOME, CUDA_HOME, CUDA_PATH, /usr/local/cuda, "
            "/opt/cuda");
    return;
  }
  CHECK(compile(headers, "") == "");
  // The comparison can fail.
  CHECK(compile(headers, "-DCCL_NVML_WRONG").find("NVML_FEATURE_ENABLED") != std::string::npos);
}
