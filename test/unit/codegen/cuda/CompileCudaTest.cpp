//===- CompileCudaTest.cpp - From choreography to images, and the cache ------------===//
#include "test/unit/Examples.h"
#include "test/unit/codegen/Folder.h"
#include "test/unit/codegen/Support.h"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <set>

namespace fs = std::filesystem;

namespace ccl::test {
namespace {

struct Result {
  explicit Result(const CompileOptions &options, const char *file = "ring_all_reduce.mlir") {
    auto compiled = compile(source.parse(example(file)), options, stats);
    ok = mlir::succeeded(compiled);
    if (ok)
      plan = std::move(*compiled);
  }
  bool says(const std::string &part) const {
    return source.diagnostics.find(part) != std::string::npos;
  }
  Ir source;
  CompileStats stats;
  Plan plan;
  bool ok = false;
};

CompileOptions ranks(int64_t n, const std::string &arch) {
  CompileOptions options;
  options.lowering.sizes["n"] = n;
  options.arch = arch;
  return options;
}

bool isElf(const std::string &image) {
  return std::strncmp(image.c_str(),
                      "\x7f"
                      "ELF",
                      4) == 0;
}

/// With a message where there is none: such a test says nothing then.
bool hasNvrtc() {
  llvm::Expected<const Nvrtc *> library = Nvrtc::get("");
  if (library)
    return true;
  MESSAGE("skipped: " << llvm::toString(library.takeError()));
  return false;
}

TEST_CASE("a plan for the shim has source and image") {
  const Result result(ranks(4, "shim"));
  REQUIRE_MESSAGE(result.ok, result.source.diagnostics);
  CHECK(result.plan.cuda.arch == "shim");
  CHECK(isElf(result.plan.cuda.image));
  CHECK(result.plan.cuda.source.find(result.plan.cuda.kernel) != std::string::npos);
  CHECK(result.plan.object.empty());
  CHECK(result.plan.hash.size() == 64);
  CHECK(result.stats.nvrtcMs > 0);
  CHECK(result.stats.nvrtcMs <= result.stats.jitMs);
}

TEST_CASE("an image comes from the cache, with what its kernels need") {
  std::vector<std::string> archs = {"shim"};
  if (hasNvrtc())
    archs.push_back("sm_90");
  for (const std::string &arch : archs) {
    CAPTURE(arch);
    const Folder folder;
    CompileOptions options = ranks(4, arch);
    options.cacheDir = folder.path.string();
    const Result first(options), second(options);
    REQUIRE_MESSAGE(first.ok, first.source.diagnostics);
    REQUIRE(second.ok);
    CHECK_FALSE(first.stats.fromCache);
    CHECK(second.stats.fromCache);
    CHECK(first.plan.cuda.image == second.plan.cuda.image);
    CHECK(first.plan.hash == second.plan.hash);
    REQUIRE(first.stats.kernels.size() == second.stats.kernels.size());
    CHECK(first.stats.kernels.size() == (arch == "shim" ? 0 : 1));
    for (size_t k = 0; k < first.stats.kernels.size(); ++k) {
      CHECK(second.stats.kernels[k].name == first.plan.cuda.kernel);
      CHECK(second.stats.kernels[k].registers == first.stats.kernels[k].registers);
      CHECK(second.stats.kernels[k].sharedBytes == first.stats.kernels[k].sharedBytes);
      CHECK(second.stats.kernels[k].stackBytes == first.stats.kernels[k].stackBytes);
    }
    // One that is damaged is made again.
    for (const auto &entry : fs::directory_iterator(folder.path))
      fs::resize_file(entry.path(), fs::file_size(entry.path()) - 1);
    const Result third(options);
    REQUIRE(third.ok);
    CHECK_FALSE(third.stats.fromCache);
    CHECK(third.plan.cuda.image == first.plan.cuda.image);
  }
}

TEST_CASE("what an image depends on is in the cache's key") {
  const Folder folder;
  auto compiled = [&](auto change) {
    CompileOptions options = ranks(4, "shim");
    options.cacheDir = folder.path.string();
    change(options);
    const Result result(options);
    REQUIRE_MESSAGE(result.ok, result.source.diagnostics);
    CHECK_FALSE(result.stats.fromCache);
    return result.plan.hash;
  };
  std::set<std::string> hashes;
  hashes.insert(compiled([](CompileOptions &) {}));
  hashes.insert(compiled([](CompileOptions &o) { o.type = ElementType::F64; }));
  hashes.insert(compiled([](CompileOptions &o) { o.reduction = model::Reduction::Max; }));
  hashes.insert(compiled([](CompileOptions &o) { o.lowering.sizes["n"] = 5; }));
  CompileOptions options = ranks(4, "shim");
  options.shimCompiler = "g++";
  options.cacheDir = folder.path.string();
  if (const Result gcc(options); gcc.ok) {
    CHECK_FALSE(gcc.stats.fromCache);
    hashes.insert(gcc.plan.hash);
    CHECK(hashes.size() == 5);
  } else {
    CHECK(gcc.says("CCL_SHIM_CXX=g++: there is no such program"));
    CHECK(hashes.size() == 4);
  }
}

TEST_CASE("a source needs no compiler") {
  CompileOptions options = ranks(4, "sm_90a");
  options.nvrtcLibrary = "/nonexistent";
  options.sourceOnly = true;
  const Result result(options);
  REQUIRE_MESSAGE(result.ok, result.source.diagnostics);
  CHECK(result.plan.cuda.image.empty());
  CHECK(result.plan.cuda.source.find("__global__") != std::string::npos);
}

TEST_CASE("without a library the machine is to blame, and the text is kept") {
  const Folder folder;
  CompileOptions options = ranks(4, "sm_90a");
  options.nvrtcLibrary = "/nonexistent";
  options.dumpDir = folder.path.string();
  const Result result(options);
  CHECK_FALSE(result.ok);
  CHECK(result.stats.machineFailed);
  CHECK_MESSAGE(result.says("cannot generate code for sm_90a: CCL_NVRTC_LIBRARY=/nonexistent: "
                            "cannot be loaded"),
                result.source.diagnostics);
  CHECK_FALSE(result.says("fault of the compiler"));
  CHECK(contentOf(folder.path / "ring" / "kernel.cu").find("#line 1 \"ccl.cuh\"") !=
        std::string::npos);
}

TEST_CASE("a compiler that cannot is told, with what it said") {
  const Folder folder;
  const fs::path script = folder.path / "c++";
  write(script, "#!/bin/sh\necho it is Sunday\nexit 7\n");
  fs::permissions(script, fs::perms::owner_all);
  CompileOptions options = ranks(4, "shim");
  options.shimCompiler = script.string();
  const Result result(options);
  CHECK_FALSE(result.ok);
  CHECK(result.stats.machineFailed);
  for (const char *part :
       {"c++: exit status 7\nit is Sunday", "that compiler is CCL_SHIM_CXX=/",
        "/c++; if it makes no shared objects of C++20, name another", "CCL_DUMP_DIR=FOLDER"})
    CHECK_MESSAGE(result.says(part), result.source.diagnostics);
  CHECK_FALSE(result.says("fault of the compiler"));
}

TEST_CASE("an architecture that NVRTC lacks: those that it has") {
  if (!hasNvrtc())
    return;
  const Result result(ranks(4, "sm_999"));
  CHECK_FALSE(result.ok);
  CHECK_MESSAGE(result.says("has no architecture sm_999: it knows sm_"), result.source.diagnostics);
  CHECK_FALSE(result.says("fault of the compiler"));
}

} // namespace
} // namespace ccl::test
