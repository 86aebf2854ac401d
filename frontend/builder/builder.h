//===- builder.h - Algorithms written as C++ loops ----------------------------===//
//
//   ccl::Algorithm a("my_ring", ccl::Contract::allReduce(ccl::Op::sum), n);
//   ccl::Buffer x = a.inout(n);
//   for (int s = 0; s < n - 1; ++s) {
//     ccl::Step step = a.step(); // until the end of the scope: all at once
//     for (int r = 0; r < n; ++r) {
//       int chunk = (r - s + n) % n;
//       a.reduce(x(r, chunk), x((r + 1) % n, chunk));
//     }
//   }
//   ...
//   ccl::Result<ccl::Program> program = ccl::Program::compile(a);
//
// The rules of moves, steps and chunks are those of the text form, docs/semantics.md. Every
// move remembers the line that wrote it; a program that is wrong is refused by `compile`
// with `ring.cpp:9:13: error: rank 1, x[2] would hold ...`.
//
// Nothing here fails: ranks and chunks that do not exist, a second `inout` or a negative
// count are remembered, and are errors of `compile` at the line that wrote them.
//===----------------------------------------------------------------------===//
#pragma once

#include <ccl/ccl.h>

#include <source_location>

namespace ccl {
inline namespace jit {

/// A place in a source file. Made from a std::source_location, or, where the source is not
/// C++, of its parts. The text is copied by whoever takes a `Where`.
struct Where {
  std::string_view file;
  uint32_t line = 0, column = 0; ///< from 1; 0: not known

  Where(const std::source_location &here)
      : file(here.file_name()), line(here.line()), column(here.column()) {}
  Where(std::string_view path, uint32_t lineNumber, uint32_t columnNumber = 0)
      : file(path), line(lineNumber), column(columnNumber) {}
};

/// What an algorithm promises; `Program::compile` proves it. docs/semantics.md, "Contracts".
class CCLJIT_API Contract {
public:
  static Contract allReduce(Op op = Op::sum);
  static Contract allGather();
  static Contract reduceScatter(Op op = Op::sum);
  static Contract broadcast(int root = 0);
  static Contract reduce(Op op = Op::sum, int root = 0);
  static Contract gather(int root = 0);
  static Contract scatter(int root = 0);
  static Contract allToAll();
  /// Rank r's input goes to rank targets[r].
  static Contract permute(std::vector<int> targets);
  static Contract barrier();
  /// out[outChunk] of outRank holds the sum of all its rows' in[inChunk] of inRank. Without
  /// rows nothing is promised, and only safety is proved.
  struct Row {
    int64_t outRank, outChunk, inRank, inChunk;
  };
  static Contract custom(std::vector<Row> rows = {}, std::optional<Op> op = {});

  Collective collective = Collective::allReduce;
  std::optional<Op> op;
  int root = 0;
  std::vector<int> targets;
  std::vector<Row> rows;
};

/// One chunk of one buffer on one rank.
struct Place {
  uint64_t algorithm; ///< which Algorithm the buffer is of
  uint32_t buffer;
  int64_t rank, chunk;
};

/// A buffer that every rank owns a part of.
class Buffer {
public:
  Place operator()(int64_t rank, int64_t chunk) const { return {algorithm, index, rank, chunk}; }

private:
  friend class Algorithm;
  Buffer(uint64_t owner, uint32_t number) : algorithm(owner), index(number) {}
  uint64_t algorithm;
  uint32_t index;
};

/// While it lives, the algorithm's moves form one parallel step. A step within a step is a
/// part of it. The algorithm must neither end nor move before.
class [[nodiscard]] Step {
public:
  Step(Step &&other) noexcept : algorithm(std::exchange(other.algorithm, nullptr)) {}
  Step &operator=(Step &&) = delete;
  ~Step() { end(); }
  /// Before the scope does.
  CCLJIT_API void end();

private:
  friend class Algorithm;
  explicit Step(Algorithm *opened) : algorithm(opened) {}
  Algorithm *algorithm;
};

/// A program for all ranks, written move by move. Moves outside of steps happen one after the
/// other, steps too. Copies are independent of each other.
///
/// Threads: const methods may run at the same time, others need the object alone.
class CCLJIT_API Algorithm {
public:
  using Here = std::source_location;

  Algorithm(std::string_view name, Contract contract, int ranks, Where where = Here::current());
  Algorithm(const Algorithm &);
  Algorithm(Algorithm &&) noexcept;
  Algorithm &operator=(Algorithm) noexcept;
  ~Algorithm();

  /// A buffer of `chunks` chunks on every rank; `name` is for messages, "" takes "in", "out",
  /// "x" or "t". At most one `in`, one `out`; `inout` instead of both.
  Buffer in(int64_t chunks, std::string_view name = {}, Where where = Here::current());
  Buffer out(int64_t chunks, std::string_view name = {}, Where where = Here::current());
  Buffer inout(int64_t chunks, std::string_view name = {}, Where where = Here::current());
  Buffer scratch(int64_t chunks, std::string_view name = {}, Where where = Here::current());

  /// Overwrites `count` adjacent chunks from `into` on.
  void copy(Place from, Place into, int64_t count = 1, Where where = Here::current());
  /// Combines them into what is there.
  void reduce(Place from, Place into, int64_t count = 1, Where where = Here::current());

  /// One parallel step until the result is destroyed.
  Step step();
  /// One parallel step of what `body` writes.
  template <typename Body>
  void step(Body &&body) {
    Step open = step();
    body();
  }
  /// The same without an object, for bindings: every begin needs an end.
  void beginStep();
  void endStep();

  const std::string &name() const;
  const Contract &contract() const;
  int ranks() const;
  size_t moves() const;
  /// The algorithm as MLIR text.
  Result<std::string> text() const;

  struct Impl;
  /// For the library itself.
  const Impl *implementation() const { return impl.get(); }

private:
  std::unique_ptr<Impl> impl;
};

} // namespace jit
} // namespace ccl
