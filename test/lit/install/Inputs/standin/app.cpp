// Both in one file: where both libraries have a name, ours is told by `ccl::jit::`.
#include "ccl.h"

#include <ccl/builder.h>

#include <cstdio>
#include <thread>
#include <vector>

int main() {
  ccl::init();
  ccl::communicator theirs(2);
  std::printf("theirs: %d adds %d, %d ranks\n", static_cast<int (*)()>(ccl::version)(),
              theirs.allreduce(1, 2), theirs.size());

  ccl::jit::Result<std::vector<ccl::jit::Communicator>> ours =
      ccl::jit::Communicator::openThreads(2);
  if (!ours)
    return 1;
  int sums[2] = {};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      int mine = rank + 1;
      ccl::jit::Status status = (*ours)[size_t(rank)].allReduce(
          &mine, &sums[rank], 1, ccl::jit::DataType::i32, ccl::jit::Op::sum);
      if (!status)
        std::fprintf(stderr, "%s\n", status.error().message.c_str());
    });
  for (std::thread &thread : threads)
    thread.join();
  if (sums[0] != sums[1])
    return 1;
  std::printf("ours: %d ranks add %d\n", (*ours)[0].size(), sums[0]);
  return 0;
}
