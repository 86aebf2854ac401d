#include "frontend/msccl/Expand.h"

#include <algorithm>

namespace ccl::msccl {

using model::Instruction;
using model::Operand;
using model::Role;

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

Layout::Layout(const interchange::Foreign &foreign) : foreign(foreign) {
  const model::Contract &contract = foreign.contract;
  in = contract.inChunks(), out = contract.outChunks();
  for (const model::Buffer &buffer : foreign.program.buffers) {
    base.push_back(scratch);
    bool shared = buffer.role == Role::InOut;
    if (buffer.role == Role::Scratch)
      scratch += buffer.chunks;
    // A custom contract may leave that to the buffers.
    if (in == 0 && (shared || buffer.role == Role::In))
      in = buffer.chunks;
    if (out == 0 && (shared || buffer.role == Role::Out))
      out = buffer.chunks;
    if (shared)
      whole = in >= out ? Buf::In : Buf::Out;
  }
  // The smaller one is a part of the other, and not mentioned; of custom ones both tell.
  if (whole != Buf::Scratch && contract.collective != model::Collective::Custom)
    (whole == Buf::In ? out : in) = 0;
}

Layout::Place Layout::place(const Operand &operand) const {
  switch (foreign.program.buffers[size_t(operand.buffer)].role) {
  case Role::In: return {Buf::In, operand.chunk};
  case Role::Out: return {Buf::Out, operand.chunk};
  case Role::InOut: return {whole, operand.chunk};
  case Role::Scratch: break;
  }
  return {Buf::Scratch, base[size_t(operand.buffer)] + operand.chunk};
}

int64_t Layout::cell(int32_t rank, const Place &place) const {
  const model::Contract &contract = foreign.contract;
  int64_t shared = std::max(in, out);
  if (place.buf == Buf::Scratch)
    return 2 * shared + place.chunk;
  if (whole != Buf::Scratch)
    return place.chunk;
  if (foreign.inPlace)
    return place.buf == Buf::In ? contract.inPosition(rank, place.chunk)
                                : contract.outPosition(rank, place.chunk);
  return place.buf == Buf::In ? place.chunk : shared + place.chunk;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

namespace {

using Place = Layout::Place;

class Expander {
public:
  Expander(const Layout &layout, const Lanes &lanes, int32_t rank, int64_t &scratch)
      : layout(layout), lanes(lanes), rank(rank), scratch(scratch) {}

  void beginAgent(const model::Agent &agent);
  void add(const Instruction &instruction, Lanes::Cursor &cursor);
  std::vector<Op> take() { return std::move(ops); }

private:
  /// One part of a transfer.
  struct Part {
    std::vector<Place> sources, targets;
    std::vector<int32_t> in, out; ///< lanes
    int32_t count, loc;
  };
  void copy(Part &part);
  void combine(Part &part);
  /// Where the sum is gathered: in a target that is a source anyway (`valid`: it then is the
  /// first source), or else in one whose memory no source has, or only the first one.
  Place chooseSum(Part &part, bool &valid);
  /// Receives a message and adds it to `source` into `sum`.
  void addMessage(Part &part, size_t index, const Place &source, const Place &sum, bool joins);
  /// What arrived and was stored in `held`, or is there, goes to the rest of the targets.
  void spread(const Part &part, const Place &held);
  bool overlaps(const Place &a, const Place &b, int32_t count) const;
  Place temporary();
  /// Moves the pair of lanes that one step may join to the end of `in` and the front of `out`.
  bool pairUp(Part &part) const;
  void emit(StepType type, const Part &part, Place src, Place dst, int32_t recv, int32_t send);

  const Layout &layout;
  const Lanes &lanes;
  const int32_t rank;
  int64_t &scratch;
  std::vector<Op> ops;
  int32_t largest = 1; ///< count of a part of the current agent
  std::vector<int64_t> temporaries;
  size_t uses = 0;
};

/// Temporaries take turns, so that steps of different blocks need not wait for each other.
constexpr size_t temporaryLimit = 8;

void Expander::beginAgent(const model::Agent &agent) {
  ops.clear();
  temporaries.clear();
  uses = 0;
  largest = 1;
  for (const Instruction &instruction : agent.code)
    largest = std::max(largest, std::min(instruction.count, lanes.countLimit()));
}

Place Expander::temporary() {
  size_t turn = uses++ % temporaryLimit;
  if (turn == temporaries.size()) {
    temporaries.push_back(scratch);
    scratch += largest;
  }
  return {Buf::Scratch, temporaries[turn]};
}

bool Expander::overlaps(const Place &a, const Place &b, int32_t count) const {
  // Adjacent chunks of one place have adjacent cells.
  int64_t first = layout.cell(rank, a), second = layout.cell(rank, b);
  return first < second + count && second < first + count;
}

void Expander::emit(StepType type, const Part &part, Place src, Place dst, int32_t recv,
                    int32_t send) {
  Op op;
  op.recv = recv, op.send = send;
  op.step.type = type;
  op.step.src = src.buf, op.step.srcOffset = int32_t(src.chunk);
  op.step.dst = dst.buf, op.step.dstOffset = int32_t(dst.chunk);
  op.step.count = part.count;
  op.step.loc = part.loc;
  ops.push_back(std::move(op));
}

bool Expander::pairUp(Part &part) const {
  for (size_t i = 0; i < part.in.size(); ++i) {
    auto it = std::find(part.out.begin(), part.out.end(), lanes[part.in[i]].next);
    if (it == part.out.end())
      continue;
    std::swap(*it, part.out.front());
    std::swap(part.in[i], part.in.back());
    return true;
  }
  return false;
}

void Expander::spread(const Part &part, const Place &held) {
  for (const Place &target : part.targets)
    if (target != held)
      emit(StepType::Copy, part, held, target, -1, -1);
  for (int32_t lane : part.out)
    emit(StepType::Send, part, held, held, -1, lane);
}

void Expander::copy(Part &part) {
  if (part.in.empty()) {
    Place source = part.sources.front();
    for (const Place &target : part.targets)
      if (layout.cell(rank, source) != layout.cell(rank, target) &&
          overlaps(source, target, part.count)) {
        source = temporary();
        emit(StepType::Copy, part, part.sources.front(), source, -1, -1);
        break;
      }
    return spread(part, source);
  }
  Place held = part.targets.empty() ? temporary() : part.targets.front();
  if (pairUp(part)) {
    emit(StepType::ReceiveCopySend, part, held, held, part.in.back(), part.out.front());
    part.out.erase(part.out.begin());
  } else {
    emit(StepType::Receive, part, held, held, part.in.back(), -1);
  }
  spread(part, held);
}

void Expander::combine(Part &part) {
  bool paired = pairUp(part);
  bool alone = part.in.size() == 1 && part.sources.size() == 1;
  if (alone && paired && part.targets.empty() && part.out.size() == 1) {
    Place source = part.sources.front();
    return emit(StepType::ReceiveReduceSend, part, source, source, part.in.front(),
                part.out.front());
  }
  bool valid = false;
  std::vector<Place> &sources = part.sources;
  Place sum = chooseSum(part, valid);
  if (valid)
    sources.erase(sources.begin());
  size_t taken = 0;
  if (!valid && sources.empty()) {
    emit(StepType::Receive, part, sum, sum, part.in[taken++], -1);
    valid = true;
  } else if (!valid && !alone) {
    emit(StepType::Copy, part, sources.front(), sum, -1, -1);
    sources.erase(sources.begin());
    valid = true;
  }
  if (valid)
    for (const Place &source : sources)
      emit(StepType::Reduce, part, source, sum, -1, -1);
  for (; taken < part.in.size(); ++taken)
    addMessage(part, taken, valid ? sum : sources.front(), sum,
               paired && taken + 1 == part.in.size());
  spread(part, sum);
}

Place Expander::chooseSum(Part &part, bool &valid) {
  valid = false;
  std::optional<size_t> found; // the target
  std::optional<size_t> first; // the source that shares its memory
  for (size_t t = 0; t < part.targets.size() && !valid; ++t) {
    const Place &target = part.targets[t];
    std::vector<size_t> clashes;
    for (size_t s = 0; s < part.sources.size(); ++s)
      if (overlaps(part.sources[s], target, part.count))
        clashes.push_back(s);
    bool fits = clashes.empty() ||
                (clashes.size() == 1 &&
                 layout.cell(rank, part.sources[clashes.front()]) == layout.cell(rank, target));
    bool isSource = fits && !clashes.empty() && part.sources[clashes.front()] == target;
    if (!fits || (found && !isSource))
      continue;
    found = t, valid = isSource;
    first = clashes.empty() ? std::optional<size_t>() : clashes.front();
  }
  if (first)
    std::swap(part.sources[*first], part.sources.front());
  return found ? part.targets[*found] : temporary();
}

void Expander::addMessage(Part &part, size_t index, const Place &source, const Place &sum,
                          bool joins) {
  int32_t lane = part.in[index];
  if (lanes.hasFusedSteps()) {
    emit(joins ? StepType::ReceiveReduceCopySend : StepType::ReceiveReduceCopy, part, source, sum,
         lane, joins ? part.out.front() : -1);
    if (joins)
      part.out.erase(part.out.begin());
    return;
  }
  // What arrives waits in scratch to be added, unless the sum's place is free.
  Place held = source == sum || overlaps(source, sum, part.count) ? temporary() : sum;
  emit(StepType::Receive, part, held, held, lane, -1);
  if (held == sum)
    return emit(StepType::Reduce, part, source, sum, -1, -1);
  if (source != sum)
    emit(StepType::Copy, part, source, sum, -1, -1);
  emit(StepType::Reduce, part, held, sum, -1, -1);
}

void Expander::add(const Instruction &instruction, Lanes::Cursor &cursor) {
  if (instruction.kind != Instruction::Kind::Transfer) {
    Op op;
    op.kind = instruction.kind == Instruction::Kind::Signal ? Op::Kind::Signal : Op::Kind::Wait;
    op.channel = instruction.channel;
    op.step.loc = instruction.loc;
    ops.push_back(std::move(op));
    return;
  }
  for (int32_t done = 0; done < instruction.count;) {
    Part part;
    part.count = std::min(instruction.count - done, lanes.countLimit());
    part.loc = instruction.loc;
    auto addOperands = [&](const std::vector<Operand> &operands, std::vector<Place> &places,
                           std::vector<int32_t> &messages) {
      for (const Operand &operand : operands) {
        if (operand.kind == Operand::Kind::Channel) {
          messages.push_back(cursor.take(operand.channel));
          continue;
        }
        Place place = layout.place(operand);
        place.chunk += done;
        places.push_back(place);
      }
    };
    addOperands(instruction.from, part.sources, part.in);
    addOperands(instruction.to, part.targets, part.out);
    done += part.count;
    part.sources.size() + part.in.size() == 1 ? copy(part) : combine(part);
  }
}

} // namespace

std::vector<std::vector<Op>> expand(const interchange::Foreign &foreign, const Layout &layout,
                                    const Lanes &lanes, int32_t rank, int64_t &scratch) {
  std::vector<std::vector<Op>> result;
  Expander expander(layout, lanes, rank, scratch);
  Lanes::Cursor cursor(lanes, rank);
  for (const model::Agent &agent : foreign.program.ranks[size_t(rank)].agents) {
    expander.beginAgent(agent);
    for (const Instruction &instruction : agent.code)
      expander.add(instruction, cursor);
    result.push_back(expander.take());
  }
  return result;
}

} // namespace ccl::msccl
