// A host application on four ranks: a ring written in C++ loops, launched like any other
// collective, with a stream, symmetric memory and a communicator of half of the ranks.
//
//   ./app threads 4                                   all ranks in one process
//   CCL_RANK=r CCL_SIZE=4 CCL_SOCKET=/tmp/me/s ./app  one process for each r in 0..3
#include <ccl/builder.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

/// Every chunk goes around once to be summed, once more to be spread.
ccl::Algorithm ring(int ranks) {
  ccl::Algorithm a("app_ring", ccl::Contract::allReduce(ccl::Op::sum), ranks);
  ccl::Buffer x = a.inout(ranks);
  for (int pass = 0; pass < 2; ++pass)
    for (int s = 0; s < ranks - 1; ++s) {
      ccl::Step step = a.step(); // all ranks at once
      for (int r = 0; r < ranks; ++r) {
        int chunk = (r - s + pass + ranks) % ranks, next = (r + 1) % ranks;
        if (pass == 0)
          a.reduce(x(r, chunk), x(next, chunk));
        else
          a.copy(x(r, chunk), x(next, chunk));
      }
    }
  return a;
}

bool check(const ccl::Status &status, const char *what) {
  if (!status)
    std::fprintf(stderr, "%s: %s\n", what, status.error().message.c_str());
  return bool(status);
}

bool expect(bool right, int rank, const char *what) {
  if (!right)
    std::fprintf(stderr, "rank %d: %s is wrong\n", rank, what);
  return right;
}

bool work(ccl::Communicator &world) {
  const int n = world.size(), me = world.rank();
  const size_t count = 100003;
  const float sum = float(n) * float(n + 1) / 2;

  // Our own program. Every rank compiles the same one; the second time it is in the cache.
  ccl::Result<ccl::Program> program = ccl::Program::compile(ring(n), {.type = ccl::DataType::f32});
  if (!check(program.status(), "compile"))
    return false;
  std::vector<float> in(count, float(me + 1)), out(count);
  if (!check(world.launch(*program, in.data(), out.data(), int64_t(count)), "launch") ||
      !expect(out.front() == sum && out.back() == sum, me, "the ring"))
    return false;

  // A known algorithm, in memory that needs no copy between processes, on a stream.
  ccl::Result<ccl::Memory> memory = world.allocate(count * sizeof(float));
  ccl::Result<ccl::Stream> stream = world.openStream();
  if (!check(memory.status(), "allocate") || !check(stream.status(), "stream"))
    return false;
  for (float &value : memory->as<float>())
    value = float(me + 1);
  ccl::Status queued = world.allReduce(memory->data(), memory->data(), int64_t(count),
                                       ccl::DataType::f32, ccl::Op::max, {.stream = &*stream});
  if (!check(queued, "all_reduce") || !check(stream->wait(), "wait") ||
      !expect(memory->as<float>()[count / 2] == float(n), me, "the maximum"))
    return false;

  // Those with even and those with odd ranks among themselves; shards of unequal length.
  ccl::Result<std::optional<ccl::Communicator>> half = world.split(me % 2, me);
  if (!check(half.status(), "split"))
    return false;
  ccl::Communicator &mine = **half;
  std::vector<int64_t> counts;
  for (int r = 0; r < mine.size(); ++r)
    counts.push_back(r + 1);
  std::vector<int32_t> shard(size_t(mine.rank()) + 1, me);
  std::vector<int32_t> all(size_t(mine.size()) * size_t(mine.size() + 1) / 2, -1);
  if (!check(mine.allGatherV(shard.data(), all.data(), counts, ccl::DataType::i32), "all_gather"))
    return false;
  size_t at = 0;
  for (int r = 0; r < mine.size(); ++r)
    for (int i = 0; i <= r; ++i)
      if (!expect(all[at++] == 2 * r + me % 2, me, "the uneven all-gather"))
        return false;
  return check(world.barrier(), "barrier");
}

int ranksAreThreads(int n) {
  ccl::Result<std::vector<ccl::Communicator>> world = ccl::Communicator::openThreads(n);
  if (!check(world.status(), "open"))
    return 1;
  std::vector<std::thread> threads;
  std::vector<char> good(size_t(n), 0);
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] { good[size_t(r)] = work((*world)[size_t(r)]); });
  for (std::thread &thread : threads)
    thread.join();
  for (char ok : good)
    if (!ok)
      return 1;
  std::printf("%d threads: all right\n", n);
  return 0;
}

int thisProcessIsOneRank() {
  ccl::Result<ccl::Communicator> world = ccl::Communicator::open();
  if (!check(world.status(), "open") || !work(*world))
    return 1;
  std::printf("rank %d of %d: all right\n", world->rank(), world->size());
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc == 3 && std::string(argv[1]) == "threads")
    return ranksAreThreads(std::atoi(argv[2]));
  return thisProcessIsOneRank();
}
