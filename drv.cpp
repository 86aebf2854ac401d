#include "runtime/FlightRecorder.h"
#include <cstdio>
using namespace ccl;
int main(int, char **argv) {
  for (int64_t r = 0; r < 4; ++r) {
    FlightRecorder rec(r);
    rec.addGroup("world", "all ranks", {0, 1, 2, 3});
    for (uint64_t s = 1; s <= 4; ++s) {
      if (s == 4 && r == 2) break;
      FlightRecorder::Operation op; op.sequence = s; op.collective = s == 2 ? model::Collective::AllGather : s == 3 ? model::Collective::Custom : model::Collective::AllReduce;
      op.inElements = 1024; op.outElements = s == 2 ? 4096 : 1024; op.timeout = std::chrono::milliseconds(1000); op.program = "ring (hash x)";
      auto id = rec.begin(op);
      if (s < 4) { rec.started(id); rec.completed(id); } else rec.failed(id, "entry", "rank 2");
    }
    auto f = rec.dump(argv[1]);
    printf("%s\n", f ? f->c_str() : llvm::toString(f.takeError()).c_str());
  }
}
