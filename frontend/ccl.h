//===- ccl.h - Collective communication for applications ---------------------===//
//
//   ccl::Result<ccl::Communicator> opened = ccl::Communicator::open(); // CCL_RANK, ...
//   if (!opened)
//     return report(opened.error());
//   ccl::Communicator &world = *opened;
//   ccl::Status done = world.allReduce(in, out, count, ccl::DataType::f32, ccl::Op::sum);
//
// Names live in `ccl::jit`, an inline namespace: `ccl::Communicator` means
// `ccl::jit::Communicator`, unless another library declares names in `ccl` as well; then
// write the long form. Only these names are exported by libccljit.
//
// Errors. No exception leaves this library. What can fail returns a `Status` or a
// `Result<T>`; both are [[nodiscard]] and convert to true if all is well. A call that runs
// out of memory answers with Kind::machine.
//
// Threads. Handles of different communicators may be used at the same time. What may be
// done with one object from several threads stands at each class. Moving from, assigning to
// and destroying an object must not overlap with another use of the same object.
//
// Lifetime. Handles (Communicator, Stream, Memory, Program, Event) may be destroyed in any
// order: each keeps alive what it needs.
//===----------------------------------------------------------------------===//
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#if defined(__GNUC__)
#define CCLJIT_API __attribute__((visibility("default")))
#else
#define CCLJIT_API
#endif

namespace ccl {
inline namespace jit {

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

/// Of one element. `f8e4m3` has no infinity (OCP E4M3FN), `f8e5m2` has.
enum class DataType : uint8_t { i8, u8, i32, u32, i64, u64, f16, bf16, f32, f64, f8e4m3, f8e5m2 };
/// How contributions are combined; band, bor and bxor take integers only.
enum class Op : uint8_t { sum, prod, min, max, avg, band, bor, bxor };
enum class Collective : uint8_t {
  allReduce,
  allGather,
  reduceScatter,
  broadcast,
  reduce,
  gather,
  scatter,
  allToAll,
  allToAllV,
  permute,
  barrier,
  custom
};

/// Bytes of an element.
CCLJIT_API size_t sizeOf(DataType type);
/// "i8", "f32", "f8e4m3": the names of the enumerators.
CCLJIT_API std::string_view name(DataType type);
/// "sum".
CCLJIT_API std::string_view name(Op op);
/// "all_reduce", as in programs and on the command line.
CCLJIT_API std::string_view name(Collective collective);
/// Takes "f32" and nccl-tests' "float"; nothing for other texts.
CCLJIT_API std::optional<DataType> parseDataType(std::string_view text);
CCLJIT_API std::optional<Op> parseOp(std::string_view text);
CCLJIT_API std::optional<Collective> parseCollective(std::string_view text);
/// "0.1.0" of the library that is loaded.
CCLJIT_API std::string_view version();

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

struct Error {
  enum class Kind : uint8_t {
    argument, ///< a pointer, count, rank, type or setting makes no sense
    program,  ///< a program, or the text of a topology, was refused; `message` has the
              ///< diagnostics, file:line:col first
    unproved, ///< the program was not proved for this form of launch
    machine,  ///< memory, descriptors, a device, or a process that died
    timeout,  ///< a deadline went by
    aborted,  ///< somebody called abort()
    mismatch  ///< ranks asked for different things
  };
  Kind kind = Kind::machine;
  std::string message{};
  int culprit = -1; ///< rank of the communicator that is to blame, if it is known
};
/// "argument", ...
CCLJIT_API std::string_view name(Error::Kind kind);

/// For what follows: says on stderr which error was not looked at (null: that there is
/// none), and ends the process.
[[noreturn]] CCLJIT_API void endUnchecked(const Error *error);

/// Nothing, or an error.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Error error) : problem(std::move(error)) {}
  /// True if all is well.
  explicit operator bool() const { return !problem; }
  /// Only of a failure; of a success it ends the process.
  const Error &error() const {
    if (!problem)
      endUnchecked(nullptr);
    return *problem;
  }

private:
  std::optional<Error> problem;
};

/// A value, or an error.
template <typename T>
class [[nodiscard]] Result {
public:
  Result(T value) : content(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : content(std::in_place_index<1>, std::move(error)) {}
  /// True if there is a value.
  explicit operator bool() const { return content.index() == 0; }
  /// Only if there is a value; without one they end the process with the error's message.
  T &operator*() & { return get(); }
  const T &operator*() const & { return const_cast<Result *>(this)->get(); }
  T &&operator*() && { return std::move(get()); }
  T *operator->() { return &get(); }
  const T *operator->() const { return &const_cast<Result *>(this)->get(); }
  /// Only of a failure; of a success it ends the process.
  const Error &error() const {
    if (auto *error = std::get_if<1>(&content))
      return *error;
    endUnchecked(nullptr);
  }
  /// The error without the value.
  Status status() const { return *this ? Status() : Status(error()); }

private:
  T &get() {
    if (T *value = std::get_if<0>(&content))
      return *value;
    endUnchecked(std::get_if<1>(&content));
  }
  std::variant<T, Error> content;
};

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

class Algorithm;        // <ccl/builder.h>
class Topology;         // <ccl/topology.h>
class CudaCommunicator; // <ccl/cuda.h>

struct ProgramOptions {
  /// How moves between ranks are lowered: through slots, from memory to memory, or as the
  /// compiler thinks best.
  enum class Via : uint8_t { automatic, staged, direct };

  /// Number of ranks. It binds the size parameter of a text that has one that is not in
  /// `sizes`; a text or builder of fixed size must have as many. 0: as the program says.
  int ranks = 0;
  DataType type = DataType::f32;
  /// Instead of the reduction in the program's contract; a generator's default is sum.
  std::optional<Op> op{};
  /// Of a text with several: which one. Of `generate`: the generator's name; "": CCL_ALGO,
  /// else the collective's default.
  std::string algorithm{};
  std::vector<std::pair<std::string, int64_t>> sizes{}; ///< size parameters by name
  int root = 0;                                         ///< of `generate`
  std::vector<int> grid{};                              ///< of hierarchical generators
  std::vector<int> targets{};                           ///< permute: rank r sends to targets[r];
                                                        ///< none: to the next rank
  /// Nothing takes CCL_VIA.
  std::optional<Via> via{};
  int slots = 2; ///< of every channel, 1 to 1024
};

/// A proved and compiled program for one number of ranks, element type and reduction.
/// Immutable and cheap to copy; any number of threads and communicators may use it at the
/// same time. Compiling takes milliseconds to seconds, or a look into the cache on disk.
class CCLJIT_API Program {
public:
  /// What `ccl compile --emit` shows: the specialized algorithm, the programs of the ranks.
  enum class Stage : uint8_t { algorithm, program };

  /// MLIR text, or an MSCCL XML algorithm or MSCCL++ plan (docs/interchange.md): by the suffix
  /// of `label` (.mlir, .xml, .json), which stands for the file in diagnostics, else by what it
  /// looks like.
  static Result<Program> compile(std::string_view text, const ProgramOptions &options = {},
                                 std::string_view label = "<text>");
  static Result<Program> compileFile(const std::string &path, const ProgramOptions &options = {});
  /// What was built in C++ (or Python); diagnostics name the lines that wrote the moves.
  static Result<Program> compile(const Algorithm &algorithm, const ProgramOptions &options = {});
  /// A known algorithm; `options.ranks` is needed.
  static Result<Program> generate(Collective collective, const ProgramOptions &options);
  /// Names that `options.algorithm` may have for `collective`, the default first.
  static std::vector<std::string> generators(Collective collective);

  // No move: what was moved from could not be used.
  Program(const Program &) = default;
  Program &operator=(const Program &) = default;
  ~Program() = default;

  const std::string &name() const; ///< of the algorithm
  const std::string &hash() const; ///< hex digits; names the entry of the cache
  Collective collective() const;
  int ranks() const;
  int root() const;
  DataType type() const;
  std::optional<Op> op() const; ///< nothing if it does not reduce
  /// A rank's `in` and `out` are so many times `count` elements.
  int64_t inShards() const;
  int64_t outShards() const;
  /// Which forms were proved; a launch in the other one goes through a copy.
  bool provedOutOfPlace() const;
  bool provedInPlace() const;
  /// What the compiler remarked without refusing; "" if nothing.
  const std::string &remarks() const;
  /// Compiles once more up to that stage and prints it.
  Result<std::string> text(Stage stage) const;

  struct Impl;

private:
  friend class Communicator;
  friend class CudaCommunicator;
  friend class Topology;
  explicit Program(std::shared_ptr<const Impl> insides) : impl(std::move(insides)) {}
  std::shared_ptr<const Impl> impl;
};

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

class Communicator;

/// A mark in a stream. Copies are the same mark. Any thread may use it at any time.
class CCLJIT_API Event {
public:
  /// Whether everything before the mark is done, rightly or not.
  bool done() const;
  /// Waits for that; the stream's first error up to the mark. 0: as long as it takes, which
  /// the time-outs of the calls bound.
  Status wait(std::chrono::milliseconds timeout = std::chrono::milliseconds(0)) const;

  struct Impl;

private:
  friend class Stream;
  explicit Event(std::shared_ptr<Impl> insides) : impl(std::move(insides)) {}
  std::shared_ptr<Impl> impl;
};

/// Calls of one communicator that are executed one after the other by a thread of the
/// library. Buffers of a call must stay as they are until it is done.
///
/// A communicator executes its calls, blocking ones and those of all its streams, one at a
/// time in the order in which they were made; every rank must make them in the same order.
/// Work that is to run at the same time needs a communicator of its own (`dup`).
///
/// The destructor waits until what was queued is done or has failed. The communicator may be
/// destroyed before.
///
/// Threads: all methods may be called at any time.
class CCLJIT_API Stream {
public:
  Stream(Stream &&) noexcept;
  Stream &operator=(Stream &&) noexcept;
  ~Stream();

  /// Waits until all calls made so far are done. The first error of the stream; by then the
  /// communicator is dead. If the time-out goes by first, that is an error of kind timeout
  /// and the work goes on; 0: as long as it takes.
  Status wait(std::chrono::milliseconds timeout = std::chrono::milliseconds(0));
  /// A mark after all calls made so far.
  Result<Event> record();
  /// Later calls of this stream start after `event`, which may be of another stream. If what
  /// is before the mark fails, or is not done when the communicator's time-out has gone by,
  /// the data that they wait for does not exist: then the communicator is aborted.
  Status after(const Event &event);
  /// Whether all calls made so far are done.
  bool idle() const;

  struct Impl;

private:
  friend class Communicator; // and its Caller
  explicit Stream(std::shared_ptr<Impl> insides) : impl(std::move(insides)) {}
  std::shared_ptr<Impl> impl;
};

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Memory that all ranks of a communicator can address: launches use it without copies
/// between processes. What is in it at first is undefined. The destructor gives it back to the
/// communicator, which hands it out again once all ranks have; it may be destroyed after it.
class CCLJIT_API Memory {
public:
  Memory(Memory &&) noexcept;
  Memory &operator=(Memory &&) noexcept;
  ~Memory();

  void *data() const;
  size_t size() const; ///< bytes, as asked for
  /// The block of another rank, in this process' addresses. What is there when is up to the
  /// application and its own synchronization.
  void *peer(int rank) const;
  template <typename T>
  std::span<T> as() const {
    return {static_cast<T *>(data()), size() / sizeof(T)};
  }

  struct Impl;

private:
  friend class Communicator;
  explicit Memory(std::unique_ptr<Impl> insides);
  std::unique_ptr<Impl> impl;
};

//===----------------------------------------------------------------------===//
// Communicators
//===----------------------------------------------------------------------===//

struct OpenOptions {
  /// This process' rank and the number of all; negative and 0 take CCL_RANK and CCL_SIZE.
  int rank = -1;
  int size = 0;
  /// Of a Unix socket at which the processes of this machine meet, in a folder that nobody
  /// else may enter (rank 0 makes what is missing); "" takes CCL_SOCKET.
  std::string socket{};
  /// Instead of it, for processes of several hosts: where rank 0 listens, "host:port". "" takes
  /// CCL_ADDRESS, if no socket is named either. Needs a secret that all ranks of the job know:
  /// CCL_SECRET or CCL_SECRET_FILE.
  std::string address{};
  /// Instead of it: connected stream sockets, made before fork. Rank 0 has one for each other
  /// rank (rank r at index r - 1), the others have one to rank 0. `open` closes them.
  std::vector<int> sockets{};
  /// Until all have met, and of every call that names none. 0: CCL_TIMEOUT if it is set,
  /// else ten minutes.
  std::chrono::milliseconds timeout{0};
};

/// How a call is made.
struct Call {
  /// Null: the call returns when this rank's part is done. Else it returns at once and the
  /// stream executes it; what can be checked or compiled at once is an error at once.
  Stream *stream = nullptr;
  /// From the moment at which it begins. 0: the communicator's.
  std::chrono::milliseconds timeout{0};
  /// Name of the generator; "" takes CCL_ALGO, else the collective's default.
  std::string algorithm{};
  /// Runs instead of a generated program; it must be one for this collective, number of
  /// ranks, type, op and root.
  const Program *program = nullptr;
};

/// This rank's part in a group of ranks.
///
/// Counts are elements of one shard: what one rank contributes or gets. `in` and `out` do not
/// overlap, or one lies in the other where docs/semantics.md ("In place") has it. Pointers
/// may be null where the rank has nothing to give or get, or the count is 0.
///
/// All operations except rank(), size(), isDirect(), timeout(), openStream(), program(),
/// abort() and failure() are *collective*: all ranks call them in the same order, with the
/// same collective, count, type, op, root and program; if they do not, all get
/// Kind::mismatch. An error of kind argument or program that is found before the call begins
/// changes nothing. After any other the communicator is dead and answers every call with that
/// error; `rebuild` makes a new one.
///
/// Threads: any method may be called at any time. Calls are executed one at a time, in the
/// order in which they take their turn; abort() and failure() do not wait for a turn.
///
/// The destructor does not wait for other ranks. Work in streams goes on.
class CCLJIT_API Communicator {
public:
  /// Joins as one process; returns when all `size` processes have.
  static Result<Communicator> open(const OpenOptions &options = {});
  /// All ranks as threads of this process, in order; give each to a thread of its own.
  static Result<std::vector<Communicator>> openThreads(int size, const OpenOptions &options = {});

  Communicator(Communicator &&) noexcept;
  Communicator &operator=(Communicator &&) noexcept;
  ~Communicator();

  int rank() const;
  int size() const;
  std::chrono::milliseconds timeout() const;
  /// Whether ranks can read each other's ordinary memory: else data goes through slots,
  /// or lies in `allocate`d memory.
  bool isDirect() const;

  /// Every rank's `out` becomes the reduction of all `in`.
  Status allReduce(const void *in, void *out, int64_t count, DataType type, Op op,
                   const Call &call = {});
  /// `out` has size() * count elements. In place: `in` is its part of `out`.
  Status allGather(const void *in, void *out, int64_t count, DataType type, const Call &call = {});
  /// `in` has size() * count elements. In place: `out` is its part of `in`.
  Status reduceScatter(const void *in, void *out, int64_t count, DataType type, Op op,
                       const Call &call = {});
  /// `in` is read on the root only.
  Status broadcast(const void *in, void *out, int64_t count, DataType type, int root,
                   const Call &call = {});
  /// `out` is written on the root only.
  Status reduce(const void *in, void *out, int64_t count, DataType type, Op op, int root,
                const Call &call = {});
  Status gather(const void *in, void *out, int64_t count, DataType type, int root,
                const Call &call = {});
  Status scatter(const void *in, void *out, int64_t count, DataType type, int root,
                 const Call &call = {});
  /// Both have size() * count elements: shard r of `in` goes to rank r.
  Status allToAll(const void *in, void *out, int64_t count, DataType type, const Call &call = {});
  /// Rank r's `in` goes to rank targets[r]; a permutation, the same everywhere.
  Status permute(const void *in, void *out, int64_t count, DataType type,
                 std::span<const int> targets, const Call &call = {});
  /// Returns when all ranks have called it.
  Status barrier(const Call &call = {});

  // Uneven shards, packed one after the other. counts[r] are the elements of rank r's shard,
  // the same on every rank.
  Status allGatherV(const void *in, void *out, std::span<const int64_t> counts, DataType type,
                    const Call &call = {});
  Status reduceScatterV(const void *in, void *out, std::span<const int64_t> counts, DataType type,
                        Op op, const Call &call = {});
  Status gatherV(const void *in, void *out, std::span<const int64_t> counts, DataType type,
                 int root, const Call &call = {});
  Status scatterV(const void *in, void *out, std::span<const int64_t> counts, DataType type,
                  int root, const Call &call = {});
  /// sends[r] elements go to rank r, receives[r] come from it.
  Status allToAllV(const void *in, std::span<const int64_t> sends, void *out,
                   std::span<const int64_t> receives, DataType type, const Call &call = {});

  /// Runs any program for size() ranks; `call.program` and `call.algorithm` are not used.
  Status launch(const Program &program, const void *in, void *out, int64_t count,
                const Call &call = {});
  /// The same with uneven shards; `receives` for all-to-all only.
  Status launchV(const Program &program, const void *in, void *out, std::span<const int64_t> counts,
                 std::span<const int64_t> receives = {}, const Call &call = {});
  /// The program that a collective runs, compiled if need be. All communicators of a process
  /// share one cache. `options.ranks` is the communicator's size; where ranks cannot read each
  /// other's memory `options.via` is staged.
  Result<Program> program(Collective collective, ProgramOptions options = {});

  /// A stream with a thread of its own.
  Result<Stream> openStream();
  /// Memory of the same size on every rank. 0: the communicator's time-out.
  Result<Memory> allocate(size_t bytes,
                          std::chrono::milliseconds timeout = std::chrono::milliseconds(0));

  /// A communicator of the ranks with the same color, ordered by key, then rank; nothing for
  /// a negative color. It does not depend on this one afterwards.
  Result<std::optional<Communicator>>
  split(int color, int key, std::chrono::milliseconds timeout = std::chrono::milliseconds(0));
  /// One of the same ranks.
  Result<Communicator> dup(std::chrono::milliseconds timeout = std::chrono::milliseconds(0));
  /// After a failure: a communicator of those ranks that ask for it within the time-out,
  /// in their old order. It waits for each that is not known to be dead.
  Result<Communicator> rebuild(std::chrono::milliseconds timeout = std::chrono::milliseconds(0));

  /// Ends every present and future call of every rank with `reason`.
  void abort(std::string_view reason);
  /// The error that every call answers with; nothing while there is none.
  std::optional<Error> failure() const;

  struct Impl;

private:
  friend class CudaCommunicator;
  struct Caller;
  explicit Communicator(std::shared_ptr<Impl> insides) : impl(std::move(insides)) {}
  std::shared_ptr<Impl> impl;
};

} // namespace jit
} // namespace ccl
