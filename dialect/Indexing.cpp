//===- Indexing.cpp ---------------------------------------------------------===//

#include "dialect/Indexing.h"
#include "dialect/NormalForms.h"

#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ccl {
namespace {

using llvm::divideFloorSigned;
using llvm::mod;

/// A total order that does not depend on addresses: dimensions, symbols, then the rest.
int compare(AffineExpr a, AffineExpr b) {
  if (a == b)
    return 0;
  auto rank = [](AffineExpr e) {
    switch (e.getKind()) {
    case AffineExprKind::DimId: return 0;
    case AffineExprKind::SymbolId: return 1;
    case AffineExprKind::Constant: return 2;
    default: return 3 + int(e.getKind());
    }
  };
  if (rank(a) != rank(b))
    return rank(a) < rank(b) ? -1 : 1;
  auto number = [](int64_t x, int64_t y) { return x < y ? -1 : x > y ? 1 : 0; };
  if (auto d = dyn_cast<AffineDimExpr>(a))
    return number(d.getPosition(), cast<AffineDimExpr>(b).getPosition());
  if (auto s = dyn_cast<AffineSymbolExpr>(a))
    return number(s.getPosition(), cast<AffineSymbolExpr>(b).getPosition());
  if (auto c = dyn_cast<AffineConstantExpr>(a))
    return number(c.getValue(), cast<AffineConstantExpr>(b).getValue());
  auto x = cast<AffineBinaryOpExpr>(a), y = cast<AffineBinaryOpExpr>(b);
  if (int order = compare(x.getLHS(), y.getLHS()))
    return order;
  return compare(x.getRHS(), y.getRHS());
}

void linearForm(AffineExpr e, int64_t factor, LinearForm &out);

AffineExpr normalizeMod(AffineExpr lhs, int64_t c) {
  LinearForm inner, reduced;
  linearForm(lhs, 1, inner);
  // (x mod (k c)) mod c is x mod c: open such terms until none is left.
  for (bool opened = true; opened;) {
    opened = false;
    reduced = LinearForm();
    reduced.constant = inner.constant;
    for (auto &[atom, factor] : inner.terms) {
      auto mod = dyn_cast<AffineBinaryOpExpr>(atom);
      if (mod && mod.getKind() == AffineExprKind::Mod)
        if (auto by = dyn_cast<AffineConstantExpr>(mod.getRHS()); by && by.getValue() % c == 0) {
          linearForm(mod.getLHS(), factor, reduced);
          opened = true;
          continue;
        }
      reduced.add(atom, factor);
    }
    inner = reduced;
  }
  for (auto &term : inner.terms) {
    term.second = mod(term.second, c);
    if (term.second * 2 > c)
      term.second -= c;
  }
  inner.constant = mod(inner.constant, c);
  AffineExpr sum = inner.build(lhs.getContext());
  if (auto known = dyn_cast<AffineConstantExpr>(sum))
    return getAffineConstantExpr(mod(known.getValue(), c), lhs.getContext());
  return sum % c;
}

/// Splits a into c * whole + rest and returns whole + rest floordiv c in `out`.
void normalizeFloorDiv(AffineExpr lhs, int64_t c, int64_t factor, LinearForm &out) {
  LinearForm inner, rest;
  linearForm(lhs, 1, inner);
  for (auto &[atom, k] : inner.terms) {
    if (k % c == 0)
      out.add(atom, factor * (k / c));
    else
      rest.add(atom, k);
  }
  out.constant += factor * divideFloorSigned(inner.constant, c);
  rest.constant = mod(inner.constant, c);
  AffineExpr sum = rest.build(lhs.getContext());
  if (isa<AffineConstantExpr>(sum))
    return; // 0 <= constant < c
  out.add(sum.floorDiv(c), factor);
}

void linearForm(AffineExpr e, int64_t factor, LinearForm &out) {
  if (auto c = dyn_cast<AffineConstantExpr>(e)) {
    out.constant += factor * c.getValue();
    return;
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(e);
  if (!binary)
    return out.add(e, factor);
  AffineExpr l = binary.getLHS(), r = binary.getRHS();
  auto constant = dyn_cast<AffineConstantExpr>(r);
  switch (e.getKind()) {
  case AffineExprKind::Add: linearForm(l, factor, out); return linearForm(r, factor, out);
  case AffineExprKind::Mul:
    if (constant)
      return linearForm(l, factor * constant.getValue(), out);
    if (auto left = dyn_cast<AffineConstantExpr>(l))
      return linearForm(r, factor * left.getValue(), out);
    return out.add(normalizeIndex(l) * normalizeIndex(r), factor);
  case AffineExprKind::Mod:
    if (!constant || constant.getValue() <= 0)
      return out.add(normalizeIndex(l) % normalizeIndex(r), factor);
    if (AffineExpr m = normalizeMod(l, constant.getValue());
        auto known = dyn_cast<AffineConstantExpr>(m))
      out.constant += factor * known.getValue();
    else
      out.add(m, factor);
    return;
  case AffineExprKind::FloorDiv:
    if (!constant || constant.getValue() <= 0)
      return out.add(normalizeIndex(l).floorDiv(normalizeIndex(r)), factor);
    return normalizeFloorDiv(l, constant.getValue(), factor, out);
  default: return out.add(normalizeIndex(l).ceilDiv(normalizeIndex(r)), factor);
  }
}

} // namespace

void LinearForm::add(AffineExpr atom, int64_t factor) {
  for (auto &[e, k] : terms)
    if (e == atom) {
      k += factor;
      return;
    }
  terms.emplace_back(atom, factor);
}

AffineExpr LinearForm::build(MLIRContext *context) {
  llvm::erase_if(terms, [](auto &t) { return t.second == 0; });
  llvm::sort(terms, [](auto &a, auto &b) { // what is added before what is taken off
    bool x = a.second < 0, y = b.second < 0;
    return x != y ? y : compare(a.first, b.first) < 0;
  });
  AffineExpr sum;
  for (auto &[e, k] : terms)
    sum = sum ? sum + e * k : e * k;
  if (!sum)
    return getAffineConstantExpr(constant, context);
  return constant ? sum + constant : sum;
}

LinearForm LinearForm::of(AffineExpr expr) {
  LinearForm form;
  linearForm(expr, 1, form);
  llvm::erase_if(form.terms, [](auto &t) { return t.second == 0; });
  return form;
}

int64_t splitConstant(AffineExpr &expr) {
  AffineExpr rest = getAffineConstantExpr(0, expr.getContext()), last = expr;
  if (auto sum = dyn_cast<AffineBinaryOpExpr>(expr); sum && sum.getKind() == AffineExprKind::Add)
    rest = sum.getLHS(), last = sum.getRHS();
  auto constant = dyn_cast<AffineConstantExpr>(last);
  if (!constant)
    return 0;
  expr = rest;
  return constant.getValue();
}

int64_t stripModulus(AffineExpr &expr) {
  auto mod = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!mod || mod.getKind() != AffineExprKind::Mod)
    return 0;
  auto by = dyn_cast<AffineConstantExpr>(mod.getRHS());
  if (!by)
    return 0;
  expr = mod.getLHS();
  return by.getValue();
}

std::optional<Interval> boundsOf(AffineExpr e, ArrayRef<Interval> ranges) {
  if (auto c = dyn_cast<AffineConstantExpr>(e))
    return Interval(c.getValue(), c.getValue());
  if (auto d = dyn_cast<AffineDimExpr>(e)) {
    if (d.getPosition() >= ranges.size())
      return std::nullopt;
    Interval range = ranges[d.getPosition()];
    return range.first <= range.second ? std::optional(range) : std::nullopt;
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(e);
  if (!binary)
    return std::nullopt;
  auto l = boundsOf(binary.getLHS(), ranges), r = boundsOf(binary.getRHS(), ranges);
  if (!r || (!l && e.getKind() != AffineExprKind::Mod))
    return std::nullopt;
  int64_t c = r->first;
  bool constant = r->first == r->second;
  switch (e.getKind()) {
  case AffineExprKind::Add: return Interval(l->first + r->first, l->second + r->second);
  case AffineExprKind::Mul:
    if (!constant)
      return std::nullopt;
    return c >= 0 ? Interval(l->first * c, l->second * c) : Interval(l->second * c, l->first * c);
  case AffineExprKind::Mod:
    if (!constant || c <= 0)
      return std::nullopt;
    if (l && divideFloorSigned(l->first, c) == divideFloorSigned(l->second, c))
      return Interval(mod(l->first, c), mod(l->second, c));
    return Interval(0, c - 1);
  case AffineExprKind::FloorDiv:
    if (!constant || c <= 0)
      return std::nullopt;
    return Interval(divideFloorSigned(l->first, c), divideFloorSigned(l->second, c));
  default: return std::nullopt;
  }
}

AffineExpr normalizeIndex(AffineExpr expr) {
  if (!isa<AffineBinaryOpExpr>(expr))
    return expr;
  MLIRContext *context = expr.getContext();
  auto *dialect = context->getLoadedDialect<CclDialect>();
  const auto *forms = dialect ? dialect->getRegisteredInterface<NormalForms>() : nullptr;
  AffineExpr form = forms ? forms->lookup(expr) : AffineExpr();
  if (form)
    return form;
  form = LinearForm::of(expr).build(context);
  if (forms)
    forms->note(expr, form);
  return form;
}

AffineMap normalizeIndex(AffineMap map) {
  SmallVector<AffineExpr> results;
  for (AffineExpr e : map.getResults())
    results.push_back(normalizeIndex(e));
  return AffineMap::get(map.getNumDims(), map.getNumSymbols(), results, map.getContext());
}

Interval rangeOf(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return {1, 0};
  Operation *parent = argument.getOwner()->getParentOp();
  if (auto program = dyn_cast<ProgramOp>(parent))
    return {program.getRanks().front(), program.getRanks().back() - 1};
  if (auto loop = dyn_cast<affine::AffineForOp>(parent); loop && loop.hasConstantBounds())
    return {loop.getConstantLowerBound(), loop.getConstantUpperBound() - 1};
  auto parallel = dyn_cast<affine::AffineParallelOp>(parent);
  if (!parallel)
    return {1, 0};
  unsigned i = argument.getArgNumber();
  AffineMap lower = parallel.getLowerBoundMap(i), upper = parallel.getUpperBoundMap(i);
  if (!lower.isSingleConstant() || !upper.isSingleConstant())
    return {1, 0};
  return {lower.getSingleConstantResult(), upper.getSingleConstantResult() - 1};
}

/// Results that are `x mod c` with x in [0, c) become x.
static AffineMap dropIdleModulus(AffineMap map, ArrayRef<Value> operands) {
  SmallVector<Interval> ranges;
  for (Value v : operands.take_front(map.getNumDims()))
    ranges.push_back(rangeOf(v));
  SmallVector<AffineExpr> results;
  for (AffineExpr e : map.getResults()) {
    AffineExpr inner = e;
    if (int64_t modulus = stripModulus(inner))
      if (auto bounds = boundsOf(inner, ranges);
          bounds && bounds->first >= 0 && bounds->second < modulus)
        e = inner;
    results.push_back(e);
  }
  return AffineMap::get(map.getNumDims(), map.getNumSymbols(), results, map.getContext());
}

bool simplifyIndex(AffineMap &map, SmallVectorImpl<Value> &operands) {
  MLIRContext *context = map.getContext();
  SmallVector<AffineExpr> dims, symbols;
  SmallVector<Value> newDims, newSymbols;
  auto number = [](SmallVector<Value> &list, Value v) {
    auto it = llvm::find(list, v);
    unsigned position = it - list.begin();
    if (it == list.end())
      list.push_back(v);
    return position;
  };
  // Two rounds: normalizing may make an operand unused.
  AffineMap before = map;
  SmallVector<Value> old(operands.begin(), operands.end());
  for (int round = 0; round < 2; ++round) {
    dims.clear(), symbols.clear(), newDims.clear(), newSymbols.clear();
    llvm::SmallBitVector used(map.getNumInputs());
    for (AffineExpr result : map.getResults())
      result.walk([&](AffineExpr e) {
        if (auto d = dyn_cast<AffineDimExpr>(e))
          used.set(d.getPosition());
        else if (auto s = dyn_cast<AffineSymbolExpr>(e))
          used.set(map.getNumDims() + s.getPosition());
      });
    for (auto [i, v] : llvm::enumerate(operands)) {
      bool isDim = i < map.getNumDims();
      IntegerAttr constant;
      AffineExpr e = getAffineConstantExpr(0, context);
      if (matchPattern(v, m_Constant(&constant)))
        e = getAffineConstantExpr(constant.getInt(), context);
      else if (used.test(i))
        e = isDim ? getAffineDimExpr(number(newDims, v), context)
                  : getAffineSymbolExpr(number(newSymbols, v), context);
      (isDim ? dims : symbols).push_back(e);
    }
    map =
        normalizeIndex(map.replaceDimsAndSymbols(dims, symbols, newDims.size(), newSymbols.size()));
    operands.assign(newDims.begin(), newDims.end());
    operands.append(newSymbols.begin(), newSymbols.end());
  }
  map = dropIdleModulus(map, llvm::to_vector(operands));
  return map != before || old != ArrayRef<Value>(operands.begin(), operands.end());
}

int64_t evaluateIndex(AffineExpr e, ArrayRef<int64_t> inputs, unsigned numDims) {
  switch (e.getKind()) {
  case AffineExprKind::Constant: return cast<AffineConstantExpr>(e).getValue();
  case AffineExprKind::DimId: return inputs[cast<AffineDimExpr>(e).getPosition()];
  case AffineExprKind::SymbolId: return inputs[numDims + cast<AffineSymbolExpr>(e).getPosition()];
  default: {
    auto binary = cast<AffineBinaryOpExpr>(e);
    int64_t l = evaluateIndex(binary.getLHS(), inputs, numDims);
    int64_t r = evaluateIndex(binary.getRHS(), inputs, numDims);
    switch (e.getKind()) {
    case AffineExprKind::Add: return l + r;
    case AffineExprKind::Mul: return l * r;
    case AffineExprKind::Mod: return r > 0 ? mod(l, r) : -1;
    case AffineExprKind::FloorDiv: return r > 0 ? divideFloorSigned(l, r) : -1;
    default: return r > 0 ? l / r + (l % r > 0) : -1; // ceildiv
    }
  }
  }
}

unsigned IndexSpace::dim(Value value) {
  auto [it, isNew] = numbers.try_emplace(value, order.size());
  if (isNew)
    order.push_back(value);
  return it->second;
}

SmallVector<AffineExpr> IndexSpace::rebase(AffineMap map, ValueRange operands,
                                           const DenseMap<Value, AffineExpr> *replacement) {
  SmallVector<AffineExpr> dims, symbols;
  for (auto [i, v] : llvm::enumerate(operands)) {
    AffineExpr e;
    IntegerAttr constant;
    if (replacement)
      e = replacement->lookup(v);
    if (!e && matchPattern(v, m_Constant(&constant)))
      e = getAffineConstantExpr(constant.getInt(), map.getContext());
    if (!e)
      e = getAffineDimExpr(dim(v), map.getContext());
    (i < map.getNumDims() ? dims : symbols).push_back(e);
  }
  const bool stays = symbols.empty() && llvm::all_of(llvm::enumerate(dims), [](auto e) {
                       auto d = dyn_cast<AffineDimExpr>(e.value());
                       return d && d.getPosition() == e.index();
                     });
  SmallVector<AffineExpr> results;
  for (AffineExpr e : map.getResults())
    results.push_back(normalizeIndex(stays ? e : e.replaceDimsAndSymbols(dims, symbols)));
  return results;
}

AffineMap makeMap(ArrayRef<AffineExpr> exprs, ArrayRef<Value> space,
                  SmallVectorImpl<Value> &operands, MLIRContext *context) {
  // Values that are not used may be gone from the IR already: they are not looked at.
  SmallVector<AffineExpr> renumber(space.size(), getAffineConstantExpr(0, context));
  llvm::SmallBitVector used(space.size());
  for (AffineExpr result : exprs)
    result.walk([&](AffineExpr e) {
      if (auto d = dyn_cast<AffineDimExpr>(e))
        used.set(d.getPosition());
    });
  operands.clear();
  for (unsigned i : used.set_bits()) {
    renumber[i] = getAffineDimExpr(operands.size(), context);
    operands.push_back(space[i]);
  }
  SmallVector<AffineExpr> results;
  for (AffineExpr e : exprs)
    results.push_back(e.replaceDimsAndSymbols(renumber, {}));
  AffineMap map = AffineMap::get(operands.size(), 0, results, context);
  simplifyIndex(map, operands);
  return map;
}

int64_t linearize(ArrayRef<int64_t> coordinates, ArrayRef<int64_t> shape) {
  int64_t position = 0;
  for (auto [c, extent] : llvm::zip_equal(coordinates, shape)) {
    if (c < 0 || c >= extent)
      return -1;
    position = position * extent + c;
  }
  return position;
}

AffineExpr linearize(ArrayRef<AffineExpr> coordinates, ArrayRef<int64_t> shape) {
  AffineExpr position;
  for (auto [c, extent] : llvm::zip_equal(coordinates, shape))
    position = position ? position * extent + c : c;
  return normalizeIndex(position);
}

SmallVector<int64_t> delinearize(int64_t position, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> coordinates(shape.size());
  for (size_t i = shape.size(); i-- > 0; position /= shape[i])
    coordinates[i] = position % shape[i];
  return coordinates;
}

SmallVector<AffineExpr> delinearize(AffineExpr position, ArrayRef<int64_t> shape) {
  SmallVector<AffineExpr> coordinates;
  int64_t stride = product(shape);
  for (int64_t extent : shape) {
    stride /= extent;
    AffineExpr c = position.floorDiv(stride);
    coordinates.push_back(normalizeIndex(coordinates.empty() ? c : c % extent));
  }
  return coordinates;
}

int64_t product(ArrayRef<int64_t> shape) {
  int64_t result = 1;
  for (int64_t extent : shape)
    result *= extent;
  return result;
}

LogicalResult verifyIndexOperands(Operation *op, AffineMap map, ValueRange operands) {
  Region *scope = affine::getAffineScope(op);
  if (map.getNumInputs() != operands.size())
    return op->emitOpError() << "has " << operands.size() << " index operands, its map takes "
                             << map.getNumInputs();
  for (auto [i, v] : llvm::enumerate(operands)) {
    bool isDim = i < map.getNumDims();
    if (isDim ? affine::isValidDim(v, scope) : affine::isValidSymbol(v, scope))
      continue;
    return op->emitOpError() << "index operand " << i << " is no affine "
                             << (isDim ? "dimension" : "symbol")
                             << ": use loop variables, size parameters and constants";
  }
  return success();
}

} // namespace ccl
