//===- BootstrapHelper.cpp - What tests need in a program of its own --------------===//
//
//   bootstrap-helper fault           passes `destroy` as rank 2; exit status 2: it fails there
//   bootstrap-helper traces FOLDER   what four ranks recorded when rank 2 did not come to the
//                                    fourth operation: FOLDER/trace_RANK, and as JSON in
//                                    FOLDER/json
//===----------------------------------------------------------------------===//
#include "runtime/Faults.h"
#include "runtime/FlightRecorder.h"

#include "llvm/Support/raw_ostream.h"

using namespace ccl;

static void recordRank(FlightRecorder &recorder, bool comesToAll) {
  recorder.addGroup("0", "all ranks", {0, 1, 2, 3});
  for (uint64_t sequence = 1; sequence <= (comesToAll ? 4 : 3); ++sequence) {
    FlightRecorder::Operation operation;
    operation.sequence = sequence;
    operation.collective = sequence == 2   ? model::Collective::AllGather
                           : sequence == 3 ? model::Collective::Custom
                                           : model::Collective::AllReduce;
    operation.inElements = 1024;
    operation.outElements = sequence == 2 ? 4096 : 1024;
    operation.timeout = std::chrono::milliseconds(30000);
    operation.program = "ring (hash ab12)";
    const FlightRecorder::Id id = recorder.begin(operation);
    if (sequence == 4) {
      recorder.failed(id, "entry", "rank 2");
      continue;
    }
    recorder.started(id);
    recorder.completed(id);
  }
}

static int writeTraces(const std::string &folder) {
  for (int64_t rank = 0; rank < 4; ++rank) {
    FlightRecorder recorder(rank);
    recordRank(recorder, rank != 2);
    for (const char *prefix : {"/trace_", "/json/trace_.json"}) {
      llvm::Expected<std::string> file = recorder.dump(folder + prefix);
      if (!file) {
        llvm::errs() << llvm::toString(file.takeError()) << '\n';
        return 3;
      }
    }
  }
  return 0;
}

int main(int count, char **arguments) {
  const std::string_view what = count > 1 ? arguments[1] : "";
  if (what == "fault" && count == 2)
    return faults::reached(faults::Point::Destroy, 2) ? 2 : 0;
  if (what == "traces" && count == 3)
    return writeTraces(arguments[2]);
  llvm::errs() << "usage: bootstrap-helper fault, or traces FOLDER\n";
  return 64;
}
