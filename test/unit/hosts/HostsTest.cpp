//===- HostsTest.cpp - Communicators of several hosts ----------------------------===//
#include "test/unit/hosts/Hosts.h"

#include "runtime/LoadedProgram.h"
#include "test/unit/runtime/Programs.h"

#include "doctest/doctest.h"

#include <numeric>
#include <thread>

using namespace ccl;
using test::HostTeam;

namespace {

const std::vector<std::vector<std::string>> layouts = {
    {"a", "b"}, {"a", "a", "b", "b"}, {"a", "b", "a", "b"}, {"a", "b", "c"}, {"a", "a", "a", "b"}};

} // namespace

TEST_CASE("words are exchanged by ranks of all hosts") {
  for (const auto &hosts : layouts) {
    HostTeam team(hosts);
    const std::string error = team.run([&](int64_t rank, Member &member) -> llvm::Error {
      for (uint64_t round = 0; round < 20; ++round) {
        auto all = member.exchange({uint64_t(rank), round});
        if (!all)
          return all.takeError();
        for (int64_t r = 0; r < team.ranks(); ++r)
          if ((*all)[size_t(r)][0] != uint64_t(r) || (*all)[size_t(r)][1] != round)
            return makeFailure(Failure::Machine, "rank {} got wrong words of rank {}", rank, r);
      }
      return llvm::Error::success();
    });
    CHECK(error == "");
  }
}

TEST_CASE("ranks of several hosts that want different things all get the same error") {
  HostTeam team({"a", "a", "b", "b"});
  std::vector<std::string> errors(4);
  const std::string all = team.run([&](int64_t rank, Member &member) -> llvm::Error {
    if (rank == 2)
      llvm::consumeError(member.allocate(64).takeError());
    else
      llvm::consumeError(member.exchange({1}).takeError());
    errors[size_t(rank)] = member.failure() ? member.failure()->message : "";
    return llvm::Error::success();
  });
  CHECK(all == "");
  for (const std::string &error : errors) {
    CHECK(error != "");
    CHECK(error == errors[0]);
  }
}

TEST_CASE("who leaves is missed on the other hosts") {
  HostTeam team({"a", "b", "b"});
  std::vector<std::string> errors(3);
  const std::string all = team.run([&](int64_t rank, Member &member) -> llvm::Error {
    if (rank == 1) {
      team.members[1].reset();
      return llvm::Error::success();
    }
    errors[size_t(rank)] = llvm::toString(member.exchange({}, Milliseconds(5000)).takeError());
    return llvm::Error::success();
  });
  CHECK(all == "");
  CHECK(errors[0].find("rank 1 has left the communicator") != std::string::npos);
  CHECK(errors[2].find("rank 1 has left the communicator") != std::string::npos);
}

TEST_CASE("an abort ends the waits of all hosts, and they can be rebuilt") {
  HostTeam team({"a", "a", "b", "b"});
  const std::string all = team.run([&](int64_t rank, Member &member) -> llvm::Error {
    if (rank == 3) {
      std::this_thread::sleep_for(Milliseconds(50));
      member.abort("enough");
    } else {
      llvm::consumeError(member.exchange({}, Milliseconds(20000)).takeError());
    }
    while (!member.failure())
      std::this_thread::sleep_for(Milliseconds(1));
    if (member.failure()->message.find("enough") == std::string::npos)
      return makeFailure(Failure::Machine, "rank {}: {}", rank, member.failure()->message);
    auto rebuilt = member.rebuild(Milliseconds(10000));
    if (!rebuilt)
      return rebuilt.takeError();
    auto words = (*rebuilt)->exchange({uint64_t(rank)});
    if (!words)
      return words.takeError();
    for (uint64_t r = 0; r < 4; ++r)
      if ((*words)[r][0] != r)
        return makeFailure(Failure::Machine, "wrong words after the rebuild");
    team.members[size_t(rank)] = std::move(*rebuilt);
    return llvm::Error::success();
  });
  CHECK(all == "");
}

TEST_CASE("communicators of several hosts are split") {
  HostTeam team({"a", "a", "b", "b", "c"});
  const std::string all = team.run([&](int64_t rank, Member &member) -> llvm::Error {
    for (int round = 0; round < 3; ++round) {
      auto half = member.split(rank % 2, -rank);
      if (!half)
        return half.takeError();
      auto words = (*half)->exchange({uint64_t(rank)});
      if (!words)
        return words.takeError();
      for (size_t r = 0; r < words->size(); ++r) {
        const int64_t largest = rank % 2 == 0 ? 4 : 3;
        if ((*words)[r][0] != uint64_t(largest - 2 * int64_t(r)))
          return makeFailure(Failure::Machine, "rank {} found {} at {}", rank, (*words)[r][0], r);
      }
    }
    return llvm::Error::success();
  });
  CHECK(all == "");
}

TEST_CASE("a program that accesses peers directly does not run over hosts") {
  HostTeam team({"a", "b"});
  std::vector<std::string> errors(2);
  const auto program = test::directAllGather(2);
  const std::string all = team.run([&](int64_t rank, Member &member) -> llvm::Error {
    int32_t in = 1, out[2] = {};
    LaunchArgs args;
    args.in = &in;
    args.out = out;
    args.count = 1;
    errors[size_t(rank)] = llvm::toString(member.launch(program, args));
    return llvm::Error::success();
  });
  CHECK(all == "");
  CHECK(errors[0].find("directly as if ranks 0 and 1 shared a host") != std::string::npos);
}
