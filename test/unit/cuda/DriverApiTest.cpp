//===- DriverApiTest.cpp - Our declarations against NVIDIA's -----------------------===//
#include "test/unit/cuda/Shim.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

using namespace ccl;
using namespace ccl::test;

/// The folder of cuda.h, or "".
static std::string findHeader() {
  std::vector<std::string> roots = {"/usr/local/cuda", "/opt/cuda", "/usr"};
  for (const char *variable : {"CUDA_PATH", "CUDA_HOME"})
    if (const char *root = std::getenv(variable); root && *root)
      roots.insert(roots.begin(), root);
  for (const std::string &root : roots)
    if (std::filesystem::exists(root + "/include/cuda.h"))
      return root + "/include";
  return "";
}

TEST_CASE("every size, offset, value and signature is that of cuda.h") {
  const std::string headers = findHeader();
  if (headers.empty()) {
    MESSAGE("skipped: there is no cuda.h in CUDA_HOME, CUDA_PATH, /usr/local/cuda, /opt/cuda");
    return;
  }
  std::ostringstream header;
  header << std::ifstream(CCL_SOURCE_DIR "/runtime/cuda/DriverApi.h").rdbuf();
  const std::string text = header.str();
  const std::regex enumerator("\\b(CU(?:DA)?_\\w+) = \\d+");
  std::ofstream values(folder() + "/DriverApiValues.inc");
  int count = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), enumerator), end; it != end; ++it, ++count)
    values << "SAME(" << (*it)[1] << ")\n";
  values.close();
  CHECK(count > 100);
  const std::string check = "-fsyntax-only -I" CCL_SOURCE_DIR " -isystem " + headers + " -I" +
                            folder() + " " CCL_SOURCE_DIR "/test/unit/cuda/DriverApiCheck.cpp";
  CHECK(compile(check) == "");
  // The comparison can fail.
  std::ofstream(folder() + "/DriverApiValues.inc", std::ios::app)
      << "namespace ccl::cuda { enum { CU_EVENT_INTERPROCESS2 = 5 }; }\n"
         "enum { CU_EVENT_INTERPROCESS2 = 4 };\nSAME(CU_EVENT_INTERPROCESS2)\n";
  CHECK(compile(check).find("CU_EVENT_INTERPROCESS2") != std::string::npos);
}
