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

/// From what a caller means down to what follows from it.
std::optional<std::string> compare(int64_t first, const Announcement &a, int64_t second,
                                   const Announcement &b) {
  const Plan &p = a.program->plan(), &q = b.program->plan();
  if (&p != &q) {
    if (p.contract.collective != q.contract.collective)
      return sentence(first, name(p.contract.collective), second, name(q.contract.collective),
                      "collective");
    if (p.contract.reduction != q.contract.reduction)
      return sentence(first, name(p.contract.reduction), second, name(q.contract.reduction),
                      "reduction");
    if (p.type != q.type)
      return sentence(first, name(p.type), second, name(q.type), "element type");
    if (p.contract.root != q.contract.root)
      return sentence(first, p.contract.root, second, q.contract.root, "root");
    if (p.hash != q.hash)
      return sentence(first, fmt::format("{} (hash {})", p.program, p.hash), second,
                      fmt::format("{} (hash {})", q.program, q.hash), "program");
  }
  if (a.count != b.count)
    return sentence(first, a.count, second, b.count, "count");
  if (a.form != b.form && a.form != Form::Either && b.form != Form::Either)
    return sentence(first, name(a.form), second, name(b.form), "form");
  if (a.microBatches != b.microBatches)
    return sentence(first, a.microBatches, second, b.microBatches, "number of micro-batches");
  return std::nullopt;
}

} // namespace

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
