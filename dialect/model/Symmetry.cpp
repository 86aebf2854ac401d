#include "dialect/model/Symmetry.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace ccl::model {
namespace {

int64_t floorMod(int64_t a, int64_t b) { return (a % b + b) % b; }

int64_t product(const std::vector<int64_t> &extents) {
  int64_t result = 1;
  for (int64_t extent : extents)
    result *= extent;
  return result;
}

/// Whether the axes are those of a grid of `size` places that the rank grid can move.
bool isAction(const std::vector<ShiftedAxis> &axes, const std::vector<int64_t> &ranks,
              int64_t size) {
  int64_t places = 1;
  for (const ShiftedAxis &axis : axes) {
    if (axis.extent < 1 || axis.extent > size || axis.steps.size() != ranks.size())
      return false;
    places *= axis.extent;
    for (size_t x = 0; x < ranks.size(); ++x)
      if (axis.steps[x] * ranks[x] % axis.extent != 0) // once around is no shift
        return false;
  }
  return places == size;
}

/// The contract against one generator of the group.
class ContractShift {
public:
  ContractShift(const Symmetry &symmetry, const std::vector<Buffer> &buffers,
                const Contract &contract, int64_t shift)
      : group(symmetry), buffers(buffers), contract(contract), shift(shift) {}

  std::string contradiction(bool inPlace);

private:
  int32_t bufferWith(Role role) const {
    for (size_t b = 0; b < buffers.size(); ++b)
      if (buffers[b].role == role)
        return int32_t(b);
    return -1;
  }
  int64_t rankOf(int64_t rank) const { return group.moveRank(shift, rank); }
  bool buildMap(Role role, std::vector<int64_t> &map);
  bool keepsPromises() const;
  bool isAllToAll() const;
  bool isPermutation() const;
  bool keepsRows() const;
  bool keepsLengths() const;

  const ShiftGroup group;
  const std::vector<Buffer> &buffers;
  const Contract &contract;
  const int64_t shift;
  std::vector<int64_t> in, out; ///< where every chunk of the contract goes
};

/// Where the chunks of `in` or `out` go. In an `inout` buffer they lie where the rank
/// says, so their way must not depend on it.
bool ContractShift::buildMap(Role role, std::vector<int64_t> &map) {
  bool isIn = role == Role::In;
  int32_t buffer = bufferWith(role), whole = bufferWith(Role::InOut);
  int64_t chunks = isIn ? contract.inChunks() : contract.outChunks();
  if (buffer < 0 && whole < 0)
    return chunks == 0;
  int64_t size = buffers[size_t(buffer >= 0 ? buffer : whole)].chunks;
  if (contract.collective == Collective::Custom && chunks == 0)
    chunks = size;
  for (int64_t chunk = 0; chunk < chunks && buffer >= 0; ++chunk)
    map.push_back(group.moveChunk(shift, buffer, chunk));
  if (buffer >= 0)
    return true;
  auto position = [&](int64_t rank, int64_t chunk) {
    return isIn ? contract.inPosition(rank, chunk) : contract.outPosition(rank, chunk);
  };
  bool moves = position(contract.ranks - 1, 0) != position(0, 0);
  for (int64_t rank = 0; rank < (moves ? contract.ranks : 1); ++rank)
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      int64_t to = group.moveChunk(shift, whole, position(rank, chunk));
      int64_t image = to - position(rankOf(rank), 0);
      if (image < 0 || image >= chunks || (rank > 0 && map[size_t(chunk)] != image))
        return false;
      if (rank == 0)
        map.push_back(image);
    }
  return true;
}

bool ContractShift::isAllToAll() const {
  int64_t chunks = contract.chunks;
  for (int64_t k = 0; k < int64_t(in.size()); ++k) {
    int64_t inShard = in[size_t(k % chunks)] - rankOf(0) * chunks;
    int64_t image = rankOf(k / chunks) * chunks + inShard;
    if (inShard < 0 || inShard >= chunks || in[size_t(k)] != image || out[size_t(k)] != image)
      return false;
  }
  return true;
}

bool ContractShift::isPermutation() const {
  if (in != out || int64_t(contract.targets.size()) != contract.ranks)
    return false;
  for (int64_t rank = 0; rank < contract.ranks; ++rank) {
    int64_t target = contract.targets[size_t(rank)];
    if (target < 0 || target >= contract.ranks ||
        contract.targets[size_t(rankOf(rank))] != rankOf(target))
      return false;
  }
  return true;
}

bool ContractShift::keepsRows() const {
  using Row = std::tuple<int64_t, int64_t, int64_t, int64_t>;
  std::vector<Row> before, after;
  for (const Contract::Row &row : contract.rows) {
    if (row.outChunk >= int64_t(out.size()) || row.inChunk >= int64_t(in.size()))
      return false;
    before.emplace_back(row.outRank, row.outChunk, row.inRank, row.inChunk);
    after.emplace_back(rankOf(row.outRank), out[size_t(row.outChunk)], rankOf(row.inRank),
                       in[size_t(row.inChunk)]);
  }
  std::sort(before.begin(), before.end());
  std::sort(after.begin(), after.end());
  return before == after;
}

/// Whether the promise to rank g about chunk g k is the promise to rank 0 about k, shifted.
bool ContractShift::keepsPromises() const {
  int64_t chunks = contract.chunks;
  switch (contract.collective) {
  case Collective::AllReduce: return in == out;
  case Collective::AllGather:
    for (int64_t k = 0; k < int64_t(out.size()); ++k)
      if (out[size_t(k)] != rankOf(k / chunks) * chunks + in[size_t(k % chunks)])
        return false;
    return true;
  case Collective::ReduceScatter:
    for (int64_t k = 0; k < int64_t(in.size()); ++k)
      if (in[size_t(k)] != rankOf(k / chunks) * chunks + out[size_t(k % chunks)])
        return false;
    return true;
  case Collective::AllToAll:
  case Collective::AllToAllV: return isAllToAll();
  case Collective::Permute: return isPermutation();
  case Collective::Barrier: return true;
  case Collective::Custom: return keepsRows();
  case Collective::Broadcast:
  case Collective::Reduce:
  case Collective::Gather:
  case Collective::Scatter: return false; // the root is not like the others
  }
  return false;
}

/// Chunks of one length go to chunks of one length, contributions and places alike.
bool ContractShift::keepsLengths() const {
  int64_t chunks = contract.chunks;
  std::vector<int64_t> classes(size_t(chunks), -1);
  std::vector<bool> taken(size_t(chunks), false);
  auto agrees = [&](int64_t from, int64_t to) {
    int64_t &image = classes[size_t(from % chunks)];
    if (image >= 0)
      return image == to % chunks;
    image = to % chunks;
    bool isNew = !taken[size_t(image)];
    taken[size_t(image)] = true;
    return isNew;
  };
  for (size_t k = 0; k < in.size(); ++k)
    if (!agrees(int64_t(k), in[k]))
      return false;
  for (size_t b = 0; b < buffers.size(); ++b)
    for (int64_t k = 0; k < buffers[b].chunks && buffers[b].role != Role::Scratch; ++k)
      if (!agrees(k, group.moveChunk(shift, int32_t(b), k)))
        return false;
  return true;
}

std::string ContractShift::contradiction(bool inPlace) {
  bool known = buildMap(Role::In, in) && buildMap(Role::Out, out);
  if (!known || !keepsPromises())
    return fmt::format("{} changes when the ranks are shifted by {}", contract.str(), shift);
  if (!keepsLengths())
    return fmt::format("chunks of one length differ in length when the ranks are shifted by {}",
                       shift);
  // What gathers and scatters share follows from what they promise.
  bool shares = inPlace && bufferWith(Role::In) >= 0 && bufferWith(Role::Out) >= 0;
  if (shares && contract.collective == Collective::Custom)
    for (size_t k = 0; k < std::min(in.size(), out.size()); ++k)
      if (in[k] != out[k])
        return fmt::format("`in` and `out` do not share the same chunks when the ranks are "
                           "shifted by {}",
                           shift);
  return "";
}

} // namespace

//===----------------------------------------------------------------------===//
// The group
//===----------------------------------------------------------------------===//

int64_t ShiftGroup::numRanks() const { return product(symmetry.ranks); }

std::vector<int64_t> ShiftGroup::generators() const {
  std::vector<int64_t> result;
  int64_t stride = 1;
  for (size_t x = symmetry.ranks.size(); x-- > 0; stride *= symmetry.ranks[x])
    if (symmetry.ranks[x] > 1)
      result.insert(result.begin(), stride);
  return result;
}

std::vector<int64_t> ShiftGroup::coordinates(int64_t rank) const {
  std::vector<int64_t> result(symmetry.ranks.size());
  for (size_t x = result.size(); x-- > 0; rank /= symmetry.ranks[x])
    result[x] = rank % symmetry.ranks[x];
  return result;
}

int64_t ShiftGroup::inverse(int64_t shift) const {
  int64_t result = 0, stride = 1;
  for (size_t x = symmetry.ranks.size(); x-- > 0; shift /= symmetry.ranks[x]) {
    const int64_t extent = symmetry.ranks[x], by = shift % extent;
    result += (by ? extent - by : 0) * stride;
    stride *= extent;
  }
  return result;
}

int64_t ShiftGroup::moveRank(int64_t shift, int64_t rank) const {
  int64_t result = 0, stride = 1;
  for (size_t x = symmetry.ranks.size(); x-- > 0;
       shift /= symmetry.ranks[x], rank /= symmetry.ranks[x]) {
    const int64_t extent = symmetry.ranks[x], at = shift % extent + rank % extent;
    result += (at < extent ? at : at - extent) * stride;
    stride *= extent;
  }
  return result;
}

int64_t ShiftGroup::moveChunk(int64_t shift, int32_t buffer, int64_t chunk) const {
  std::vector<int64_t> by = coordinates(shift);
  const std::vector<ShiftedAxis> &axes = symmetry.buffers[size_t(buffer)];
  int64_t result = 0, stride = 1;
  for (size_t a = axes.size(); a-- > 0; chunk /= axes[a].extent, stride *= axes[a].extent) {
    int64_t index = chunk % axes[a].extent;
    for (size_t x = 0; x < by.size(); ++x)
      index += axes[a].steps[x] * by[x];
    result += floorMod(index, axes[a].extent) * stride;
  }
  return result;
}

bool ShiftGroup::fixes(int64_t shift, const std::vector<ShiftedAxis> &axes) const {
  std::vector<int64_t> by = coordinates(shift);
  return std::all_of(axes.begin(), axes.end(), [&](const ShiftedAxis &axis) {
    int64_t moved = 0;
    for (size_t x = 0; x < by.size(); ++x)
      moved += axis.steps[x] * by[x];
    return moved % axis.extent == 0;
  });
}

bool ShiftGroup::keepsTogether(int32_t buffer, int64_t chunk, int64_t count) const {
  if (count == 1)
    return true;
  // They must lie in one row of the axes, counted from the last, that do not move.
  const std::vector<ShiftedAxis> &axes = symmetry.buffers[size_t(buffer)];
  int64_t row = 1;
  for (size_t a = axes.size(); a-- > 0; row *= axes[a].extent)
    if (std::any_of(axes[a].steps.begin(), axes[a].steps.end(),
                    [&](int64_t step) { return step % axes[a].extent != 0; }))
      break;
  return chunk % row + count <= row;
}

void ShiftGroup::moveRanks(int64_t shift, int64_t low, int64_t high,
                           Multisets::Intervals &out) const {
  moveRanks(coordinates(shift), 0, 0, low, high, out);
}

/// The ranks [low, high), counted from `base`, of the grid of the axes from `axis` on.
void ShiftGroup::moveRanks(const std::vector<int64_t> &shift, size_t axis, int64_t base,
                           int64_t low, int64_t high, Multisets::Intervals &out) const {
  if (low >= high)
    return;
  int64_t row = 1;
  for (size_t x = axis + 1; x < symmetry.ranks.size(); ++x)
    row *= symmetry.ranks[x];
  int64_t extent = symmetry.ranks[axis], by = shift[axis];
  if (low == 0 && high == extent * row) {
    out.emplace_back(base, base + high);
    return;
  }
  auto part = [&](int64_t index, int64_t from, int64_t to) { // of one row
    moveRanks(shift, axis + 1, base + (index + by) % extent * row, from, to, out);
  };
  int64_t first = low / row, last = high / row;
  if (first == last)
    return part(first, low % row, high % row);
  if (low % row != 0)
    part(first++, low % row, row);
  if (high % row != 0)
    part(last, 0, high % row);
  if (first == last)
    return;
  // Whole rows go around together.
  int64_t start = first + by, end = last + by;
  if (start >= extent)
    start -= extent, end -= extent;
  out.emplace_back(base + start * row, base + std::min(end, extent) * row);
  if (end > extent)
    out.emplace_back(base, base + (end - extent) * row);
}

std::string contradiction(const Symmetry &symmetry, const std::vector<Buffer> &buffers,
                          const Contract &contract, bool inPlace) {
  if (std::any_of(symmetry.ranks.begin(), symmetry.ranks.end(),
                  [](int64_t extent) { return extent < 1; }) ||
      product(symmetry.ranks) != contract.ranks)
    return "the rank grid is not that of the contract";
  if (symmetry.buffers.size() != buffers.size())
    return "the buffers are others";
  for (size_t b = 0; b < buffers.size(); ++b)
    if (!isAction(symmetry.buffers[b], symmetry.ranks, buffers[b].chunks))
      return fmt::format("{}: the shifts do not act on its chunks", buffers[b].name);
  for (const Sweep &sweep : symmetry.sweeps)
    if (!isAction(sweep.digits, symmetry.ranks, sweep.trips))
      return "the shifts do not act on the iterations of a loop";
  for (int64_t generator : ShiftGroup(symmetry).generators()) {
    ContractShift shift(symmetry, buffers, contract, generator);
    if (std::string why = shift.contradiction(inPlace); !why.empty())
      return why;
  }
  return "";
}

} // namespace ccl::model
