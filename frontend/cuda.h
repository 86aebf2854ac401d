//===- cuda.h - Collective communication between GPUs --------------------------------===//
//
//   ccl::Result<ccl::Communicator> world = ccl::Communicator::open();
//   ...
//   ccl::Result<ccl::CudaCommunicator> gpus = ccl::CudaCommunicator::open(*world, device);
//   ...
//   ccl::Status queued = gpus->allReduce({in, out}, count, ccl::DataType::f32, ccl::Op::sum,
//                                        {.stream = stream});
//
// No header or library of CUDA is needed to compile or link: the driver is loaded when the first
// communicator is opened (setting CCL_CUDA_LIBRARY; "shim" runs kernels on this machine's
// processor). Streams are CUstream or cudaStream_t, as void *. Buffers are addresses of memory of
// the rank's GPU, or of other memory that it reaches.
//
// Errors, threads and lifetime are those of <ccl/ccl.h>.
//===----------------------------------------------------------------------===//
#pragma once

#include <ccl/ccl.h>

#include <array>

namespace ccl {
inline namespace jit {

struct CudaOptions {
  /// Until all ranks have opened, and of every call that names none. 0: that of the host
  /// communicator; of openLocal: CCL_TIMEOUT if it is set, else ten minutes.
  std::chrono::milliseconds timeout{0};
  /// Thread blocks of an agent, a power of two. 0: CCL_CUDA_INSTANCES, else by the size.
  int instances = 0;
  /// Processes compare every launch, not only the first of its kind: a rank that differs is an
  /// error of kind mismatch at once, at the price of a meeting on the host.
  bool checked = false;
};

struct CudaCall {
  /// Of each GPU of this process, or one for all; none: streams of the communicator, which
  /// synchronize() waits for. Null in it is the default stream. May be captured.
  std::span<void *const> streams{};
  /// The same for one GPU, if there are no `streams`.
  std::optional<void *> stream{};
  /// From when its kernels begin to run. 0: the communicator's.
  std::chrono::milliseconds timeout{0};
  std::string algorithm{};          ///< see Call
  const Program *program = nullptr; ///< see Call
};

struct CudaBuffer {
  const void *in = nullptr;
  void *out = nullptr;
};

/// The buffers of the ranks of this process: `{in, out}` of one, or a span of all.
class CudaBuffers {
public:
  CudaBuffers(const void *in, void *out) : one{in, out} {}
  CudaBuffers(std::span<const CudaBuffer> ranks) : all(ranks), many(true) {}
  std::span<const CudaBuffer> get() const { return many ? all : std::span(&one, 1); }

private:
  CudaBuffer one;
  std::span<const CudaBuffer> all;
  bool many = false;
};

/// Memory of a GPU that all ranks reach. Programs that use peers' memory run on it without a
/// copy. It lives as long as the communicator.
struct CudaMemory {
  void *data = nullptr;
  size_t size = 0;           ///< bytes, as asked for
  std::vector<void *> peers; ///< of every rank, as addresses of this process
};

/// Ranks on GPUs.
///
/// open: each process is one rank, with one GPU. openLocal: all ranks are of this process.
///
/// Launches are queued in streams and return. The first launch of its kind (program, count, form,
/// symmetric buffers) is compared by all processes, which waits for them; later ones involve no
/// other process. Counts, types and order are as in Communicator. What is found out in a kernel
/// is told by synchronize(), failure() and every later call.
///
/// After an error that is not of kind argument or program, or any error at all of a communicator
/// of several processes, it is dead on all ranks. A process that ends, or waits too long, ends
/// the kernels of all.
///
/// Threads: methods take turns; abort() and failure() do not wait for one.
class CCLJIT_API CudaCommunicator {
public:
  /// On top of `host`, which may be used as before, and destroyed. Collective on it.
  static Result<CudaCommunicator> open(Communicator &host, int device,
                                       const CudaOptions &options = {});
  /// Rank r lives on devices[r % devices.size()].
  static Result<CudaCommunicator> openLocal(int ranks, std::span<const int> devices,
                                            const CudaOptions &options = {});

  CudaCommunicator(CudaCommunicator &&) noexcept;
  CudaCommunicator &operator=(CudaCommunicator &&) noexcept;
  /// Waits for what was launched.
  ~CudaCommunicator();

  int size() const;
  /// Of this process: one, or all.
  std::vector<int> ranks() const;

  Status allReduce(CudaBuffers buffers, int64_t count, DataType type, Op op,
                   const CudaCall &call = {});
  Status allGather(CudaBuffers buffers, int64_t count, DataType type, const CudaCall &call = {});
  Status reduceScatter(CudaBuffers buffers, int64_t count, DataType type, Op op,
                       const CudaCall &call = {});
  Status broadcast(CudaBuffers buffers, int64_t count, DataType type, int root,
                   const CudaCall &call = {});
  Status reduce(CudaBuffers buffers, int64_t count, DataType type, Op op, int root,
                const CudaCall &call = {});
  Status gather(CudaBuffers buffers, int64_t count, DataType type, int root,
                const CudaCall &call = {});
  Status scatter(CudaBuffers buffers, int64_t count, DataType type, int root,
                 const CudaCall &call = {});
  Status allToAll(CudaBuffers buffers, int64_t count, DataType type, const CudaCall &call = {});

  // Uneven shards, see Communicator.
  Status allGatherV(CudaBuffers buffers, std::span<const int64_t> counts, DataType type,
                    const CudaCall &call = {});
  Status reduceScatterV(CudaBuffers buffers, std::span<const int64_t> counts, DataType type, Op op,
                        const CudaCall &call = {});
  Status gatherV(CudaBuffers buffers, std::span<const int64_t> counts, DataType type, int root,
                 const CudaCall &call = {});
  Status scatterV(CudaBuffers buffers, std::span<const int64_t> counts, DataType type, int root,
                  const CudaCall &call = {});
  /// `sends` and `receives` of each rank of this process, one after the other.
  Status allToAllV(CudaBuffers buffers, std::span<const int64_t> sends,
                   std::span<const int64_t> receives, DataType type, const CudaCall &call = {});

  /// Runs any program for size() ranks; it is compiled for the GPUs when it is first used.
  Status launch(const Program &program, CudaBuffers buffers, int64_t count,
                const CudaCall &call = {});

  // Of processes only. Collective.
  /// Zeroed memory of the same size on every rank.
  Result<CudaMemory> allocate(size_t bytes,
                              std::chrono::milliseconds timeout = std::chrono::milliseconds(0));
  /// Memory from cuMemAlloc (cudaMalloc), or from cuMemCreate with a file descriptor as handle
  /// type, which is kept until all ranks have closed the communicator.
  Result<CudaMemory>
  registerBuffer(void *data, size_t bytes,
                 std::chrono::milliseconds timeout = std::chrono::milliseconds(0));

  /// Waits for all launches, replays of graphs excepted, and says how they ended.
  Status synchronize();
  void abort(std::string_view reason);
  std::optional<Error> failure() const;

  struct Impl;

private:
  struct Caller;
  explicit CudaCommunicator(std::shared_ptr<Impl> insides) : impl(std::move(insides)) {}
  std::shared_ptr<Impl> impl;
};

} // namespace jit
} // namespace ccl
