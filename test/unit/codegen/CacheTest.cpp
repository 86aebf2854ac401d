//===- CacheTest.cpp - The object cache ------------------------------------===//
#include "codegen/Cache.h"
#include "test/unit/codegen/Folder.h"
#include "test/unit/codegen/Support.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace fs = std::filesystem;

namespace ccl::test {
namespace {

std::string whyRefused(const fs::path &folder) {
  auto cache = ObjectCache::open(folder.string());
  return cache ? "" : llvm::toString(cache.takeError());
}

const std::string key = hashHex("a program");
const std::string object("\x7f"
                         "ELF\0 not really",
                         16);

const char *const program = R"(
  ccl.algorithm @copy implements #ccl.contract<broadcast> {
    %x = ccl.buffer inout ranks(1) chunks(1)
  }
  ccl.program @copy.p of @copy ranks(0) {
    %in = ccl.buffer in chunks(1)
    %out = ccl.buffer out chunks(1)
    ccl.block 0 { ccl.transfer from %in[0] to %out[0] }
  })";

struct Generated {
  explicit Generated(const CompileOptions &options, const char *text = program) {
    source.parse(text);
    ok = mlir::succeeded(generate(source.algorithm(), options, plan, stats));
  }
  Ir source;
  Plan plan;
  CompileStats stats;
  bool ok = false;
};

} // namespace

TEST_CASE("the hash is BLAKE3") {
  CHECK(hashHex("") == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
}

TEST_CASE("what is stored is found, under its key only") {
  Folder folder;
  fs::path inner = folder.path / "a" / "b";
  auto cache = ObjectCache::open(inner.string());
  REQUIRE(bool(cache));
  struct stat status;
  REQUIRE(stat(inner.c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0700);
  CHECK_FALSE(cache->load(key).has_value());
  REQUIRE_FALSE(bool(cache->store(key, object)));
  CHECK(cache->load(key) == object);
  REQUIRE_FALSE(bool(cache->store(key, object + "2"))); // replaces
  CHECK(cache->load(key) == object + "2");
  // Only the entry is left; a renamed entry is none.
  CHECK(std::distance(fs::directory_iterator(inner), fs::directory_iterator()) == 1);
  std::string other = hashHex("another");
  fs::rename(inner / (key + ".o"), inner / (other + ".o"));
  CHECK_FALSE(cache->load(other).has_value());
}

TEST_CASE("a damaged entry is no entry") {
  Folder folder;
  auto cache = ObjectCache::open(folder.path.string());
  REQUIRE(bool(cache));
  REQUIRE_FALSE(bool(cache->store(key, object)));
  fs::path file = folder.path / (key + ".o");
  std::string entry = contentOf(file);
  for (size_t length = 0; length < entry.size(); ++length) {
    write(file, entry.substr(0, length));
    CAPTURE(length);
    CHECK_FALSE(cache->load(key).has_value());
  }
  for (size_t i = 0; i < entry.size(); ++i) {
    std::string changed = entry;
    changed[i] = char(changed[i] ^ 1);
    write(file, changed);
    CAPTURE(i);
    CHECK_FALSE(cache->load(key).has_value());
  }
  write(file, entry + "x");
  CHECK_FALSE(cache->load(key).has_value());
  write(file, entry);
  CHECK(cache->load(key) == object);
  fs::permissions(file, fs::perms(0666));
  CHECK_FALSE(cache->load(key).has_value());
  fs::remove(file);
  fs::create_symlink("/etc/hostname", file);
  CHECK_FALSE(cache->load(key).has_value());
}

TEST_CASE("a folder that others can write to is refused") {
  Folder folder;
  CHECK(whyRefused(folder.path) == "");
  fs::permissions(folder.path, fs::perms(0770));
  CHECK(whyRefused(folder.path).find("can be written by others (mode 770)") != std::string::npos);
  fs::permissions(folder.path, fs::perms(0702));
  CHECK(whyRefused(folder.path).find("can be written by others") != std::string::npos);
  fs::permissions(folder.path, fs::perms(0755));
  CHECK(whyRefused(folder.path) == "");
  if (geteuid() == 0) {
    REQUIRE(chown(folder.path.c_str(), 12345, 12345) == 0);
    CHECK(whyRefused(folder.path).find("belongs to user 12345") != std::string::npos);
  }
  write(folder.path / "file", "");
  CHECK(whyRefused(folder.path / "file") != "");
  CHECK(whyRefused(folder.path / "file" / "below").find("cannot create") != std::string::npos);
}

TEST_CASE("writers in parallel leave a whole entry") {
  Folder folder;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      auto cache = llvm::cantFail(ObjectCache::open(folder.path.string()));
      for (int i = 0; i < 50; ++i) {
        llvm::cantFail(cache.store(key, object));
        CHECK(cache.load(key) == object);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()) == 1);
}

TEST_CASE("code comes from the cache the second time") {
  Folder folder;
  CompileOptions options;
  options.cacheDir = (folder.path / "cache").string();
  Generated first(options), second(options);
  REQUIRE(first.ok);
  REQUIRE(second.ok);
  CHECK_FALSE(first.stats.fromCache);
  CHECK(second.stats.fromCache);
  CHECK(second.plan.hash == first.plan.hash);
  CHECK(second.plan.object == first.plan.object);
  CHECK(second.plan.kernels.at(0).symbol == first.plan.kernels.at(0).symbol);
  CHECK(second.plan.buffers.size() == 2);
  CHECK(second.plan.program == "copy");

  write(fs::path(options.cacheDir) / (first.plan.hash + ".o"), "torn");
  Generated third(options), fourth(options);
  CHECK_FALSE(third.stats.fromCache);
  CHECK(third.plan.object == first.plan.object);
  CHECK(fourth.stats.fromCache); // repaired
  CHECK(fourth.source.diagnostics == "");
}

TEST_CASE("the key tells programs, types, sanitizers and ranks apart, not locations") {
  CompileOptions options;
  options.sanitizer = "";
  std::string plain = Generated(options).plan.hash;
  CHECK(Generated(options, (std::string("\n\n// moved\n") + program).c_str()).plan.hash == plain);
  CompileOptions other = options;
  other.type = ElementType::F64;
  CHECK(Generated(other).plan.hash != plain);
  other = options;
  other.sanitizer = "address";
  CHECK(Generated(other).plan.hash != plain);
  other = options;
  other.reduction = model::Reduction::Max; // broadcast does not reduce
  CHECK(Generated(other).plan.hash == plain);
  std::string longer = program;
  longer.replace(longer.find("ccl.transfer"), 12,
                 "ccl.transfer from %in[0] to %out[0]\nccl.transfer");
  CHECK(Generated(options, longer.c_str()).plan.hash != plain);
}

TEST_CASE("an unsafe cache folder is warned of, and the code compiled") {
  Folder folder;
  fs::permissions(folder.path, fs::perms(0777));
  CompileOptions options;
  options.cacheDir = folder.path.string();
  Generated generated(options);
  CHECK(generated.ok);
  CHECK_FALSE(generated.plan.object.empty());
  CHECK(generated.source.diagnostics.find("warning: object cache not used") == 0);
  CHECK(fs::is_empty(folder.path));
}

} // namespace ccl::test
