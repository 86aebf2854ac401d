//===- SettingsTest.cpp - The environment and the log -----------------------===//
#include "runtime/Settings.h"
#include "runtime/Log.h"
#include "runtime/Member.h"
#include "test/unit/runtime/Programs.h"

#include <doctest/doctest.h>

#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <regex>
#include <sstream>

using namespace ccl;

namespace {

llvm::Expected<Settings> parse(std::vector<const char *> environment) {
  environment.push_back(nullptr);
  return Settings::fromEnvironment(environment.data());
}
std::string errorOf(const char *assignment) {
  auto settings = parse({assignment});
  return settings ? "" : llvm::toString(settings.takeError());
}

/// A file that goes away.
struct TemporaryFile {
  std::string path = "/tmp/ccl-log-XXXXXX";
  TemporaryFile() { close(mkstemp(path.data())); }
  ~TemporaryFile() {
    log::configure({});
    unlink(path.c_str());
  }
  std::string text() const {
    std::ostringstream out;
    out << std::ifstream(path).rdbuf();
    return out.str();
  }
};

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("defaults") {
  const Settings settings = llvm::cantFail(parse({"PATH=/bin", "CCL_TIMEOUT="}));
  CHECK(settings.text(Setting::Debug) == "WARN");
  CHECK(settings.bytes(Setting::SlotBytes) == 131072);
  CHECK(settings.duration(Setting::Timeout) == std::chrono::seconds(30));
  CHECK(settings.text(Setting::Via) == "auto");
  CHECK_FALSE(settings.flag(Setting::AlwaysCompile));
  CHECK(settings.source(Setting::Timeout) == "default");
  CHECK(settings.warnings().empty());
  for (const Settings::Row &row : settings.list()) {
    CHECK(row.source == "default");
    CHECK(contains(Settings::toMarkdown(), "| `" + std::string(row.name) + "` |"));
  }
}

TEST_CASE("values come from the environment") {
  const Settings settings =
      llvm::cantFail(parse({"CCL_SLOT_BYTES=2M", "CCL_TIMEOUT=0.25", "CCL_ALWAYS_COMPILE=yes",
                            "CCL_DUMP_DIR=/dumps", "CCL_VIA=direct", "CCL_CACHE_DIR=none"}));
  CHECK(settings.bytes(Setting::SlotBytes) == 2 << 20);
  CHECK(settings.duration(Setting::Timeout) == std::chrono::milliseconds(250));
  CHECK(settings.flag(Setting::AlwaysCompile));
  CHECK(settings.text(Setting::DumpDir) == "/dumps");
  CHECK(settings.text(Setting::CacheDir) == "");
  CHECK(settings.source(Setting::Via) == "env");
  CHECK(settings.source(Setting::Debug) == "default");
}

TEST_CASE("values that cannot be parsed are errors that say what was expected") {
  for (const char *bad :
       {"CCL_DEBUG=LOUD", "CCL_DEBUG_SUBSYS=INIT,SOUP", "CCL_TIMEOUT=soon", "CCL_TIMEOUT=0",
        "CCL_TIMEOUT=-1", "CCL_TIMEOUT=inf", "CCL_TIMEOUT=nan", "CCL_SLOT_BYTES=1.5K",
        "CCL_SLOT_BYTES=0", "CCL_SLOT_BYTES=99999999G", "CCL_ALWAYS_COMPILE=2", "CCL_VIA=pigeon"}) {
    CAPTURE(bad);
    CHECK(contains(errorOf(bad), std::string(bad) + ": expected "));
  }
}

TEST_CASE("numbers have ranges") {
  for (const auto &[name, range, good, bad] :
       {std::tuple("CCL_SHIM_DEVICES", "whole number from 1 to 16", "16", "17"),
        {"CCL_SHIM_SMS", "whole number from 1 to 256", "256", "0"},
        {"CCL_SHIM_WARPS", "whole number from 0 to 32", "32", "33"},
        {"CCL_CUDA_INSTANCES", "power of two from 1 to 64", "64", "48"},
        {"CCL_SIZE", "whole number", "4294967295", "4294967296"}}) {
    CHECK(errorOf((std::string(name) + "=" + good).c_str()) == "");
    const std::string setting = std::string(name) + "=" + bad;
    CHECK(errorOf(setting.c_str()) == setting + ": expected " + range);
  }
}

TEST_CASE("a wrong value of a closed set names all that there are") {
  CHECK(errorOf("CCL_VIA=pigeon") == "CCL_VIA=pigeon: expected auto, staged or direct");
  CHECK(errorOf("CCL_DEBUG=LOUD") == "CCL_DEBUG=LOUD: expected VERSION, WARN, INFO or TRACE");
  CHECK(errorOf("CCL_DEBUG_SUBSYS=FOO") ==
        "CCL_DEBUG_SUBSYS=FOO: expected ALL, or a list of INIT, ENV, PLAN, CHECK, COMPILE, CACHE, "
        "COLL, WAIT, ABORT");
  for (const char *flag : {"CCL_COLL_TRACE", "CCL_ALWAYS_COMPILE"})
    CHECK(errorOf((std::string(flag) + "=maybe").c_str()) ==
          std::string(flag) + "=maybe: expected 0 or 1");
  // And what is named is taken.
  for (const Settings::Row &row : Settings().list()) {
    if (row.name != "CCL_VIA" && row.name != "CCL_DEBUG" && row.name != "CCL_DEBUG_SUBSYS" &&
        row.name != "CCL_COLL_TRACE" && row.name != "CCL_ALWAYS_COMPILE")
      continue;
    int values = 0;
    const std::regex word("[A-Z]{2,}|[01]|auto|staged|direct");
    for (std::sregex_iterator it(row.kind.begin(), row.kind.end(), word), end; it != end; ++it) {
      CHECK(errorOf((std::string(row.name) + "=" + it->str()).c_str()) == "");
      ++values;
    }
    CHECK(values >= 2);
  }
}

TEST_CASE("unknown names get the nearest one") {
  const Settings settings =
      llvm::cantFail(parse({"CCL_XYZZY_AND_MORE_OF_IT=1", "CCL_TIME_OUT=5", "CCLX=1"}));
  CHECK(settings.warnings() ==
        std::vector<std::string>{"unknown setting CCL_TIME_OUT: did you mean CCL_TIMEOUT?",
                                 "unknown setting CCL_XYZZY_AND_MORE_OF_IT"});
}

TEST_CASE("the log: format, levels, subsystems") {
  TemporaryFile file;
  const std::string setting = "CCL_DEBUG_FILE=" + file.path;
  llvm::cantFail(
      parse({setting.c_str(), "CCL_DEBUG=INFO", "CCL_DEBUG_SUBSYS=^COLL", "CCL_ALGORITHM=ring"}))
      .report();
  log::info(log::Subsystem::Cache, 3, "{} of {}", 1, 2);
  log::info(log::Subsystem::Coll, 3, "filtered");
  log::trace(log::Subsystem::Cache, 3, "too much");
  log::warn(log::Subsystem::Coll, -1, "never filtered");
  const std::string text = file.text();
  CAPTURE(text);
  const std::regex line(
      R"(\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] [^ :]+:\d+:\d+ \[3\] CCL INFO 1 of 2)");
  CHECK(std::regex_search(text, line));
  CHECK(contains(text, "CCL WARN never filtered\n"));
  CHECK(contains(text, "CCL WARN unknown setting CCL_ALGORITHM: did you mean CCL_ALGO?\n"));
  CHECK(contains(text, "CCL INFO CCL_DEBUG INFO (from env)\n"));
  CHECK(contains(text, "CCL VERSION ccl "));
  CHECK_FALSE(contains(text, "filtered\n["));
  CHECK_FALSE(contains(text, "too much"));
  CHECK_FALSE(contains(text, "CCL_TIMEOUT"));
}

TEST_CASE("a secret is shown to nobody") {
  TemporaryFile file;
  const std::string setting = "CCL_DEBUG_FILE=" + file.path;
  const Settings settings =
      llvm::cantFail(parse({setting.c_str(), "CCL_DEBUG=INFO", "CCL_SECRET=open sesame"}));
  settings.report();
  CHECK(settings.text(Setting::Secret) == "open sesame");
  CHECK(contains(file.text(), "CCL INFO CCL_SECRET (set) (from env)\n"));
  CHECK_FALSE(contains(file.text(), "sesame"));
  for (const Settings::Row &row : settings.list()) {
    CHECK_FALSE(contains(row.value, "sesame"));
    if (row.name == "CCL_SECRET")
      CHECK(row.value == "(set)");
  }
  for (const Settings::Row &row : Settings().list())
    if (row.name == "CCL_SECRET")
      CHECK(row.value == "");
}

TEST_CASE("a log file that cannot be opened leaves stderr") {
  log::Options options;
  options.file = "/nowhere/%h.%p.log";
  const auto problem = log::configure(options);
  REQUIRE(problem);
  CHECK(contains(*problem, std::to_string(getpid()) + ".log: No such file or directory"));
  log::configure({});
}

TEST_CASE("CCL_COLL_TRACE prints one line a collective") {
  TemporaryFile file;
  log::Options options;
  options.file = file.path;
  options.collectives = true;
  log::configure(options);
  test::Team communicator = test::makeTeam(2);
  const auto ring = test::ringAllReduce(2);
  std::vector<int32_t> memory(200);
  llvm::cantFail(onEveryRank(2, [&](int64_t rank) {
    LaunchArgs args;
    args.in = args.out = memory.data() + 100 * rank;
    args.count = 100;
    args.reason = "the command line";
    return communicator[rank].launch(ring, args);
  }));
  const std::string text = file.text();
  CHECK(contains(text,
                 "[0] CCL INFO COLL #1 all_reduce sum int32 400 bytes in-place n 2: ring hash "
                 "ring2 m 1 by the command line\n"));
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
}
