//===- IndexForm.cpp --------------------------------------------------------===//
#include "codegen/cuda/IndexForm.h"

#include "codegen/cuda/IndexText.h"

#include <fmt/format.h>

using namespace mlir;

namespace ccl::cuda {

namespace {

/// A sum of multiples of values, and what it lies between if that is known.
struct Sum {
  int64_t ofRank = 0, plus = 0;
  llvm::SmallVector<std::pair<std::string, int64_t>, 4> others;
  std::optional<std::pair<int64_t, int64_t>> range = std::pair<int64_t, int64_t>(0, 0);
};

class Summation {
public:
  Summation(unsigned numDims, ArrayRef<IndexOperand> operands)
      : numDims(numDims), operands(operands) {
    for (const IndexOperand &operand : operands)
      texts.push_back(operand.text);
  }

  Sum of(AffineExpr expr) {
    sum = Sum();
    add(expr, 1);
    return sum;
  }

private:
  using Range = std::optional<std::pair<int64_t, int64_t>>;
  void add(AffineExpr expr, int64_t times);
  void addValue(const std::string &text, int64_t times, Range range);
  void widen(int64_t times, Range range);
  const IndexOperand *operandOf(AffineExpr expr) const;

  unsigned numDims;
  ArrayRef<IndexOperand> operands;
  llvm::SmallVector<std::string> texts;
  Sum sum;
};

} // namespace

const IndexOperand *Summation::operandOf(AffineExpr expr) const {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return &operands[dim.getPosition()];
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return &operands[numDims + symbol.getPosition()];
  return nullptr;
}

void Summation::widen(int64_t times, Range range) {
  if (!range)
    sum.range.reset();
  if (!sum.range)
    return;
  const int64_t one = times * range->first, other = times * range->second;
  sum.range->first += std::min(one, other);
  sum.range->second += std::max(one, other);
}

void Summation::addValue(const std::string &text, int64_t times, Range range) {
  widen(times, range);
  for (auto &[known, factor] : sum.others)
    if (known == text) {
      factor += times;
      return;
    }
  sum.others.push_back({text, times});
}

void Summation::add(AffineExpr expr, int64_t times) {
  auto addConstant = [&](int64_t value) {
    sum.plus += times * value;
    widen(times, Range({value, value}));
  };
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return addConstant(constant.getValue());
  if (const IndexOperand *operand = operandOf(expr)) {
    if (operand->constant)
      return addConstant(*operand->constant);
    if (!operand->isRank)
      return addValue(operand->text, times, operand->range);
    sum.ofRank += times;
    return widen(times, operand->range);
  }
  auto binary = cast<AffineBinaryOpExpr>(expr);
  if (expr.getKind() == AffineExprKind::Add) {
    add(binary.getLHS(), times);
    return add(binary.getRHS(), times);
  }
  auto constant = dyn_cast<AffineConstantExpr>(binary.getRHS());
  if (expr.getKind() == AffineExprKind::Mul && constant)
    return add(binary.getLHS(), times * constant.getValue());
  const bool isMod = expr.getKind() == AffineExprKind::Mod && constant;
  addValue(printIndex(expr, numDims, texts), times,
           isMod ? Range({0, constant.getValue() - 1}) : Range());
}

/// "me * 2 - x + 3".
static std::string printSum(const Sum &sum, ArrayRef<std::string> names) {
  std::string text;
  auto add = [&](const std::string &name, int64_t times) {
    if (times == 0)
      return;
    const int64_t size = std::abs(times);
    const std::string term = size == 1 ? name : fmt::format("{} * {}", name, size);
    text += text.empty() ? (times < 0 ? fmt::format("{} * {}", name, times) : term)
                         : (times < 0 ? " - " : " + ") + term;
  };
  add("me", sum.ofRank);
  for (auto [other, name] : llvm::zip_equal(sum.others, names))
    add(name, other.second);
  if (text.empty())
    return fmt::format("{}", sum.plus);
  if (sum.plus != 0)
    text += fmt::format(" {} {}", sum.plus < 0 ? "-" : "+", std::abs(sum.plus));
  return text;
}

std::optional<std::string> IndexForm::nameOf(const std::string &value) {
  constexpr const char *names[] = {"x", "y"};
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] == value)
      return names[i];
  // Of values that depend on the induction variable there is one for every row.
  if (values.size() == std::size(names) ||
      (!induction.empty() && value.find(induction) != value.npos))
    return std::nullopt;
  values.push_back(value);
  return names[values.size() - 1];
}

std::optional<std::string> IndexForm::print(AffineExpr expr, unsigned numDims,
                                            ArrayRef<IndexOperand> operands) {
  constexpr int64_t most = int64_t(1) << 30;
  const auto before = values;
  auto printed = [&](AffineExpr part, int64_t modulus) -> std::optional<std::string> {
    Sum sum = Summation(numDims, operands).of(part);
    if (modulus != 0) {
      // Devices reduce what is not negative.
      if (!sum.range)
        return std::nullopt;
      const int64_t lowest = sum.range->first;
      const int64_t more = lowest < 0 ? (-lowest + modulus - 1) / modulus * modulus : 0;
      sum.plus += more;
      if (lowest + more >= 0 && (sum.range->second + more) >= 2 * most / modulus)
        return std::nullopt;
    }
    llvm::SmallVector<std::string> names;
    for (auto &[value, times] : sum.others) {
      std::optional<std::string> name = nameOf(value);
      if (!name || std::abs(times) > most)
        return std::nullopt;
      names.push_back(*name);
    }
    // More than one value for an index is better said by code.
    if (values.size() > before.size() + 1 || std::abs(sum.plus) > most ||
        std::abs(sum.ofRank) > most)
      return std::nullopt;
    const std::string text = printSum(sum, names);
    return modulus == 0 ? text : fmt::format("mod({}, {})", text, modulus);
  };
  std::optional<std::string> text;
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  auto modulus = binary && expr.getKind() == AffineExprKind::Mod
                     ? dyn_cast<AffineConstantExpr>(binary.getRHS())
                     : AffineConstantExpr();
  text = modulus ? printed(binary.getLHS(), modulus.getValue()) : printed(expr, 0);
  if (text)
    return text;
  values = before;
  llvm::SmallVector<std::string> texts;
  for (const IndexOperand &operand : operands)
    texts.push_back(operand.text);
  return nameOf(printIndex(expr, numDims, texts));
}

std::string IndexForm::arguments() const {
  std::string text;
  for (const std::string &value : ArrayRef(values).drop_front(induction.empty() ? 0 : 1))
    text += ", " + value;
  return text;
}

} // namespace ccl::cuda
