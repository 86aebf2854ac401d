//===- ProcessTest.cpp - Ranks as processes -----------------------------------===//
//
// Every rank is a child of the test, which is none itself. A child reports one line.
//===----------------------------------------------------------------------===//
#include "runtime/Backoff.h"
#include "runtime/bootstrap/Star.h"
#include "test/unit/runtime/Buffers.h"
#include "test/unit/runtime/Processes.h"
#include "test/unit/runtime/Programs.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace ccl;
using namespace ccl::test;

namespace {

using Body = std::function<std::string(Member &)>;

std::string textOf(llvm::Error error) { return llvm::toString(std::move(error)); }

/// What each rank's body returned; "killed by 9" and the like for ranks that did not get
/// that far.
std::vector<std::string> runProcesses(int64_t ranks, const Body &body, MemberOptions options = {}) {
  std::vector<Child> children;
  children.reserve(size_t(ranks));
  {
    bootstrap::Star star = llvm::cantFail(bootstrap::Star::make(ranks));
    for (int64_t r = 0; r < ranks; ++r)
      children.emplace_back([&, r] {
        JoinOptions joining;
        joining.rank = r;
        joining.ranks = ranks;
        joining.sockets = star.keep(r);
        joining.timeout = Milliseconds(20000);
        joining.member = options;
        auto member = Member::join(std::move(joining));
        return member ? body(**member) : textOf(member.takeError());
      });
  }
  std::vector<std::string> texts;
  for (Child &child : children) {
    std::string text = child.text();
    const int status = child.status();
    texts.push_back(text.empty() && status < 0 ? fmt::format("killed by {}", -status) : text);
  }
  return texts;
}

void checkAll(const std::vector<std::string> &texts, std::string_view expected) {
  for (const std::string &text : texts)
    CHECK(text == expected);
}

/// Launches an int32 sum over all and judges it; "" if it is right.
std::string allReduce(Member &member, const std::shared_ptr<LoadedProgram> &program, int64_t count,
                      bool inPlace = false, Milliseconds timeout = Milliseconds(10000)) {
  Guarded in(count), out(count);
  for (int64_t i = 0; i < count; ++i)
    in[i] = inputOf(member.rank(), i, 1);
  LaunchArgs args;
  args.in = in.data();
  args.out = inPlace ? in.data() : out.data();
  args.count = count;
  args.timeout = timeout;
  if (llvm::Error e = member.launch(program, args))
    return textOf(std::move(e));
  Guarded &result = inPlace ? in : out;
  for (int64_t i = 0; i < count; ++i)
    if (result[i] != sumOf(member.ranks(), i, 1))
      return fmt::format("element {} of {} is wrong", i, count);
  return in.isIntact() && out.isIntact() ? "" : "a red zone was written";
}

} // namespace

TEST_CASE("processes: ring all-reduce through slots") {
  for (int64_t ranks : {1, 2, 3, 5, 8}) {
    CAPTURE(ranks);
    const auto ring = ringAllReduce(ranks);
    checkAll(runProcesses(ranks,
                          [&](Member &member) -> std::string {
                            for (int64_t count : {0, 1, 2, 17, 4097, 100000})
                              for (bool inPlace : {false, true})
                                if (auto wrong = allReduce(member, ring, count, inPlace);
                                    !wrong.empty())
                                  return wrong;
                            return "right";
                          }),
             "right");
  }
}

TEST_CASE("processes: direct reads of symmetric memory, and of ordinary memory through a copy") {
  const int64_t ranks = 3, count = 1000;
  Plan plan = directAllGatherPlan(ranks);
  // The kernel of the test does not know of remote addresses: as if peers wrote there.
  for (BufferPlan &buffer : plan.buffers)
    buffer.peersRead = buffer.peersWrite = true;
  const auto gather = std::make_shared<HandWritten>(plan, directAllGather(ranks)->kernel(0));
  checkAll(runProcesses(ranks,
                        [&](Member &member) -> std::string {
                          auto in = member.allocate(count * 4),
                               out = member.allocate(ranks * count * 4);
                          if (!in || !out)
                            return "no memory";
                          std::vector<int32_t> ordinary(static_cast<size_t>(ranks * count));
                          for (bool symmetric : {true, false, true}) {
                            auto *from = static_cast<int32_t *>(in->local);
                            for (int64_t i = 0; i < count; ++i)
                              from[i] = inputOf(member.rank(), i, symmetric);
                            LaunchArgs args;
                            args.in = from;
                            args.out = symmetric ? out->local : ordinary.data();
                            args.count = count;
                            if (llvm::Error e = member.launch(gather, args))
                              return textOf(std::move(e));
                            const auto *got = static_cast<const int32_t *>(args.out);
                            for (int64_t r = 0; r < ranks; ++r)
                              for (int64_t i = 0; i < count; ++i)
                                if (got[r * count + i] != inputOf(r, i, symmetric))
                                  return "wrong";
                          }
                          return "right";
                        }),
           "right");
}

TEST_CASE("processes: words and symmetric memory reach everybody") {
  checkAll(runProcesses(4,
                        [](Member &member) -> std::string {
                          auto words = member.exchange({uint64_t(member.rank()) * 10, 7});
                          if (!words)
                            return textOf(words.takeError());
                          for (size_t r = 0; r < 4; ++r)
                            if ((*words)[r][0] != r * 10 || (*words)[r][1] != 7)
                              return "wrong words";
                          auto memory = member.allocate(8);
                          if (!memory)
                            return textOf(memory.takeError());
                          *static_cast<int64_t *>(memory->local) = member.rank() + 100;
                          if (auto all = member.exchange({}); !all)
                            return textOf(all.takeError());
                          for (size_t r = 0; r < 4; ++r)
                            if (*static_cast<int64_t *>(memory->peers[r]) != int64_t(r) + 100)
                              return "wrong memory";
                          if (auto all = member.exchange({}); !all)
                            return textOf(all.takeError());
                          return "right";
                        }),
           "right");
}

namespace {

/// Halves, each with a ring of its own, while the parent goes away.
std::string splitAndGo(Member &member, std::unique_ptr<Member> *parent) {
  const int64_t ranks = member.ranks(), rank = member.rank();
  // In each half the order is turned around.
  auto half = member.split(rank % 2, -rank);
  if (!half)
    return textOf(half.takeError());
  auto copy = member.duplicate();
  if (!copy)
    return textOf(copy.takeError());
  auto none = member.split(rank == 0 ? 1 : -1, 0);
  if (!none || bool(*none) != (rank == 0))
    return "a negative color has no communicator";
  if (parent)
    parent->reset();
  const int64_t size = (ranks + 1 - rank % 2) / 2;
  if ((*half)->ranks() != size || (*half)->rank() != size - 1 - rank / 2)
    return fmt::format("rank {} of {} instead", (*half)->rank(), (*half)->ranks());
  for (int i = 0; i < 5; ++i) {
    if (auto wrong = allReduce(**half, ringAllReduce(size), 333); !wrong.empty())
      return wrong;
    if (auto wrong = allReduce(**copy, ringAllReduce(ranks), 1000); !wrong.empty())
      return wrong;
  }
  copy->reset();
  return allReduce(**half, ringAllReduce(size), 17);
}

} // namespace

TEST_CASE("split and duplicate, and a parent that goes before its children") {
  checkAll(runProcesses(5, [](Member &member) { return splitAndGo(member, nullptr) + "right"; }),
           "right");
  auto members = llvm::cantFail(Member::createThreads(5));
  std::vector<std::string> texts(5);
  llvm::cantFail(onEveryRank(5, [&](int64_t rank) {
    texts[size_t(rank)] = splitAndGo(*members[size_t(rank)], &members[size_t(rank)]);
    return llvm::Error::success();
  }));
  checkAll(texts, "");
}

TEST_CASE("processes: who is killed is named, and the others go on") {
  for (int64_t victim : {0, 1, 3}) {
    CAPTURE(victim);
    const auto texts = runProcesses(4, [&](Member &member) -> std::string {
      if (auto wrong = allReduce(member, ringAllReduce(4), 1000); !wrong.empty())
        return wrong;
      // Who is still in the launch might need it, or read what others use again.
      if (auto all = member.exchange({}); !all)
        return textOf(all.takeError());
      if (member.rank() == victim)
        raise(SIGKILL);
      const Clock::time_point begin = Clock::now();
      const std::string error =
          allReduce(member, ringAllReduce(4), 1000, false, Milliseconds(30000));
      if (error.find(fmt::format("rank {} is gone", victim)) != 0)
        return "unexpected: " + error;
      if (member.failure()->culprit != victim)
        return "wrong culprit";
      if (Clock::now() - begin > std::chrono::seconds(10))
        return "late";
      // A dead communicator answers every call with its first error.
      if (allReduce(member, ringAllReduce(4), 1) != error)
        return "another error";
      auto rebuilt = member.rebuild(Milliseconds(5000));
      if (!rebuilt)
        return textOf(rebuilt.takeError());
      if ((*rebuilt)->ranks() != 3)
        return "not three left";
      auto wrong = allReduce(**rebuilt, ringAllReduce(3), 5000);
      return wrong.empty() ? "right" : wrong;
    });
    for (int64_t r = 0; r < 4; ++r)
      CHECK(texts[size_t(r)] == (r == victim ? "killed by 9" : "right"));
  }
}

TEST_CASE("processes: ranks that disagree all get one sentence") {
  const auto texts = runProcesses(3, [&](Member &member) {
    return allReduce(member, ringAllReduce(3), member.rank() == 2 ? 5 : 4);
  });
  checkAll(texts, "operation 2: ranks 0 and 2 disagree on the count: 4 and 5");
}

TEST_CASE("processes: nothing stays open") {
  checkAll(runProcesses(2,
                        [](Member &first) -> std::string {
                          const int before = countDescriptors();
                          for (int i = 0; i < 3; ++i) {
                            auto copy = first.duplicate();
                            if (!copy)
                              return textOf(copy.takeError());
                            if (auto wrong = allReduce(**copy, ringAllReduce(2), 100);
                                !wrong.empty())
                              return wrong;
                          }
                          return countDescriptors() == before ? "right" : "descriptors leak";
                        }),
           "right");
}

TEST_CASE("a communicator cannot be rebuilt while it works, nor used by a child of fork") {
  checkAll(runProcesses(2,
                        [](Member &member) -> std::string {
                          auto early = member.rebuild(Milliseconds(100));
                          if (early ||
                              textOf(early.takeError()).find("that failed") == std::string::npos)
                            return "rebuilt";
                          const pid_t child = fork();
                          if (child == 0) {
                            const std::string text = allReduce(member, ringAllReduce(2), 1);
                            _exit(text.find("child of fork") == std::string::npos);
                          }
                          int status = 1;
                          waitpid(child, &status, 0);
                          if (status != 0)
                            return "the child could use it";
                          // Nor does it speak for its parent when it is done with its copy.
                          const pid_t other = fork();
                          if (other == 0) {
                            member.abort("in the child");
                            (&member)->~Member();
                            _exit(0);
                          }
                          waitpid(other, &status, 0);
                          if (status != 0)
                            return "the child could not destroy it";
                          auto wrong = allReduce(member, ringAllReduce(2), 10);
                          return wrong.empty() ? "right" : wrong;
                        }),
           "right");
}
