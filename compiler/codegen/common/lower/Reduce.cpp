// The reduction that many lowerings share, and the ops that are one reduction: reduce, arg_reduce,
// cumsum. Relies on tile-and-fuse to bring the passes of one row together.
#include "compiler/codegen/common/lower/Reduce.h"

#include "compiler/codegen/common/lower/Compute.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/common/region/Failures.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/SmallBitVector.h"

#include <limits>

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {

Type accumulatorType(Type element) {
  bool isNarrow = isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
  return isNarrow ? Type(Float32Type::get(element.getContext())) : storageType(element);
}

Value widen(OpBuilder &builder, Location location, Value value) {
  Type type = accumulatorType(value.getType());
  return type == value.getType() ? value : widenStored(builder, location, type, value);
}

Value narrow(OpBuilder &builder, Location location, Value value, Type storage) {
  return value.getType() == storage ? value : roundForStorage(builder, location, storage, value);
}

Value combineSum(OpBuilder &builder, Location location, Value a, Value b) {
  if (isa<FloatType>(a.getType())) {
    return arith::AddFOp::create(builder, location, a, b);
  }
  return arith::AddIOp::create(builder, location, a, b);
}

Value combineProduct(OpBuilder &b, Location location, Value a, Value x) {
  return isa<FloatType>(a.getType()) ? Value(arith::MulFOp::create(b, location, a, x))
                                     : Value(arith::MulIOp::create(b, location, a, x));
}

Value combineExtreme(OpBuilder &b, Location location, Type element, bool largest, Value a,
                     Value x) {
  if (isa<FloatType>(a.getType())) {
    // A NaN is kept, but which zero is free: half the instructions on x86, which also asks the
    // first operand whether it is NaN. That of the accumulator would wait for the step before.
    constexpr arith::FastMathFlags kAnyZero = arith::FastMathFlags::nsz;
    return largest ? Value(arith::MaximumFOp::create(b, location, x, a, kAnyZero))
                   : Value(arith::MinimumFOp::create(b, location, x, a, kAnyZero));
  }
  if (element.isUnsignedInteger() || element.isInteger(1)) {
    return largest ? Value(arith::MaxUIOp::create(b, location, a, x))
                   : Value(arith::MinUIOp::create(b, location, a, x));
  }
  return largest ? Value(arith::MaxSIOp::create(b, location, a, x))
                 : Value(arith::MinSIOp::create(b, location, a, x));
}

namespace {

/// What a reduction keeps of its loops: the dims of its result, and how they come from the loops.
struct KeptLoops {
  Dims dims;
  AffineMap map;
  SmallVector<unsigned> reductions; ///< the other loops
};

KeptLoops keptLoops(Body &body, ArrayRef<AffineExpr> dims, const llvm::SmallBitVector &reduced) {
  KeptLoops kept;
  SmallVector<AffineExpr> loops;
  for (unsigned i = 0; i < dims.size(); ++i) {
    if (reduced[i]) {
      kept.reductions.push_back(i);
      continue;
    }
    kept.dims.push_back(dims[i]);
    loops.push_back(body.loop(i));
  }
  kept.map = AffineMap::get(dims.size(), 0, loops, body.builder.getContext());
  return kept;
}

} // namespace

Value reduce(Lowering &lowering, ArrayRef<AffineExpr> dims, const llvm::SmallBitVector &reduced,
             TypedAttr init, ElementSource element, CombineFn combine) {
  Body body(lowering, dims, init.getType());
  KeptLoops kept = keptLoops(body, dims, reduced);
  Value x = element(body, body.loops());
  if (!x) {
    return {};
  }
  Value combined = combine(body.builder, lowering.location, body.accumulator(0), x);
  Value start = lowering.filled(kept.dims, init);
  return body.finish(combined, start, kept.map, kept.reductions).getResult(0);
}

Value wideAt(Body &body, Value value, ArrayRef<AffineExpr> indices) {
  Value x = body.at(value, indices);
  return x ? widen(body.builder, body.lowering.location, x) : x;
}

Value compute(Lowering &lowering, ArrayRef<AffineExpr> dims, Type storage, ElementSource element) {
  Body body(lowering, dims);
  Value x = element(body, body.loops());
  if (!x) {
    return {};
  }
  Value stored = narrow(body.builder, lowering.location, x, storage);
  return body
      .finish(stored, lowering.empty(dims, storage),
              lowering.builder.getMultiDimIdentityMap(dims.size()))
      .getResult(0);
}

TypedAttr numberOf(Lowering &lowering, Type type, double value) {
  if (isa<FloatType>(type)) {
    return lowering.builder.getFloatAttr(type, value);
  }
  return lowering.builder.getIntegerAttr(type, static_cast<int64_t>(value));
}

TypedAttr extremeOf(Lowering &lowering, Type element, bool largest) {
  Type storage = accumulatorType(element);
  if (isa<FloatType>(storage)) {
    double infinity = std::numeric_limits<double>::infinity();
    return lowering.builder.getFloatAttr(storage, largest ? infinity : -infinity);
  }
  unsigned width = storage.getIntOrFloatBitWidth();
  bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  APInt value = isUnsigned
                    ? (largest ? APInt::getMaxValue(width) : APInt::getZero(width))
                    : (largest ? APInt::getSignedMaxValue(width) : APInt::getSignedMinValue(width));
  return lowering.builder.getIntegerAttr(storage, value);
}

/// The indices into a reduction's result.
SmallVector<AffineExpr> keptIndices(ArrayRef<AffineExpr> indices,
                                    const llvm::SmallBitVector &reduced) {
  SmallVector<AffineExpr> result;
  for (auto [i, index] : llvm::enumerate(indices)) {
    if (!reduced[i]) {
      result.push_back(index);
    }
  }
  return result;
}

AffineExpr reducedSize(const Lowering &lowering, ArrayRef<AffineExpr> dims,
                       const llvm::SmallBitVector &reduced) {
  Dims inner;
  for (unsigned i : reduced.set_bits()) {
    inner.push_back(dims[i]);
  }
  return elementCount(lowering.builder.getContext(), inner);
}

Value reducedCount(Body &body, ArrayRef<AffineExpr> dims, const llvm::SmallBitVector &reduced,
                   Type type) {
  Value index = body.index(reducedSize(body.lowering, dims, reduced));
  Value wide = arith::IndexCastOp::create(body.builder, body.lowering.location,
                                          body.builder.getI64Type(), index);
  if (isa<FloatType>(type)) {
    return arith::SIToFPOp::create(body.builder, body.lowering.location, type, wide);
  }
  unsigned width = type.getIntOrFloatBitWidth();
  return width == 64 ? wide
                     : arith::TruncIOp::create(body.builder, body.lowering.location, type, wide)
                           .getResult();
}

namespace {

/// An element of integers for a mean, whose sum needs more bits than its type.
Value meanElement(Body &body, Value value, ArrayRef<AffineExpr> at) {
  Value x = body.at(value, at);
  Type wide = body.builder.getI64Type();
  if (!x || x.getType() == wide) {
    return x;
  }
  Location location = body.lowering.location;
  return getElementTypeOrSelf(value).isUnsignedInteger()
             ? Value(arith::ExtUIOp::create(body.builder, location, wide, x))
             : Value(arith::ExtSIOp::create(body.builder, location, wide, x));
}

/// sum / count, towards zero; that of nothing fails.
Value integerMean(Body &body, Type element, Value sum, Value count) {
  OpBuilder &b = body.builder;
  Location location = body.lowering.location;
  Type wide = b.getI64Type(), storage = storageType(element);
  Value one = arith::ConstantOp::create(b, location, b.getI64IntegerAttr(1));
  Value divisor = arith::MaxSIOp::create(b, location, count, one);
  Value mean = element.isUnsignedInteger()
                   ? Value(arith::DivUIOp::create(b, location, sum, divisor))
                   : Value(arith::DivSIOp::create(b, location, sum, divisor));
  Value isAny = arith::CmpIOp::create(b, location, arith::CmpIPredicate::sge, count, one);
  mean = storage == wide ? mean : Value(arith::TruncIOp::create(b, location, storage, mean));
  return require(b, location, mean, isAny, Failure::arithmetic);
}

} // namespace

LogicalResult computeReduce(Lowering &lowering, Operation *op) {
  ReduceOp reduceOp = cast<ReduceOp>(op);
  Type element = getElementTypeOrSelf(reduceOp.getX());
  Type storage = storageType(element);
  bool isIntegerMean = reduceOp.getKind() == ReduceKind::mean && !isa<FloatType>(storage);
  Type accumulator = isIntegerMean ? Type(lowering.builder.getI64Type()) : accumulatorType(element);
  Dims dims = getDims(reduceOp.getX().getType());
  llvm::SmallBitVector reduced(dims.size());
  for (int64_t axis : reduceOp.getAxes()) {
    reduced.set(axis);
  }
  ReduceKind kind = reduceOp.getKind();
  bool isExtreme = kind == ReduceKind::max || kind == ReduceKind::min;
  TypedAttr init = isExtreme ? extremeOf(lowering, element, kind == ReduceKind::min)
                             : numberOf(lowering, accumulator, kind == ReduceKind::prod ? 1 : 0);
  Value total = reduce(
      lowering, dims, reduced, init,
      [&](Body &body, ArrayRef<AffineExpr> at) {
        return isIntegerMean ? meanElement(body, reduceOp.getX(), at)
                             : wideAt(body, reduceOp.getX(), at);
      },
      [&](OpBuilder &b, Location location, Value a, Value x) {
        if (isExtreme) {
          return combineExtreme(b, location, element, kind == ReduceKind::max, a, x);
        }
        return kind == ReduceKind::prod ? combineProduct(b, location, a, x)
                                        : combineSum(b, location, a, x);
      });
  if (!total) {
    return failure();
  }
  if (kind == ReduceKind::mean || accumulator != storage || reduceOp.getKeepdims()) {
    Dims outDims = getDims(reduceOp.getY().getType());
    Value sum = total;
    total = compute(lowering, outDims, storage, [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
      Value x = body.load(sum, reduceOp.getKeepdims() ? keptIndices(at, reduced)
                                                      : SmallVector<AffineExpr>(at));
      if (kind != ReduceKind::mean) {
        return x;
      }
      Value count = reducedCount(body, dims, reduced, accumulator);
      if (isa<FloatType>(accumulator)) {
        return arith::DivFOp::create(body.builder, lowering.location, x, count);
      }
      return integerMean(body, element, x, count);
    });
  }
  lowering.bind(reduceOp.getY(), total);
  return success();
}

/// A pair of accumulators, best value and its index. The strict comparison keeps the first of
/// equals; NaN counts as larger and smaller than every number.
LogicalResult computeArgReduce(Lowering &lowering, Operation *op) {
  ArgReduceOp arg = cast<ArgReduceOp>(op);
  Type element = getElementTypeOrSelf(arg.getX());
  Type wide = accumulatorType(element);
  Dims dims = getDims(arg.getX().getType());
  unsigned axis = arg.getAxis();
  Body body(lowering, dims, {wide, lowering.builder.getI64Type()});
  OpBuilder &b = body.builder;
  Location location = lowering.location;
  Value x = wideAt(body, arg.getX(), body.loops());
  if (!x) {
    return failure();
  }
  Value best = body.accumulator(0);
  Value position =
      arith::IndexCastOp::create(b, location, b.getI64Type(), body.index(body.loop(axis)));
  Value better;
  if (isa<FloatType>(wide)) {
    using P = arith::CmpFPredicate;
    P predicate = arg.getLargest() ? (arg.getLastIndex() ? P::UGE : P::UGT)
                                   : (arg.getLastIndex() ? P::ULE : P::ULT);
    Value bestIsNumber = arith::CmpFOp::create(b, location, P::ORD, best, best);
    better =
        arith::AndIOp::create(b, location, bestIsNumber,
                              arith::CmpFOp::create(b, location, predicate, x, best).getResult());
  } else {
    using P = arith::CmpIPredicate;
    bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
    P greater = isUnsigned ? (arg.getLastIndex() ? P::uge : P::ugt)
                           : (arg.getLastIndex() ? P::sge : P::sgt);
    P less = isUnsigned ? (arg.getLastIndex() ? P::ule : P::ult)
                        : (arg.getLastIndex() ? P::sle : P::slt);
    better = arith::CmpIOp::create(b, location, arg.getLargest() ? greater : less, x, best);
  }
  if (isa<FloatType>(wide) && arg.getLastIndex()) {
    Value isNan = arith::CmpFOp::create(b, location, arith::CmpFPredicate::UNO, x, x);
    better = arith::OrIOp::create(b, location, better, isNan);
  }
  // The first element always wins, so that a row of extreme values has an index.
  Value zero = arith::ConstantOp::create(b, location, b.getI64IntegerAttr(0));
  Value isFirst = arith::CmpIOp::create(b, location, arith::CmpIPredicate::eq, position, zero);
  better = arith::OrIOp::create(b, location, better, isFirst);
  Value newBest = arith::SelectOp::create(b, location, better, x, best);
  Value newIndex = arith::SelectOp::create(b, location, better, position, body.accumulator(1));
  llvm::SmallBitVector reduced(dims.size());
  reduced.set(axis);
  KeptLoops kept = keptLoops(body, dims, reduced);
  Value values = lowering.filled(kept.dims, extremeOf(lowering, element, !arg.getLargest()));
  Value indices = lowering.filled(kept.dims, lowering.builder.getI64IntegerAttr(0));
  linalg::GenericOp generic =
      body.finish({newBest, newIndex}, {values, indices}, {kept.map, kept.map}, kept.reductions);
  if (arg.getKeepdims()) {
    Value positions = generic.getResult(1);
    Value y = compute(lowering, getDims(arg.getY().getType()), lowering.builder.getI64Type(),
                      [&](Body &outer, ArrayRef<AffineExpr> at) {
                        return outer.load(positions, keptIndices(at, reduced));
                      });
    lowering.bind(arg.getY(), y);
    return success();
  }
  lowering.bind(arg.getY(), generic.getResult(1));
  return success();
}

/// Each element sums its prefix: quadratic in the axis, which stays short where models use it.
LogicalResult computeCumsum(Lowering &lowering, Operation *op) {
  CumsumOp cumsum = cast<CumsumOp>(op);
  Type element = getElementTypeOrSelf(cumsum.getX());
  Type wide = accumulatorType(element);
  Dims dims = getDims(cumsum.getX().getType());
  unsigned axis = cumsum.getAxis();
  SmallVector<AffineExpr> space(dims);
  space.push_back(dims[axis]);
  llvm::SmallBitVector reduced(space.size());
  reduced.set(dims.size());
  Value total = reduce(
      lowering, space, reduced, numberOf(lowering, wide, 0),
      [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
        SmallVector<AffineExpr> source(at.drop_back());
        source[axis] = at.back();
        Value x = wideAt(body, cumsum.getX(), source);
        using P = arith::CmpIPredicate;
        P predicate = cumsum.getReverse() ? (cumsum.getExclusive() ? P::sgt : P::sge)
                                          : (cumsum.getExclusive() ? P::slt : P::sle);
        Value counts = arith::CmpIOp::create(body.builder, lowering.location, predicate,
                                             body.index(at.back()), body.index(at[axis]));
        Value zero = arith::ConstantOp::create(body.builder, lowering.location,
                                               body.builder.getZeroAttr(x.getType()));
        return arith::SelectOp::create(body.builder, lowering.location, counts, x, zero);
      },
      combineSum);
  Type storage = storageType(element);
  if (storage != wide) {
    Value sums = total;
    total = compute(lowering, dims, storage,
                    [&](Body &body, ArrayRef<AffineExpr> at) { return body.load(sums, at); });
  }
  lowering.bind(cumsum.getY(), total);
  return success();
}

} // namespace tenon::codegen
