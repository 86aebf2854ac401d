//===- RollLoops.cpp --------------------------------------------------------===//
//
// A step is a *shape*, which is everything but constants in indices, and the constants. A sequence
// of shapes that repeats, with constants that grow by the same numbers each time, is a loop; its
// shape is that of its body, the trips and the growths, so that loops roll into loops.
//===----------------------------------------------------------------------===//
#include "passes/lowering/RollLoops.h"
#include "dialect/Indexing.h"
#include "passes/Passes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <map>

using namespace mlir;

namespace ccl {
#define GEN_PASS_DEF_CCLROLLLOOPS
#include "passes/Passes.h.inc"

namespace {

/// `rest + constant`, mod `modulus` where that is not 0.
struct Index {
  AffineExpr rest;
  int64_t constant = 0, modulus = 0;
};

/// The extent of a rank variable that counts from 0.
int64_t extentOf(Value operand) {
  auto argument = dyn_cast<BlockArgument>(operand);
  auto loop = argument ? dyn_cast<affine::AffineParallelOp>(argument.getOwner()->getParentOp())
                       : affine::AffineParallelOp();
  auto ranges = loop ? loop.getConstantRanges() : std::nullopt;
  if (!ranges || !loop.getLowerBoundsMap().isConstant() ||
      loop.getSteps()[argument.getArgNumber()] != 1)
    return 0;
  for (int64_t low : loop.getLowerBoundsMap().getConstantResults())
    if (low != 0)
      return 0;
  return (*ranges)[argument.getArgNumber()];
}

Index decode(AffineExpr e, ValueRange operands) {
  Index index{e};
  index.modulus = stripModulus(index.rest);
  // A rank is itself modulo the number of ranks: what is `(r + 0) mod n`.
  if (auto dim = dyn_cast<AffineDimExpr>(e))
    index.modulus = extentOf(operands[dim.getPosition()]);
  index.constant = splitConstant(index.rest);
  return index;
}

/// A step, or a loop of them.
struct Item {
  Operation *op = nullptr; ///< of a step
  std::vector<Item> body;  ///< of a loop
  int64_t trips = 1;
  int32_t shape = 0;
  SmallVector<int64_t> constants; ///< in the first trip
  SmallVector<int64_t> growth;    ///< of a loop: of each constant, a trip
};

/// What a constant of an index becomes: itself, and so much times each loop variable.
struct Term {
  int64_t constant = 0;
  SmallVector<std::pair<Value, int64_t>> loops;
};

class Roller {
public:
  explicit Roller(Block &block) : block(block) {}

  void run() {
    std::vector<Item> run;
    for (Operation &op : llvm::make_early_inc_range(block)) {
      Item item;
      if (describe(op, item)) {
        run.push_back(std::move(item));
        continue;
      }
      rewrite(std::move(run));
      run.clear();
      if (auto loop = dyn_cast<affine::AffineForOp>(op))
        Roller(*loop.getBody()).run();
    }
    rewrite(std::move(run));
  }

private:
  static constexpr size_t longest = 64; ///< steps of a body

  //===--------------------------------------------------------------------===//
  // Shapes
  //===--------------------------------------------------------------------===//

  int32_t intern(std::string key, ArrayRef<int64_t> moduli) {
    auto [it, isNew] = shapes.try_emplace(std::move(key), int32_t(this->moduli.size()));
    if (isNew)
      this->moduli.emplace_back(moduli);
    return it->second;
  }

  /// False: it is no step that could roll.
  bool describe(Operation &op, Item &item) {
    item.op = &op;
    SmallVector<int64_t> found;
    std::string key;
    llvm::raw_string_ostream text(key);
    auto parallel = dyn_cast<affine::AffineParallelOp>(op);
    if (!parallel) {
      if (!describeMove(op, item, found, text))
        return false;
    } else {
      auto ranges = parallel.getConstantRanges();
      if (!ranges || parallel.getNumResults() || !parallel.getLowerBoundsMap().isConstant())
        return false;
      text << parallel.getLowerBoundsMap() << parallel.getUpperBoundsMap();
      llvm::interleaveComma(parallel.getSteps(), text);
      for (Operation &inner : parallel.getBody()->without_terminator())
        if (!describeMove(inner, item, found, text))
          return false;
    }
    item.shape = intern(std::move(text.str()), found);
    return true;
  }

  bool describeMove(Operation &op, Item &item, SmallVectorImpl<int64_t> &found, raw_ostream &text) {
    if (!isa<CopyOp, ReduceOp>(op))
      return false;
    auto describePlace = [&](Value buffer, AffineMap map, ValueRange operands) {
      text << ';' << buffer.getAsOpaquePointer() << ':' << map.getNumDims();
      for (Value operand : operands)
        if (auto argument = dyn_cast<BlockArgument>(operand);
            argument && argument.getOwner()->getParentOp() == op.getParentOp())
          text << " i" << argument.getArgNumber(); // the same in every step
        else
          text << ' ' << operand.getAsOpaquePointer();
      for (AffineExpr result : map.getResults()) {
        Index index = decode(result, operands);
        text << '|' << index.rest << '%' << index.modulus;
        item.constants.push_back(index.constant);
        found.push_back(index.modulus);
      }
    };
    text << op.getName();
    auto describeAll = [&](auto move) {
      describePlace(move.getSrc(), move.getSrcMap(), move.getSrcOperands());
      describePlace(move.getDst(), move.getDstMap(), move.getDstOperands());
    };
    if (auto copy = dyn_cast<CopyOp>(op))
      describeAll(copy);
    else
      describeAll(cast<ReduceOp>(op));
    for (NamedAttribute attribute : op.getAttrs())
      if (attribute.getName() != "srcMap" && attribute.getName() != "dstMap")
        text << ';' << attribute.getName().getValue() << '=' << attribute.getValue();
    return true;
  }

  //===--------------------------------------------------------------------===//
  // Loops
  //===--------------------------------------------------------------------===//

  /// `value` itself where nothing wraps.
  static int64_t around(int64_t value, int64_t modulus) {
    return modulus > 0 ? llvm::mod(value, modulus) : value;
  }
  ArrayRef<int64_t> wraps(const Item &item) const { return moduli[size_t(item.shape)]; }

  /// From the constant `a` to `b`; the shortest way around where indices wrap.
  static int64_t difference(int64_t a, int64_t b, int64_t modulus) {
    const int64_t d = around(b - a, modulus);
    return modulus > 0 && 2 * d > modulus ? d - modulus : d;
  }

  bool differsBy(const Item &a, const Item &b, ArrayRef<int64_t> growth) const {
    ArrayRef<int64_t> wrap = wraps(a);
    for (size_t i = 0; i < growth.size(); ++i)
      if (difference(a.constants[i] + growth[i], b.constants[i], wrap[i]) != 0)
        return false;
    return true;
  }

  /// How often the `period` items from `begin` repeat.
  size_t repeats(ArrayRef<Item> items, size_t begin, size_t period) const {
    std::vector<SmallVector<int64_t>> growth(period);
    size_t at = begin + period;
    for (; at < items.size(); ++at) {
      const Item &before = items[at - period], &item = items[at];
      if (before.shape != item.shape)
        break;
      if (at < begin + 2 * period)
        growth[at - period - begin] = growthOf(before, item);
      else if (!differsBy(before, item, growth[(at - begin) % period]))
        break;
    }
    return (at - begin) / period;
  }

  SmallVector<int64_t> growthOf(const Item &first, const Item &second) const {
    SmallVector<int64_t> growth;
    ArrayRef<int64_t> wrap = wraps(first);
    for (size_t i = 0; i < first.constants.size(); ++i)
      growth.push_back(difference(first.constants[i], second.constants[i], wrap[i]));
    return growth;
  }

  Item makeLoop(ArrayRef<Item> body, ArrayRef<Item> second, size_t trips) {
    Item loop;
    loop.trips = int64_t(trips);
    loop.body.assign(body.begin(), body.end());
    SmallVector<int64_t> wrap;
    std::string key;
    llvm::raw_string_ostream text(key);
    text << trips << '*';
    for (auto [item, next] : llvm::zip_equal(body, second)) {
      loop.constants.append(item.constants);
      loop.growth.append(growthOf(item, next));
      llvm::append_range(wrap, wraps(item));
      text << item.shape << ' ';
    }
    llvm::interleaveComma(loop.growth, text);
    loop.shape = intern(std::move(text.str()), wrap);
    return loop;
  }

  /// The period, at most `most`, whose loop at `begin` takes in most items; 0: none.
  size_t bestPeriod(ArrayRef<Item> items, size_t begin, size_t most, size_t &trips) const {
    size_t best = 0, covered = 0;
    for (size_t period = 1; period <= most && begin + 2 * period <= items.size(); ++period) {
      if (items[begin].shape != items[begin + period].shape)
        continue;
      const size_t n = repeats(items, begin, period);
      if ((n > 2 || (n == 2 && period > 2)) && n * period > covered)
        best = period, trips = n, covered = n * period;
    }
    return best;
  }

  bool rollOnce(std::vector<Item> &items, size_t most) {
    std::vector<Item> rolled;
    bool changed = false;
    for (size_t i = 0; i < items.size();) {
      size_t trips = 0;
      const size_t period = bestPeriod(items, i, most, trips);
      if (!period) {
        rolled.push_back(std::move(items[i++]));
        continue;
      }
      ArrayRef<Item> all(items);
      rolled.push_back(makeLoop(all.slice(i, period), all.slice(i + period, period), trips));
      i += period * trips;
      changed = true;
    }
    items = std::move(rolled);
    return changed;
  }

  //===--------------------------------------------------------------------===//
  // Rewriting
  //===--------------------------------------------------------------------===//

  void rewrite(std::vector<Item> items) {
    if (items.empty())
      return;
    // Bodies of one step first: they are the inner loops of larger ones.
    std::vector<Operation *> old;
    for (const Item &item : items)
      old.push_back(item.op);
    bool any = false;
    for (size_t most : {size_t(1), longest})
      while (rollOnce(items, most))
        any = true;
    if (!any)
      return;
    OpBuilder builder(old.back()->getBlock(), std::next(old.back()->getIterator()));
    for (const Item &item : items) {
      SmallVector<Term> terms;
      for (int64_t constant : item.constants)
        terms.push_back({constant, {}});
      emit(item, terms, builder);
    }
    for (Operation *op : old)
      op->erase();
  }

  /// Where a loop begins, so that constants of what it moves go.
  int64_t firstOf(const Item &loop, ArrayRef<Term> terms) const {
    for (auto [term, growth, modulus] : llvm::zip_equal(terms, loop.growth, wraps(loop))) {
      if (growth == 0 || !term.loops.empty() || term.constant % growth != 0)
        continue;
      const int64_t first = around(term.constant / growth, std::abs(growth) == 1 ? modulus : 0);
      if (first >= 0)
        return first;
    }
    return 0;
  }

  void emit(const Item &item, ArrayRef<Term> terms, OpBuilder &builder) {
    if (item.op)
      return emitStep(item, terms, builder);
    const int64_t first = firstOf(item, terms);
    auto loop =
        builder.create<affine::AffineForOp>(builder.getUnknownLoc(), first, first + item.trips);
    SmallVector<Term> inner(terms);
    for (auto [term, growth, modulus] : llvm::zip_equal(inner, item.growth, wraps(item))) {
      if (growth == 0)
        continue;
      term.constant = around(term.constant - first * growth, modulus);
      term.loops.emplace_back(loop.getInductionVar(), growth);
    }
    OpBuilder body = OpBuilder::atBlockTerminator(loop.getBody());
    ArrayRef<Term> rest = inner;
    for (const Item &part : item.body) {
      emit(part, rest.take_front(part.constants.size()), body);
      rest = rest.drop_front(part.constants.size());
    }
    loop->setLoc(loop.getBody()->front().getLoc());
  }

  void emitStep(const Item &item, ArrayRef<Term> terms, OpBuilder &builder) {
    Operation *clone = builder.clone(*item.op);
    if (auto parallel = dyn_cast<affine::AffineParallelOp>(clone)) {
      for (Operation &inner : parallel.getBody()->without_terminator())
        rewriteMove(inner, terms);
      return;
    }
    rewriteMove(*clone, terms);
  }

  static void rewriteMove(Operation &op, ArrayRef<Term> &terms) {
    auto rewriteBoth = [&](auto move) {
      SmallVector<Value> operands(move.getSrcOperands());
      move.setSrcMap(rewriteMap(move.getSrcMap(), operands, terms));
      move.getSrcOperandsMutable().assign(operands);
      operands.assign(move.getDstOperands().begin(), move.getDstOperands().end());
      move.setDstMap(rewriteMap(move.getDstMap(), operands, terms));
      move.getDstOperandsMutable().assign(operands);
    };
    if (auto copy = dyn_cast<CopyOp>(op))
      rewriteBoth(copy);
    else
      rewriteBoth(cast<ReduceOp>(op));
  }

  /// Takes the terms of its results; loop variables become the last dimensions.
  static AffineMap rewriteMap(AffineMap map, SmallVectorImpl<Value> &operands,
                              ArrayRef<Term> &terms) {
    MLIRContext *context = map.getContext();
    SmallVector<Value> dims(operands.begin(), operands.begin() + map.getNumDims());
    const SmallVector<Value> symbols(operands.begin() + map.getNumDims(), operands.end());
    SmallVector<AffineExpr> results;
    for (AffineExpr result : map.getResults()) {
      const Term &term = terms.front();
      terms = terms.drop_front();
      if (term.loops.empty()) {
        results.push_back(result);
        continue;
      }
      Index index = decode(result, operands);
      AffineExpr sum = index.rest;
      for (auto [variable, growth] : term.loops) {
        auto it = llvm::find(dims, variable);
        sum = sum + getAffineDimExpr(unsigned(it - dims.begin()), context) * growth;
        if (it == dims.end())
          dims.push_back(variable);
      }
      sum = sum + term.constant;
      results.push_back(index.modulus ? sum % index.modulus : sum);
    }
    operands.assign(dims.begin(), dims.end());
    operands.append(symbols);
    return AffineMap::get(unsigned(dims.size()), unsigned(symbols.size()), results, context);
  }

  Block &block;
  std::map<std::string, int32_t> shapes;
  std::vector<SmallVector<int64_t>> moduli; ///< by shape, of each constant
};

struct RollLoops : impl::CclRollLoopsBase<RollLoops> {
  using CclRollLoopsBase::CclRollLoopsBase;
  void runOnOperation() override {
    for (auto algorithm : getOperation().getOps<AlgorithmOp>())
      if (!algorithm.getBody().empty())
        rollLoops(algorithm.getBody().front());
  }
};

} // namespace

void rollLoops(Block &block) { Roller(block).run(); }

} // namespace ccl
