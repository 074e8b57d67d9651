// Of sums and the like the op is repeated; of an arg_reduce the comparison, with ties by index.
#include "compiler/codegen/cuda/rows/RowsCombine.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

bool combines(Operation *op) {
  return isa<arith::AddFOp, arith::MulFOp, arith::MaximumFOp, arith::MinimumFOp, arith::AddIOp,
             arith::MulIOp, arith::MaxSIOp, arith::MinSIOp, arith::MaxUIOp, arith::MinUIOp,
             arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op);
}

/// The comparison of an element with the best so far, under the logic that decides.
Operation *findComparison(Value decision, Value best) {
  Operation *op = decision.getDefiningOp();
  if (isa_and_nonnull<arith::AndIOp, arith::OrIOp>(op)) {
    Operation *left = findComparison(op->getOperand(0), best);
    return left ? left : findComparison(op->getOperand(1), best);
  }
  if (isa_and_nonnull<arith::CmpFOp, arith::CmpIOp>(op) && op->getOperand(1) == best &&
      op->getOperand(0) != best) {
    return op;
  }
  return nullptr;
}

} // namespace

std::optional<Combiner> Combiner::of(linalg::GenericOp op) {
  Block &body = op.getRegion().front();
  Operation *yield = body.getTerminator();
  Combiner result;
  if (op.getNumResults() == 1) {
    BlockArgument accumulator = op.getRegionOutputArgs()[0];
    Operation *last = yield->getOperand(0).getDefiningOp();
    bool isKnown = last && combines(last) && accumulator.hasOneUse() &&
                   llvm::is_contained(last->getOperands(), accumulator);
    result.single = last;
    return isKnown ? std::optional(result) : std::nullopt;
  }
  if (op.getNumResults() != 2) {
    return std::nullopt;
  }
  arith::SelectOp value = yield->getOperand(0).getDefiningOp<arith::SelectOp>();
  arith::SelectOp index = yield->getOperand(1).getDefiningOp<arith::SelectOp>();
  Value best = op.getRegionOutputArgs()[0];
  if (!value || !index || value.getCondition() != index.getCondition() ||
      value.getFalseValue() != best || index.getFalseValue() != op.getRegionOutputArgs()[1]) {
    return std::nullopt;
  }
  result.comparison = findComparison(value.getCondition(), best);
  return result.comparison ? std::optional(result) : std::nullopt;
}

namespace {

struct Best {
  Value value, index;
};

/// Whether `b` is taken rather than `a`: strictly better, or equal and with the index that is asked
/// for. A NaN is better than any number, and of two the one whose index is asked for.
Value isTaken(OpBuilder &builder, Location location, arith::CmpFOp comparison, Best a, Best b) {
  using P = arith::CmpFPredicate;
  P given = comparison.getPredicate();
  bool isLargest = given == P::UGT || given == P::UGE;
  bool isLast = given == P::UGE || given == P::ULE;
  auto compare = [&](P predicate, Value x, Value y) -> Value {
    return arith::CmpFOp::create(builder, location, predicate, x, y);
  };
  auto order = [&](arith::CmpIPredicate predicate) -> Value {
    return arith::CmpIOp::create(builder, location, predicate, b.index, a.index);
  };
  Value first = order(arith::CmpIPredicate::slt);
  Value wanted = isLast ? order(arith::CmpIPredicate::sgt) : first;
  Value better = compare(isLargest ? P::UGT : P::ULT, b.value, a.value);
  Value ties = arith::AndIOp::create(builder, location, compare(P::OEQ, b.value, a.value), wanted);
  Value taken = arith::OrIOp::create(builder, location, better, ties);
  Value bothNan =
      arith::AndIOp::create(builder, location, compare(P::UNO, b.value, b.value), wanted);
  return arith::SelectOp::create(builder, location, compare(P::ORD, a.value, a.value), taken,
                                 bothNan);
}

Value isTaken(OpBuilder &builder, Location location, arith::CmpIOp comparison, Best a, Best b) {
  using P = arith::CmpIPredicate;
  P given = comparison.getPredicate();
  bool isLast = given == P::uge || given == P::ule || given == P::sge || given == P::sle;
  P strict = given == P::uge   ? P::ugt
             : given == P::ule ? P::ult
             : given == P::sge ? P::sgt
             : given == P::sle ? P::slt
                               : given;
  Value better = arith::CmpIOp::create(builder, location, strict, b.value, a.value);
  Value equal = arith::CmpIOp::create(builder, location, P::eq, b.value, a.value);
  Value wanted =
      arith::CmpIOp::create(builder, location, isLast ? P::sgt : P::slt, b.index, a.index);
  Value ties = arith::AndIOp::create(builder, location, equal, wanted);
  return arith::OrIOp::create(builder, location, better, ties);
}

} // namespace

Accumulators Combiner::combine(OpBuilder &builder, Location location, ValueRange a,
                               ValueRange b) const {
  if (single) {
    // The order is kept: the accumulator may stand on either side.
    IRMapping mapping;
    mapping.map(single->getOperand(0), a[0]);
    mapping.map(single->getOperand(1), b[0]);
    return {builder.clone(*single, mapping)->getResult(0)};
  }
  Best first{a[0], a[1]}, second{b[0], b[1]};
  arith::CmpFOp floats = dyn_cast<arith::CmpFOp>(comparison);
  Value taken = floats ? isTaken(builder, location, floats, first, second)
                       : isTaken(builder, location, cast<arith::CmpIOp>(comparison), first, second);
  return {arith::SelectOp::create(builder, location, taken, b[0], a[0]),
          arith::SelectOp::create(builder, location, taken, b[1], a[1])};
}

Accumulators Combiner::combine(OpBuilder &builder, Location location,
                               SmallVector<Accumulators> all) const {
  while (all.size() > 1) {
    SmallVector<Accumulators> half;
    for (size_t i = 0; i + 1 < all.size(); i += 2) {
      half.push_back(combine(builder, location, all[i], all[i + 1]));
    }
    if (all.size() % 2 == 1) {
      half.push_back(all.back());
    }
    all = std::move(half);
  }
  return all.front();
}

Accumulators Combiner::start(OpBuilder &builder, Location location,
                             const Accumulators &neutral) const {
  if (!isa_and_nonnull<arith::AddFOp>(single)) {
    return neutral;
  }
  // 0 + x is not x for -0; -0 + x always is.
  FloatAttr zero = builder.getFloatAttr(neutral[0].getType(), -0.0);
  return {arith::ConstantOp::create(builder, location, zero)};
}

} // namespace tenon::codegen::cuda
