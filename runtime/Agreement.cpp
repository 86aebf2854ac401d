//===- Agreement.cpp --------------------------------------------------------===//
#include "runtime/Agreement.h"

#include <fmt/format.h>

namespace ccl {
namespace {

template <typename A, typename B>
std::string sentence(int64_t first, const A &firstValue, int64_t second, const B &secondValue,
                     std::string_view what) {
  return fmt::format("ranks {} and {} disagree on the {}: {} and {}", first, second, what,
                     firstValue, secondValue);
}

/// What a program is, from what a caller means down to what follows from it.
std::string compareDescriptions(int64_t first, const Announcement &a, int64_t second,
                                const Announcement &b) {
  if (a.collective != b.collective)
    return sentence(first, name(a.collective), second, name(b.collective), "collective");
  if (a.reduction != b.reduction)
    return sentence(first, name(a.reduction), second, name(b.reduction), "reduction");
  if (a.type != b.type)
    return sentence(first, name(a.type), second, name(b.type), "element type");
  if (a.root != b.root)
    return sentence(first, a.root, second, b.root, "root");
  return sentence(first, fmt::format("{} (hash {})", a.name, a.hash), second,
                  fmt::format("{} (hash {})", b.name, b.hash), "program");
}

std::optional<std::string> compareLaunches(int64_t first, const Announcement &a, int64_t second,
                                           const Announcement &b) {
  if (a.program != b.program)
    return compareDescriptions(first, a, second, b);
  if ((a.uneven != 0) != (b.uneven != 0))
    return sentence(first, a.uneven ? "uneven" : "even", second, b.uneven ? "uneven" : "even",
                    "kind of counts");
  if (a.count != b.count)
    return sentence(first, a.count, second, b.count, a.uneven ? "longest count" : "count");
  if (a.uneven != b.uneven)
    return fmt::format("ranks {} and {} disagree on the counts of the shards", first, second);
  if (a.form != b.form && a.form != Form::Either && b.form != Form::Either)
    return sentence(first, name(a.form), second, name(b.form), "form");
  if (a.microBatches != b.microBatches)
    return sentence(first, a.microBatches, second, b.microBatches, "number of micro-batches");
  return std::nullopt;
}

std::optional<std::string> compare(int64_t first, const Announcement &a, int64_t second,
                                   const Announcement &b) {
  if (a.operation != b.operation)
    return sentence(first, name(a.operation), second, name(b.operation), "operation");
  if (a.operation == Operation::Counts && a.program != b.program)
    return compareDescriptions(first, a, second, b);
  if (a.operation == Operation::Launch)
    return compareLaunches(first, a, second, b);
  if (a.operation == Operation::Allocate && a.words[0] != b.words[0])
    return sentence(first, a.words[0], second, b.words[0], "bytes of the allocation");
  return std::nullopt;
}

} // namespace

std::string_view name(Form form) {
  switch (form) {
  case Form::Disjoint: return "out of place";
  case Form::InPlace: return "in place";
  case Form::Either: return "either";
  }
  return "?";
}

std::string_view name(Operation operation) {
  switch (operation) {
  case Operation::None: return "none";
  case Operation::Launch: return "launch";
  case Operation::Counts: return "uneven all_to_all";
  case Operation::Allocate: return "allocate";
  case Operation::Exchange: return "exchange";
  case Operation::Split: return "split";
  case Operation::Publish: return "second step of split";
  case Operation::MicroBatch: return "next micro-batch";
  case Operation::Exit: return "end of launch";
  }
  return "?";
}

uint64_t fingerprint(std::string_view text) {
  uint64_t hash = 14695981039346656037ull; // FNV-1a
  for (unsigned char c : text)
    hash = (hash ^ c) * 1099511628211ull;
  return hash | 1; // 0 is taken: none
}

Announcement describe(const Plan &plan) {
  Announcement announcement;
  announcement.program =
      fingerprint(fmt::format("{} {} {} {} {}", plan.hash, plan.program, plan.contract.str(),
                              plan.contract.root, name(plan.type)));
  announcement.collective = plan.contract.collective;
  announcement.reduction = plan.contract.reduction;
  announcement.type = plan.type;
  announcement.root = plan.contract.root;
  copyText(announcement.name, plan.program);
  copyText(announcement.hash, plan.hash);
  return announcement;
}

std::optional<std::string> findDisagreement(const std::vector<const Announcement *> &all) {
  // Each with rank 0, and forms with the first rank whose pointers tell one.
  size_t formOwner = 0;
  while (formOwner + 1 < all.size() && all[formOwner]->form == Form::Either)
    ++formOwner;
  for (size_t r = 1; r < all.size(); ++r) {
    if (auto text = compare(0, *all[0], int64_t(r), *all[r]))
      return text;
    if (r > formOwner)
      if (auto text = compare(int64_t(formOwner), *all[formOwner], int64_t(r), *all[r]))
        return text;
  }
  return std::nullopt;
}

} // namespace ccl
