//===- FaultsTest.cpp - Named fault points -----------------------------------------===//
#include "runtime/Faults.h"
#include "runtime/Failure.h"
#include "runtime/Settings.h"
#include "test/unit/runtime/Processes.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>

using namespace ccl;
using namespace ccl::faults;
using namespace ccl::test;

namespace {

std::string problemOf(std::string_view text) {
  llvm::Expected<Fault> fault = parse(text);
  return fault ? "" : llvm::toString(fault.takeError());
}

bool says(const std::string &text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("the table: every point once, in order") {
  std::set<std::string_view> names;
  size_t index = 0;
  for (const PointRow &row : points()) {
    CHECK(size_t(row.point) == index++);
    CHECK(names.insert(row.name).second);
    CHECK(!row.where.empty());
    const Fault fault = llvm::cantFail(parse(fmt::format("{}:3:kill", row.name)));
    CHECK(fault.point == row.point);
    CHECK(fault.rank == 3);
    CHECK(fault.action == Action::Kill);
    CHECK(fault.nth == 1);
  }
}

TEST_CASE("what CCL_FAULT can say") {
  CHECK(llvm::cantFail(parse("exit:0:fail:7")).nth == 7);
  CHECK(llvm::cantFail(parse("exit:0:stop")).action == Action::Stop);
  CHECK(llvm::cantFail(parse("exit:0:close")).action == Action::Close);
  const Fault delay = llvm::cantFail(parse("destroy:12:delay:250:2"));
  CHECK(delay.action == Action::Delay);
  CHECK(delay.delay == std::chrono::milliseconds(250));
  CHECK(delay.nth == 2);
  CHECK(delay.rank == 12);

  CHECK(says(problemOf("wait:0:kill"), "no point 'wait', there are connect, exchange, wait.first"));
  CHECK(says(problemOf("exit:x:kill"), "'x' is no rank"));
  CHECK(says(problemOf("exit:-1:kill"), "'-1' is no rank"));
  CHECK(says(problemOf("exit:0:explode"), "no action 'explode', there are kill, stop, close"));
  CHECK(says(problemOf("exit:0"), "only 2 parts"));
  CHECK(says(problemOf(""), "only 1 parts"));
  CHECK(says(problemOf("exit:0:kill:0"), "'0' is no count"));
  CHECK(says(problemOf("exit:0:kill:1:2"), "5 parts"));
  CHECK(says(problemOf("exit:0:delay"), "delay needs milliseconds"));
  CHECK(says(problemOf("exit:0:delay:-1"), "delay needs milliseconds"));
  CHECK(says(problemOf("exit:0:kill:0"), "expected POINT:RANK:ACTION[:NTH]"));
}

TEST_CASE("the setting exists in builds with fault points only") {
  const char *good[] = {"CCL_FAULT=exit:0:kill", nullptr};
  const char *bad[] = {"CCL_FAULT=exit", nullptr};
  auto settings = Settings::fromEnvironment(good);
  REQUIRE(bool(settings));
  auto refused = Settings::fromEnvironment(bad);
  if (enabled()) {
    CHECK(settings->warnings().empty());
    CHECK(says(llvm::toString(refused.takeError()), "CCL_FAULT=exit: only 1 parts"));
  } else {
    CHECK(settings->warnings().size() == 1);
    CHECK(bool(refused));
  }
}

TEST_CASE("it happens at the point, to the rank, the time that was named") {
  arm(llvm::cantFail(parse("wait.last:1:fail:3")));
  for (int round = 1; round <= 5; ++round) {
    CAPTURE(round);
    CHECK_FALSE(reached(Point::FirstWait, 1));
    CHECK_FALSE(reached(Point::LastWait, 0));
    CHECK(reached(Point::LastWait, 1) == (round == 3));
  }
  arm(std::nullopt);
  CHECK_FALSE(reached(Point::LastWait, 1));
}

TEST_CASE("kill, stop, delay and close do what they say") {
  {
    Child child([] {
      arm(llvm::cantFail(parse("exit:0:kill")));
      reached(Point::Exit, 0);
      return std::string("survived");
    });
    CHECK(child.text() == "");
    CHECK(child.status() == -SIGKILL);
  }
  {
    Child child([] {
      arm(llvm::cantFail(parse("exit:0:stop")));
      reached(Point::Exit, 0);
      return std::string("went on");
    });
    int status = 0;
    CHECK(waitpid(child.pid(), &status, WUNTRACED) == child.pid());
    CHECK(WIFSTOPPED(status));
    kill(child.pid(), SIGCONT);
    CHECK(child.text() == "went on");
  }
  const auto begin = std::chrono::steady_clock::now();
  arm(llvm::cantFail(parse("exit:0:delay:30")));
  CHECK_FALSE(reached(Point::Exit, 0));
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(30));

  int closed = 0;
  {
    CloseHook first([&] { closed += 1; });
    CloseHook second([&] { closed += 10; });
    arm(llvm::cantFail(parse("exit:0:close")));
    CHECK_FALSE(reached(Point::Exit, 0));
    CHECK(closed == 11);
  }
  arm(llvm::cantFail(parse("exit:0:close")));
  CHECK_FALSE(reached(Point::Exit, 0));
  CHECK(closed == 11);
  arm(std::nullopt);
}

TEST_CASE("the environment arms it unless somebody has") {
  for (const char *value : {"destroy:2:fail", "rubbish"}) {
    CAPTURE(value);
    // Whether it was armed is kept for good, so ask a program that has just begun.
    Child child([&] {
      setenv("CCL_FAULT", value, 1);
      const std::string helper =
          std::filesystem::read_symlink("/proc/self/exe").parent_path() / "bootstrap-helper";
      execl(helper.c_str(), "bootstrap-helper", "fault", nullptr);
      return std::string();
    });
    child.text();
    CHECK(child.status() == (value[0] == 'd' && enabled() ? 2 : 0));
  }
}
