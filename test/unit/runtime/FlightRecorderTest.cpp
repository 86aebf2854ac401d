//===- FlightRecorderTest.cpp - The last operations of a rank ---------------------===//
#include "runtime/FlightRecorder.h"
#include "test/unit/runtime/Processes.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

using namespace ccl;
using namespace ccl::test;

namespace {

FlightRecorder::Operation operationOf(uint64_t sequence) {
  FlightRecorder::Operation operation;
  operation.sequence = sequence;
  operation.collective = model::Collective::AllReduce;
  operation.inElements = operation.outElements = 1024;
  operation.type = ElementType::BF16;
  operation.timeout = std::chrono::milliseconds(30000);
  operation.program = "ring (hash ab12)";
  return operation;
}

llvm::json::Value parse(const std::string &text) { return llvm::cantFail(llvm::json::parse(text)); }

const llvm::json::Object &entry(const llvm::json::Value &dump, size_t index) {
  return *(*dump.getAsObject()->getArray("entries"))[index].getAsObject();
}

std::string readFile(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().str() : "none";
}

} // namespace

TEST_CASE("the keys of PyTorch's format") {
  FlightRecorder recorder(1);
  CHECK(recorder.addGroup("world", "all ranks", {0, 1, 2}) == 0);
  const uint64_t half = recorder.addGroup("world/split1", "", {1, 2});
  const FlightRecorder::Id done = recorder.begin(operationOf(1));
  recorder.started(done);
  recorder.completed(done);
  FlightRecorder::Operation next = operationOf(7);
  next.group = half;
  next.collective = model::Collective::AllGather;
  next.outElements = 2048;
  const FlightRecorder::Id stuck = recorder.begin(next);
  recorder.started(stuck);
  recorder.failed(stuck, "micro-batch 0, instruction 5", "rank 2");
  recorder.begin(operationOf(2));

  const llvm::json::Value dump = parse(recorder.toJson());
  const llvm::json::Object &root = *dump.getAsObject();
  CHECK(root.getString("version") == "2.10");
  const llvm::json::Object *config = root.getObject("pg_config");
  REQUIRE(config);
  CHECK(config->getObject("world")->getString("ranks") == "[0, 1, 2]");
  CHECK(config->getObject("world")->getString("desc") == "all ranks");
  CHECK(config->getObject("world/split1")->getString("ranks") == "[1, 2]");
  const llvm::json::Object *status = root.getObject("pg_status");
  REQUIRE(status);
  CHECK(status->getObject("0")->getInteger("last_enqueued_collective") == 2);
  CHECK(status->getObject("0")->getInteger("last_completed_collective") == 1);
  CHECK(status->getObject("1")->getInteger("last_started_collective") == 7);
  CHECK(status->getObject("1")->getInteger("last_completed_collective") == 0);

  REQUIRE(root.getArray("entries")->size() == 3);
  for (const char *key : {"record_id",
                          "pg_id",
                          "process_group",
                          "collective_seq_id",
                          "p2p_seq_id",
                          "op_id",
                          "profiling_name",
                          "time_created_ns",
                          "input_sizes",
                          "input_dtypes",
                          "output_sizes",
                          "output_dtypes",
                          "state",
                          "time_discovered_started_ns",
                          "time_discovered_completed_ns",
                          "retired",
                          "timeout_ms",
                          "is_p2p",
                          "frames",
                          "ccl_program",
                          "ccl_step",
                          "ccl_waits_for"})
    for (size_t i : {0, 1, 2}) {
      CAPTURE(key);
      CHECK(entry(dump, i).get(key) != nullptr);
    }
  const llvm::json::Object &first = entry(dump, 0), &second = entry(dump, 1),
                           &third = entry(dump, 2);
  CHECK(first.getString("profiling_name") == "nccl:all_reduce");
  CHECK(first.getString("state") == "completed");
  CHECK(first.getBoolean("retired") == true);
  CHECK(first.getInteger("collective_seq_id") == 1);
  REQUIRE(first.getArray("input_sizes")->size() == 1); // a list of tensors' shapes
  CHECK(*(*first.getArray("input_sizes"))[0].getAsArray() == llvm::json::Array{1024});
  CHECK(*(*second.getArray("output_sizes"))[0].getAsArray() == llvm::json::Array{2048});
  CHECK(*first.getArray("output_dtypes") == llvm::json::Array{"BFloat16"});
  CHECK(*first.getArray("process_group") == llvm::json::Array{"world", "all ranks"});
  CHECK(first.getString("ccl_program") == "ring (hash ab12)");
  CHECK(first.getInteger("timeout_ms") == 30000);
  CHECK(first.getNumber("duration_ms").value_or(-1) >= 0);
  CHECK(*first.getInteger("time_created_ns") <= *first.getInteger("time_discovered_started_ns"));
  CHECK(*first.getInteger("time_discovered_started_ns") <=
        *first.getInteger("time_discovered_completed_ns"));
  CHECK(second.getString("state") == "started");
  CHECK(second.getBoolean("retired") == true); // and not completed: it failed
  CHECK(second.getInteger("pg_id") == 1);
  CHECK(second.getString("ccl_step") == "micro-batch 0, instruction 5");
  CHECK(second.getString("ccl_waits_for") == "rank 2");
  CHECK(second.get("duration_ms") == nullptr);
  CHECK(second.get("time_discovered_completed_ns")->getAsNull().has_value());
  CHECK(third.getString("state") == "scheduled");
  CHECK(third.getBoolean("retired") == false);
}

TEST_CASE("names that the tool knows") {
  FlightRecorder recorder(0);
  recorder.addGroup("world", "", {0, 1});
  auto nameOf = [&](model::Collective collective, bool uneven) {
    FlightRecorder::Operation operation = operationOf(1);
    operation.collective = collective;
    operation.uneven = uneven;
    recorder.begin(operation);
    const llvm::json::Value dump = parse(recorder.toJson());
    return entry(dump, dump.getAsObject()->getArray("entries")->size() - 1)
        .getString("profiling_name")
        ->str();
  };
  using C = model::Collective;
  for (C same : {C::AllReduce, C::AllGather, C::ReduceScatter, C::Broadcast, C::Reduce, C::Gather,
                 C::Scatter, C::AllToAll})
    CHECK(nameOf(same, false) == "nccl:" + std::string(model::name(same)));
  CHECK(nameOf(C::AllToAllV, true) == "nccl:all_to_all");
  CHECK(nameOf(C::Barrier, false) == "nccl:all_reduce_barrier");
  CHECK(nameOf(C::AllGather, true) == "nccl:coalesced");
  CHECK(nameOf(C::Permute, false) == "nccl:coalesced");
  CHECK(nameOf(C::Custom, false) == "nccl:coalesced");
}

TEST_CASE("a ring keeps the last ones") {
  FlightRecorder recorder(0, 4);
  recorder.addGroup("world", "", {0});
  std::vector<FlightRecorder::Id> ids;
  for (uint64_t i = 1; i <= 10; ++i)
    ids.push_back(recorder.begin(operationOf(i)));
  recorder.completed(ids[0]); // long gone: nothing happens
  recorder.completed(ids[8]);
  const llvm::json::Value dump = parse(recorder.toJson());
  REQUIRE(dump.getAsObject()->getArray("entries")->size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(entry(dump, i).getInteger("collective_seq_id") == int64_t(7 + i));
    CHECK(entry(dump, i).getInteger("record_id") == int64_t(6 + i));
    CHECK((entry(dump, i).getString("state") == "completed") == (i == 2));
  }
  FlightRecorder::Operation nowhere = operationOf(1);
  nowhere.group = 3;
  CHECK(recorder.begin(nowhere) == 0);
  recorder.started(0);
}

TEST_CASE("text that is no UTF-8 does not spoil the file") {
  FlightRecorder recorder(0);
  recorder.addGroup("a\xff", "\"\n", {0});
  FlightRecorder::Operation operation = operationOf(1);
  operation.program = "\xc3(";
  const FlightRecorder::Id id = recorder.begin(operation);
  recorder.failed(id, "\x80", "");
  CHECK(parse(recorder.toJson()).getAsObject()->getArray("entries")->size() == 1);
}

TEST_CASE("threads may record while another dumps") {
  FlightRecorder recorder(0, 16);
  for (int group = 0; group < 3; ++group)
    recorder.addGroup(std::string(1, char('a' + group)), "", {0});
  std::vector<std::thread> threads;
  for (uint64_t group = 0; group < 3; ++group)
    threads.emplace_back([&recorder, group] {
      for (uint64_t i = 1; i <= 500; ++i) {
        FlightRecorder::Operation operation = operationOf(i);
        operation.group = group;
        const FlightRecorder::Id id = recorder.begin(operation);
        recorder.started(id);
        recorder.completed(id);
      }
    });
  for (int i = 0; i < 50; ++i)
    CHECK(bool(llvm::json::parse(recorder.toJson())));
  for (std::thread &thread : threads)
    thread.join();
  const llvm::json::Value dump = parse(recorder.toJson());
  CHECK(dump.getAsObject()
            ->getObject("pg_status")
            ->getObject("2")
            ->getInteger("last_completed_collective") == 500);
}

TEST_CASE("files: named by rank, private, replaced at once, never through a link") {
  Folder folder;
  FlightRecorder recorder(3);
  recorder.addGroup("world", "", {0, 1, 2, 3});
  recorder.begin(operationOf(1));
  const std::string json = folder.path("trace_3.json");
  CHECK(llvm::cantFail(recorder.dump(folder.path("trace_.json"))) == json);
  CHECK(readFile(json) == recorder.toJson() + "\n");
  struct stat status{};
  REQUIRE(stat(json.c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0600);

  // A link in its place is replaced and not followed.
  const std::string victim = folder.path("victim"), pickle = folder.path("trace_3");
  REQUIRE(symlink(victim.c_str(), pickle.c_str()) == 0);
  CHECK(llvm::cantFail(recorder.dump(folder.path("trace_"))) == pickle);
  CHECK(access(victim.c_str(), F_OK) != 0);
  REQUIRE(lstat(pickle.c_str(), &status) == 0);
  CHECK(S_ISREG(status.st_mode));
  CHECK(readFile(pickle) == recorder.toPickle());

  recorder.begin(operationOf(2));
  const int before = countDescriptors();
  CHECK(llvm::cantFail(recorder.dump(folder.path("trace_.json"))) == json);
  CHECK(countDescriptors() == before);
  CHECK(parse(readFile(json)).getAsObject()->getArray("entries")->size() == 2);

  auto nowhere = recorder.dump(folder.path("no/such/folder_"));
  REQUIRE(!nowhere);
  CHECK(llvm::toString(nowhere.takeError()) ==
        "cannot write " + folder.path("no/such/folder_3") + ": No such file or directory");
  // A folder in its place: an error, and no temporary file stays.
  REQUIRE(mkdir(folder.path("taken_3").c_str(), 0700) == 0);
  auto taken = recorder.dump(folder.path("taken_"));
  REQUIRE(!taken);
  llvm::consumeError(taken.takeError());
  for (const auto &file : std::filesystem::directory_iterator(folder.path()))
    CHECK(file.path().string().find(".tmp") == std::string::npos);
}

TEST_CASE("the pickle begins and ends as Python wants it") {
  FlightRecorder recorder(0);
  recorder.addGroup("world", "", {0});
  const std::string pickle = recorder.toPickle();
  CHECK(pickle.substr(0, 4) == "\x80\x02}(");
  CHECK(pickle.substr(pickle.size() - 2) == "u.");
}
