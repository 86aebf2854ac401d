//===- Collectives.cpp - Calls with arrays, checked before anything moves ----------===//
#include "frontend/python/Handles.h"
#include "frontend/python/Interrupt.h"

#include <pybind11/stl.h>

#include <numeric>

namespace ccl::python {
namespace {

using Counts = std::vector<int64_t>;

struct Request {
  Collective collective;
  std::optional<Op> op;
  int root = 0;
  std::vector<int> targets;
  /// Of the uneven form; all_to_all has both.
  std::optional<Counts> counts, receives;
};

/// What this rank gives and gets, in elements.
struct Extent {
  int64_t in = 0, out = 0;
  bool gives = true, gets = true;
  int64_t inPlace = 0; ///< where `in` then begins, seen from the begin of `out`
};

int64_t sum(const Counts &counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t(0));
}

/// With shards of `count` elements, if they are even.
Extent extentOf(const Request &request, int rank, int size, int64_t count) {
  int64_t own = count, all = size * count, before = rank * count;
  if (request.counts) {
    own = (*request.counts)[size_t(rank)];
    all = sum(*request.counts);
    before = std::accumulate(request.counts->begin(), request.counts->begin() + rank, int64_t(0));
  }
  const bool isRoot = rank == request.root;
  switch (request.collective) {
  case Collective::allGather: return {own, all, true, true, before};
  case Collective::gather: return {own, all, true, isRoot, before};
  case Collective::reduceScatter: return {all, own, true, true, -before};
  case Collective::scatter: return {all, own, isRoot, true, -before};
  case Collective::allToAll: return {all, request.receives ? sum(*request.receives) : all};
  case Collective::broadcast: return {own, own, isRoot, true};
  case Collective::reduce: return {own, own, true, isRoot};
  default: return {own, own};
  }
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

void checkCounts(const Counts &counts, const char *name, int size) {
  if (counts.size() != size_t(size))
    raiseValue("{}: has {} entries, needs one for each of {} ranks", name, counts.size(), size);
  for (size_t r = 0; r < counts.size(); ++r)
    if (counts[r] < 0 || counts[r] > (int64_t(1) << 50))
      raiseValue("{}[{}]: {} elements; needs to be at least 0", name, r, counts[r]);
}

void checkRequest(const Request &request, int size) {
  if (request.root < 0 || request.root >= size)
    raiseValue("root: {} is outside [0, {})", request.root, size);
  const bool isAllToAll = request.collective == Collective::allToAll;
  if (request.counts)
    checkCounts(*request.counts, isAllToAll ? "sends" : "counts", size);
  if (request.receives)
    checkCounts(*request.receives, "receives", size);
}

/// The memory of a call, and how much of it.
struct Buffers {
  Array in, out;
  int64_t count = 0;
  DataType type = DataType::u8; ///< of those that are there
};

void checkOverlap(const Buffers &buffers, const Extent &extent) {
  if (!extent.gives || !extent.gets || !extent.in || !extent.out)
    return;
  const int64_t size = int64_t(sizeOf(buffers.type));
  const auto in = reinterpret_cast<intptr_t>(buffers.in.data());
  const auto out = reinterpret_cast<intptr_t>(buffers.out.data());
  const int64_t wanted = extent.inPlace * size;
  if (in - out != wanted && in < out + extent.out * size && out < in + extent.in * size)
    raiseValue("out: overlaps x without being in place: x begins {} bytes after out, in place it "
               "would begin {} bytes after it",
               in - out, wanted);
}

/// x and out as the request has them on this rank. What the rank does not use is not looked
/// at.
Buffers takeBuffers(const Request &request, int rank, int size, const py::object &x,
                    const py::object &out, std::optional<DataType> type) {
  Buffers buffers;
  const Extent one = extentOf(request, rank, size, 1);
  if (one.gives)
    buffers.in = Array::of(x, "x", false, type);
  if (one.gets)
    buffers.out = Array::of(out, "out", true, type);
  if (one.gives && one.gets && buffers.in.type() != buffers.out.type())
    raiseType("out: holds {}, x holds {}", name(buffers.out.type()), name(buffers.in.type()));
  const Array &known = one.gives ? buffers.in : buffers.out;
  buffers.type = known.type();
  if (!request.counts) {
    const int64_t shards = one.gives ? one.in : one.out;
    if (known.elements() % shards)
      raiseValue("{}: {} elements cannot be cut into {} equal shards, one for each rank",
                 one.gives ? "x" : "out", known.elements(), shards);
    buffers.count = known.elements() / shards;
  }
  const Extent extent = extentOf(request, rank, size, buffers.count);
  if (extent.gives && buffers.in.elements() != extent.in)
    raiseValue("x: has {} elements, needs {}", buffers.in.elements(), extent.in);
  if (extent.gets && buffers.out.elements() != extent.out)
    raiseValue("out: has {} elements, needs {}", buffers.out.elements(), extent.out);
  checkOverlap(buffers, extent);
  return buffers;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

Status callEven(Communicator &on, const Request &request, const Buffers &buffers,
                const Call &call) {
  const DataType type = buffers.type;
  const void *in = buffers.in.data();
  void *out = buffers.out.data();
  const int64_t count = buffers.count;
  const Op op = request.op.value_or(Op::sum);
  switch (request.collective) {
  case Collective::allReduce: return on.allReduce(in, out, count, type, op, call);
  case Collective::allGather: return on.allGather(in, out, count, type, call);
  case Collective::reduceScatter: return on.reduceScatter(in, out, count, type, op, call);
  case Collective::broadcast: return on.broadcast(in, out, count, type, request.root, call);
  case Collective::reduce: return on.reduce(in, out, count, type, op, request.root, call);
  case Collective::gather: return on.gather(in, out, count, type, request.root, call);
  case Collective::scatter: return on.scatter(in, out, count, type, request.root, call);
  case Collective::allToAll: return on.allToAll(in, out, count, type, call);
  case Collective::permute: return on.permute(in, out, count, type, request.targets, call);
  default: return Error{Error::Kind::argument, "there is no such collective", -1};
  }
}

Status callUneven(Communicator &on, const Request &request, const Buffers &buffers,
                  const Call &call) {
  const DataType type = buffers.type;
  const void *in = buffers.in.data();
  void *out = buffers.out.data();
  const Op op = request.op.value_or(Op::sum);
  switch (request.collective) {
  case Collective::allGather: return on.allGatherV(in, out, *request.counts, type, call);
  case Collective::reduceScatter:
    return on.reduceScatterV(in, out, *request.counts, type, op, call);
  case Collective::gather: return on.gatherV(in, out, *request.counts, type, request.root, call);
  case Collective::scatter: return on.scatterV(in, out, *request.counts, type, request.root, call);
  case Collective::allToAll:
    return on.allToAllV(in, *request.counts, out, *request.receives, type, call);
  default: return Error{Error::Kind::argument, "there is no such uneven collective", -1};
  }
}

/// How a call is made, as Python's arguments have it.
struct CallArgs {
  std::shared_ptr<StreamHandle> stream;
  std::shared_ptr<Program> program;
  Call call;

  CallArgs(std::shared_ptr<StreamHandle> given, const py::object &timeout, std::string algorithm,
           std::shared_ptr<Program> chosen)
      : stream(std::move(given)), program(std::move(chosen)) {
    call.stream = stream ? &**stream : nullptr;
    call.timeout = toTimeout(timeout);
    call.algorithm = std::move(algorithm);
    call.program = program.get();
  }
};

/// Makes the call, and leaves the arrays to the stream if there is one.
template <typename Body>
void perform(const std::shared_ptr<Communicator> &communicator, const CallArgs &args,
             Buffers &buffers, Body body) {
  if (!args.stream)
    return check(blocking(communicator, body));
  check(withoutGil(body));
  args.stream->keep(std::move(buffers.in), std::move(buffers.out));
}

std::optional<DataType> givenType(const std::string &dtype) {
  return dtype.empty() ? std::nullopt : std::optional(toDataType(dtype, "dtype"));
}

void run(const CommunicatorHandle &self, Collective collective, const py::object &x,
         const py::object &out, const std::string &op, int root, std::vector<int> targets,
         std::optional<Counts> counts, std::optional<Counts> receives, const std::string &dtype,
         const std::shared_ptr<StreamHandle> &stream, const py::object &timeout,
         const std::string &algorithm, const std::shared_ptr<Program> &program) {
  const auto communicator = self.get();
  Request request{collective,         toOptionalOp(op),  root,
                  std::move(targets), std::move(counts), std::move(receives)};
  CallArgs args(stream, timeout, algorithm, program);
  const int rank = communicator->rank(), size = communicator->size();
  checkRequest(request, size);
  Buffers buffers = takeBuffers(request, rank, size, x, out, givenType(dtype));
  perform(communicator, args, buffers, [&] {
    return request.counts ? callUneven(*communicator, request, buffers, args.call)
                          : callEven(*communicator, request, buffers, args.call);
  });
}

void barrier(const CommunicatorHandle &self, const std::shared_ptr<StreamHandle> &stream,
             const py::object &timeout, const std::string &algorithm) {
  const auto communicator = self.get();
  CallArgs args(stream, timeout, algorithm, nullptr);
  check(blocking(communicator, [&] { return communicator->barrier(args.call); }));
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

Array takeArray(const py::object &object, const char *name, bool isWritten, DataType type) {
  return object.is_none() ? Array() : Array::of(object, name, isWritten, type);
}

/// Elements of one shard, from the array that is there.
int64_t countOf(const Buffers &buffers, const Program &program) {
  const bool useIn = buffers.in.data() && program.inShards() > 0;
  const Array &array = useIn ? buffers.in : buffers.out;
  const int64_t shards = useIn ? program.inShards() : program.outShards();
  if (shards < 1)
    return 0;
  if (array.elements() % shards)
    raiseValue("{}: {} elements cannot be cut into {} equal shards", useIn ? "x" : "out",
               array.elements(), shards);
  return array.elements() / shards;
}

void checkElements(const Array &array, const char *name, const py::object &object, int64_t wanted) {
  if (!object.is_none() && array.elements() != wanted)
    raiseValue("{}: has {} elements, needs {}", name, array.elements(), wanted);
}

void launch(const CommunicatorHandle &self, const std::shared_ptr<Program> &program,
            const py::object &x, const py::object &out, const std::shared_ptr<StreamHandle> &stream,
            const py::object &timeout) {
  const auto communicator = self.get();
  CallArgs args(stream, timeout, "", nullptr);
  Buffers buffers{takeArray(x, "x", false, program->type()),
                  takeArray(out, "out", true, program->type()), 0, program->type()};
  buffers.count = countOf(buffers, *program);
  checkElements(buffers.in, "x", x, buffers.count * program->inShards());
  checkElements(buffers.out, "out", out, buffers.count * program->outShards());
  perform(communicator, args, buffers, [&, in = buffers.in.data(), into = buffers.out.data()] {
    return communicator->launch(*program, in, into, buffers.count, args.call);
  });
}

void launchUneven(const CommunicatorHandle &self, const std::shared_ptr<Program> &program,
                  const py::object &x, const py::object &out, Counts counts, Counts receives,
                  const std::shared_ptr<StreamHandle> &stream, const py::object &timeout) {
  const auto communicator = self.get();
  CallArgs args(stream, timeout, "", nullptr);
  const int rank = communicator->rank(), size = communicator->size();
  Request request{program->collective(), {}, program->root(), {}, std::move(counts), {}};
  // The library knows both forms of all-to-all by the number of its counts.
  if (request.collective == Collective::allToAllV)
    request.collective = Collective::allToAll;
  if (request.collective == Collective::allToAll)
    request.receives = std::move(receives);
  checkRequest(request, size);
  Buffers buffers = takeBuffers(request, rank, size, x, out, program->type());
  const Counts none;
  perform(communicator, args, buffers, [&] {
    return communicator->launchV(*program, buffers.in.data(), buffers.out.data(), *request.counts,
                                 request.receives ? *request.receives : none, args.call);
  });
}

} // namespace

void addCollectives(py::module_ &module, py::class_<CommunicatorHandle> &communicator) {
  py::enum_<Collective>(module, "Collective")
      .value("all_reduce", Collective::allReduce)
      .value("all_gather", Collective::allGather)
      .value("reduce_scatter", Collective::reduceScatter)
      .value("broadcast", Collective::broadcast)
      .value("reduce", Collective::reduce)
      .value("gather", Collective::gather)
      .value("scatter", Collective::scatter)
      .value("all_to_all", Collective::allToAll)
      .value("permute", Collective::permute);
  communicator.def("run", &run);
  communicator.def("barrier", &barrier);
  communicator.def("launch", &launch);
  communicator.def("launch_v", &launchUneven);
}

} // namespace ccl::python
