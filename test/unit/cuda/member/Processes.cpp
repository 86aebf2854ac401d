//===- Processes.cpp --------------------------------------------------------===//
#include "test/unit/cuda/member/Processes.h"

#include "runtime/bootstrap/Star.h"

#include <filesystem>
#include <fstream>

using namespace ccl::cuda;

namespace ccl::test {

std::string Process::run(const Program &program, const CudaMemberLaunch &launch) {
  std::string error = text(member->launch(program, launch));
  return error.empty() ? text(member->synchronize()) : error;
}

void Process::fill(int32_t *in, int64_t inElements, int32_t *out, int64_t outElements,
                   int32_t seed) const {
  for (int64_t i = 0; i < outElements; ++i)
    out[i] = -1;
  for (int64_t i = 0; i < inElements; ++i)
    in[i] = Ranks::value(seed, rank, i);
}

int64_t Process::wrongSums(const int32_t *out, int32_t seed, int64_t count) const {
  int64_t wrong = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t sum = 0;
    for (int64_t r = 0; r < ranks; ++r)
      sum += uint32_t(Ranks::value(seed, r, i));
    wrong += out[i] != int32_t(sum);
  }
  return wrong;
}

int64_t Process::wrongGathers(const int32_t *out, int32_t seed, int64_t count) const {
  int64_t wrong = 0;
  for (int64_t r = 0; r < ranks; ++r)
    for (int64_t i = 0; i < count; ++i)
      wrong += out[r * count + i] != Ranks::value(seed, r, i);
  return wrong;
}

void Process::expect(bool isSum, const int32_t *out, int32_t seed, int64_t count,
                     std::string_view what) {
  const int64_t wrong = isSum ? wrongSums(out, seed, count) : wrongGathers(out, seed, count);
  complaint.unless(wrong == 0, "{}, count {}, seed {}: {} elements are wrong", what, count, seed,
                   wrong);
}

int64_t countMappings() {
  std::ifstream maps("/proc/self/maps");
  int64_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("memfd:ccl") != std::string::npos;
  return count;
}

/// What they lead to.
static std::string listDescriptors() {
  std::string text;
  for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    text += std::filesystem::read_symlink(entry.path(), ignored).string() + " ";
  }
  return text;
}

static std::string runRank(Process &process, std::vector<int> sockets, const Body &body,
                           const CudaGroupOptions &options) {
  JoinOptions join;
  join.rank = process.rank;
  join.ranks = process.ranks;
  join.sockets = std::move(sockets);
  join.timeout = Milliseconds(20000);
  // What the driver keeps is no communicator's.
  const PrimaryContext context = llvm::cantFail(PrimaryContext::retain(shim(), process.device()));
  const Buffer first(shim(), process.device(), 1); // makes its heap
  const int64_t mappings = countMappings();
  const size_t free = freeBytes();
  const int descriptors = countDescriptors() - int(join.sockets.size());
  auto host = Member::join(join);
  if (!host)
    return llvm::toString(host.takeError());
  auto member =
      CudaMember::join(shim(), std::move(*host), process.device(), options, Milliseconds(20000));
  if (!member)
    return llvm::toString(member.takeError());
  process.member = std::move(*member);
  body(process);
  process.member.reset();
  process.complaint.unless(countDescriptors() == descriptors, "{} descriptors, {} are left: {}",
                           descriptors, countDescriptors(), listDescriptors());
  process.complaint.unless(countMappings() == mappings, "{} mappings, {} are left", mappings,
                           countMappings());
  process.complaint.unless(freeBytes() == free, "{} free bytes, {} are left", free, freeBytes());
  return process.complaint.text;
}

Processes::Processes(int64_t ranks, const Body &body, CudaGroupOptions options) {
  bootstrap::Star star = llvm::cantFail(bootstrap::Star::make(ranks));
  for (int64_t r = 0; r < ranks; ++r)
    children.emplace_back([&] {
      Process process{r, ranks, nullptr};
      return runRank(process, star.keep(r), body, options);
    });
}

std::vector<std::string> Processes::texts() {
  std::vector<std::string> all;
  for (Child &child : children) {
    std::string text = child.text();
    if (const int status = child.status(); status != 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : "; ",
                          status > 0 ? "exit status" : "ended by signal", std::abs(status));
    all.push_back(std::move(text));
  }
  return all;
}

void Processes::check() {
  const std::vector<std::string> all = texts();
  for (size_t r = 0; r < all.size(); ++r) {
    CAPTURE(r);
    CHECK(all[r] == "");
  }
}

} // namespace ccl::test
