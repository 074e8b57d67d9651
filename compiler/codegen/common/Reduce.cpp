// Reductions, softmax and the normalizations: row passes over a tensor, each one linalg.generic.
// Relies on tile-and-fuse to bring the passes of one row together.
#include "compiler/codegen/common/Reduce.h"

#include "compiler/codegen/common/Compute.h"
#include "compiler/codegen/common/ScalarBody.h"
#include "llvm/ADT/SmallBitVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

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
  return type == value.getType() ? value
                                 : arith::ExtFOp::create(builder, location, type, value).getResult();
}

Value narrow(OpBuilder &builder, Location location, Value value, Type storage) {
  return value.getType() == storage
             ? value
             : arith::TruncFOp::create(builder, location, storage, value).getResult();
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

Value combineExtreme(OpBuilder &b, Location location, Type element, bool largest, Value a, Value x) {
  if (isa<FloatType>(a.getType())) {
    return largest ? Value(arith::MaximumFOp::create(b, location, a, x))
                   : Value(arith::MinimumFOp::create(b, location, a, x));
  }
  if (element.isUnsignedInteger() || element.isInteger(1)) {
    return largest ? Value(arith::MaxUIOp::create(b, location, a, x))
                   : Value(arith::MinUIOp::create(b, location, a, x));
  }
  return largest ? Value(arith::MaxSIOp::create(b, location, a, x))
                 : Value(arith::MinSIOp::create(b, location, a, x));
}

Value reduce(Lowering &lowering, ArrayRef<AffineExpr> dims, const llvm::SmallBitVector &reduced,
             TypedAttr init, ElementFn element, CombineFn combine) {
  SmallVector<AffineExpr> kept, map;
  SmallVector<unsigned> reductions;
  Body body(lowering, dims, init.getType());
  for (unsigned i = 0; i < dims.size(); ++i) {
    if (!reduced[i]) {
      kept.push_back(dims[i]);
      map.push_back(body.loop(i));
      continue;
    }
    reductions.push_back(i);
  }
  Value x = element(body, body.loops());
  if (!x) {
    return {};
  }
  Value combined = combine(body.builder, lowering.location, body.accumulator(0), x);
  Value start = lowering.filled(kept, init);
  AffineMap outMap = AffineMap::get(dims.size(), 0, map, lowering.builder.getContext());
  return body.finish(combined, start, outMap, reductions).getResult(0);
}

Value wideAt(Body &body, Value value, ArrayRef<AffineExpr> indices) {
  Value x = body.at(value, indices);
  return x ? widen(body.builder, body.lowering.location, x) : x;
}

Value compute(Lowering &lowering, ArrayRef<AffineExpr> dims, Type storage, ElementFn element) {
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

namespace {

TypedAttr number(Lowering &lowering, Type type, double value) {
  if (isa<FloatType>(type)) {
    return lowering.builder.getFloatAttr(type, value);
  }
  return lowering.builder.getIntegerAttr(type, static_cast<int64_t>(value));
}

TypedAttr extreme(Lowering &lowering, Type element, bool largest) {
  Type storage = accumulatorType(element);
  if (isa<FloatType>(storage)) {
    double infinity = std::numeric_limits<double>::infinity();
    return lowering.builder.getFloatAttr(storage, largest ? infinity : -infinity);
  }
  unsigned width = storage.getIntOrFloatBitWidth();
  bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  APInt value = isUnsigned ? (largest ? APInt::getMaxValue(width) : APInt::getZero(width))
                           : (largest ? APInt::getSignedMaxValue(width)
                                      : APInt::getSignedMinValue(width));
  return lowering.builder.getIntegerAttr(storage, value);
}

Value combineMax(OpBuilder &b, Location location, Value a, Value x) {
  return arith::MaximumFOp::create(b, location, a, x);
}

/// A value that several passes read: computed once, unless it is an operand already.
LogicalResult keep(Lowering &lowering, Value value) {
  return success(lowering.materialize(value) != nullptr);
}

/// The indices into a reduction's result.
SmallVector<AffineExpr> kept(ArrayRef<AffineExpr> indices, const llvm::SmallBitVector &reduced) {
  SmallVector<AffineExpr> result;
  for (auto [i, index] : llvm::enumerate(indices)) {
    if (!reduced[i]) {
      result.push_back(index);
    }
  }
  return result;
}

/// The number of elements reduced, as a value of the accumulator's type.
Value countOf(Body &body, ArrayRef<AffineExpr> dims, const llvm::SmallBitVector &reduced, Type type) {
  AffineExpr count = body.builder.getAffineConstantExpr(1);
  for (unsigned i : reduced.set_bits()) {
    count = count * dims[i];
  }
  Value index = body.index(count);
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

} // namespace

LogicalResult computeReduce(Lowering &lowering, Operation *op) {
  ReduceOp reduceOp = cast<ReduceOp>(op);
  Type element = getElementTypeOrSelf(reduceOp.getX());
  Type storage = storageType(element);
  Type accumulator = accumulatorType(element);
  Dims dims = getDims(reduceOp.getX().getType());
  llvm::SmallBitVector reduced(dims.size());
  for (int64_t axis : reduceOp.getAxes()) {
    reduced.set(axis);
  }
  ReduceKind kind = reduceOp.getKind();
  bool isExtreme = kind == ReduceKind::max || kind == ReduceKind::min;
  TypedAttr init = isExtreme ? extreme(lowering, element, kind == ReduceKind::min)
                             : number(lowering, accumulator, kind == ReduceKind::prod ? 1 : 0);
  Value total = reduce(
      lowering, dims, reduced, init,
      [&](Body &body, ArrayRef<AffineExpr> at) { return wideAt(body, reduceOp.getX(), at); },
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
      Value x = body.load(sum, reduceOp.getKeepdims() ? kept(at, reduced)
                                                      : SmallVector<AffineExpr>(at));
      if (kind != ReduceKind::mean) {
        return x;
      }
      Value count = countOf(body, dims, reduced, accumulator);
      if (isa<FloatType>(accumulator)) {
        return arith::DivFOp::create(body.builder, lowering.location, x, count);
      }
      return arith::DivSIOp::create(body.builder, lowering.location, x, count);
    });
  }
  lowering.bind(reduceOp.getY(), total);
  return success();
}

LogicalResult computeSoftmax(Lowering &lowering, Operation *op) {
  SoftmaxOp softmax = cast<SoftmaxOp>(op);
  Value x = softmax.getX();
  if (failed(keep(lowering, x))) {
    return failure();
  }
  Type element = getElementTypeOrSelf(x);
  Type wide = accumulatorType(element);
  Dims dims = getDims(x.getType());
  llvm::SmallBitVector reduced(dims.size());
  reduced.set(softmax.getAxis());
  Value maximum = reduce(
      lowering, dims, reduced, extreme(lowering, element, false),
      [&](Body &body, ArrayRef<AffineExpr> at) { return wideAt(body, x, at); }, combineMax);
  auto shifted = [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
    Value top = body.load(maximum, kept(at, reduced));
    return arith::SubFOp::create(body.builder, lowering.location, wideAt(body, x, at), top);
  };
  auto exponential = [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
    return math::ExpOp::create(body.builder, lowering.location, shifted(body, at));
  };
  // The logarithm needs the exponentials only for their sum; otherwise they are kept for the quotient.
  Value exponentials = softmax.getLog() ? Value() : compute(lowering, dims, wide, exponential);
  Value sum = reduce(
      lowering, dims, reduced, number(lowering, wide, 0),
      [&](Body &body, ArrayRef<AffineExpr> at) {
        return exponentials ? body.load(exponentials, at) : exponential(body, at);
      },
      combineSum);
  Value y = compute(lowering, dims, storageType(element),
                    [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
                      OpBuilder &b = body.builder;
                      Location location = lowering.location;
                      Value total = body.load(sum, kept(at, reduced));
                      if (softmax.getLog()) {
                        Value logSum = math::LogOp::create(b, location, total);
                        return arith::SubFOp::create(b, location, shifted(body, at), logSum);
                      }
                      Value one = arith::ConstantOp::create(b, location, b.getFloatAttr(wide, 1));
                      Value inverse = arith::DivFOp::create(b, location, one, total);
                      return arith::MulFOp::create(b, location, body.load(exponentials, at), inverse);
                    });
  lowering.bind(softmax.getY(), y);
  return success();
}

namespace {

/// The passes that all normalizations share: optional mean, then mean square of what is left, then
/// `finish` on the normalized element.
LogicalResult normalize(Lowering &lowering, Value x, Value y, ArrayRef<AffineExpr> dims,
                        const llvm::SmallBitVector &reduced, bool centered, double epsilon,
                        ElementFn source,
                        llvm::function_ref<Value(Body &, ArrayRef<AffineExpr>, Value)> finish) {
  Location location = lowering.location;
  Type element = getElementTypeOrSelf(x);
  Type wide = accumulatorType(element);
  TypedAttr zero = number(lowering, wide, 0);
  Value sum;
  if (centered) {
    sum = reduce(lowering, dims, reduced, zero, source, combineSum);
  }
  auto mean = [&](Body &body, Value total) -> Value {
    return arith::DivFOp::create(body.builder, location, total, countOf(body, dims, reduced, wide));
  };
  auto left = [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
    Value value = source(body, at);
    if (!centered) {
      return value;
    }
    Value center = mean(body, body.load(sum, kept(at, reduced)));
    return arith::SubFOp::create(body.builder, location, value, center);
  };
  Value squares = reduce(
      lowering, dims, reduced, zero,
      [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
        Value value = left(body, at);
        return arith::MulFOp::create(body.builder, location, value, value);
      },
      combineSum);
  if (!squares) {
    return failure();
  }
  Value result = compute(
      lowering, dims, storageType(element), [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
        OpBuilder &b = body.builder;
        Value variance = mean(body, body.load(squares, kept(at, reduced)));
        Value eps = arith::ConstantOp::create(b, location, b.getFloatAttr(wide, epsilon));
        Value deviation = math::SqrtOp::create(
            b, location, arith::AddFOp::create(b, location, variance, eps).getResult());
        Value one = arith::ConstantOp::create(b, location, b.getFloatAttr(wide, 1));
        Value inverse = arith::DivFOp::create(b, location, one, deviation);
        Value value = arith::MulFOp::create(b, location, left(body, at), inverse);
        return finish(body, at, value);
      });
  if (!result) {
    return failure();
  }
  lowering.bind(y, result);
  return success();
}

/// value * scale + bias, each broadcast from the trailing dims of the result and each optional.
Value scaleAndShift(Body &body, ArrayRef<AffineExpr> at, Value value, Value scale, Value bias) {
  OpBuilder &b = body.builder;
  Location location = body.lowering.location;
  auto trailing = [&](Value parameter) {
    size_t rank = getDims(parameter.getType()).size();
    return wideAt(body, parameter, at.take_back(rank));
  };
  if (scale) {
    value = arith::MulFOp::create(b, location, value, trailing(scale));
  }
  if (bias) {
    value = arith::AddFOp::create(b, location, value, trailing(bias));
  }
  return value;
}

} // namespace

LogicalResult computeLayerNorm(Lowering &lowering, Operation *op) {
  LayerNormOp norm = cast<LayerNormOp>(op);
  if (failed(keep(lowering, norm.getX()))) {
    return failure();
  }
  Dims dims = getDims(norm.getX().getType());
  llvm::SmallBitVector reduced(dims.size());
  reduced.set(norm.getAxis(), dims.size());
  return normalize(
      lowering, norm.getX(), norm.getY(), dims, reduced, true, norm.getEpsilon().convertToDouble(),
      [&](Body &body, ArrayRef<AffineExpr> at) { return wideAt(body, norm.getX(), at); },
      [&](Body &body, ArrayRef<AffineExpr> at, Value value) {
        return scaleAndShift(body, at, value, norm.getScale(), norm.getBias());
      });
}

LogicalResult computeRmsNorm(Lowering &lowering, Operation *op) {
  RmsNormOp norm = cast<RmsNormOp>(op);
  if (failed(keep(lowering, norm.getX()))) {
    return failure();
  }
  Dims dims = getDims(norm.getX().getType());
  llvm::SmallBitVector reduced(dims.size());
  reduced.set(norm.getAxis(), dims.size());
  return normalize(
      lowering, norm.getX(), norm.getY(), dims, reduced, false, norm.getEpsilon().convertToDouble(),
      [&](Body &body, ArrayRef<AffineExpr> at) { return wideAt(body, norm.getX(), at); },
      [&](Body &body, ArrayRef<AffineExpr> at, Value value) {
        return scaleAndShift(body, at, value, norm.getScale(), Value());
      });
}

/// Works on the view [N, groups, C / groups, positions...]; the result goes back to the op's shape.
LogicalResult computeGroupNorm(Lowering &lowering, Operation *op) {
  GroupNormOp norm = cast<GroupNormOp>(op);
  Value x = norm.getX();
  if (failed(keep(lowering, x))) {
    return failure();
  }
  Dims dims = getDims(x.getType());
  int64_t groups = norm.getGroups();
  SmallVector<AffineExpr> split = {dims[0], lowering.builder.getAffineConstantExpr(groups),
                                   dims[1].floorDiv(groups)};
  split.append(dims.begin() + 2, dims.end());
  AffineExpr perGroup = split[2];
  auto joined = [&](ArrayRef<AffineExpr> at) {
    SmallVector<AffineExpr> whole = {at[0], at[1] * perGroup + at[2]};
    whole.append(at.begin() + 3, at.end());
    return whole;
  };
  llvm::SmallBitVector reduced(split.size());
  reduced.set(2, split.size());
  Value grouped = norm.getY();
  LogicalResult done = normalize(
      lowering, x, grouped, split, reduced, true, norm.getEpsilon().convertToDouble(),
      [&](Body &body, ArrayRef<AffineExpr> at) { return wideAt(body, x, joined(at)); },
      [&](Body &body, ArrayRef<AffineExpr> at, Value value) -> Value {
        SmallVector<AffineExpr> channel = {joined(at)[1]};
        Value scale = wideAt(body, norm.getScale(), channel);
        Value bias = wideAt(body, norm.getBias(), channel);
        Value scaled = arith::MulFOp::create(body.builder, lowering.location, value, scale);
        return arith::AddFOp::create(body.builder, lowering.location, scaled, bias);
      });
  if (failed(done)) {
    return failure();
  }
  Value tensor = lowering.tensorOf(grouped);
  Value y = compute(lowering, dims, storageType(getElementTypeOrSelf(x)),
                    [&](Body &body, ArrayRef<AffineExpr> at) {
                      SmallVector<AffineExpr> parts = {at[0], at[1].floorDiv(perGroup),
                                                       at[1] % perGroup};
                      parts.append(at.begin() + 2, at.end());
                      return body.load(tensor, parts);
                    });
  lowering.bind(norm.getY(), y);
  return success();
}

/// A pair of accumulators, best value and its index. The strict comparison keeps the first of equals;
/// NaN counts as larger and smaller than every number.
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
  Value position = arith::IndexCastOp::create(b, location, b.getI64Type(), body.index(body.loop(axis)));
  Value better;
  if (isa<FloatType>(wide)) {
    using P = arith::CmpFPredicate;
    P predicate = arg.getLargest() ? (arg.getLastIndex() ? P::UGE : P::UGT)
                                   : (arg.getLastIndex() ? P::ULE : P::ULT);
    Value bestIsNumber = arith::CmpFOp::create(b, location, P::ORD, best, best);
    better = arith::AndIOp::create(b, location, bestIsNumber,
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
  // The first element always wins, so that a row of extreme values has an index.
  Value zero = arith::ConstantOp::create(b, location, b.getI64IntegerAttr(0));
  Value isFirst =
      arith::CmpIOp::create(b, location, arith::CmpIPredicate::eq, position, zero);
  better = arith::OrIOp::create(b, location, better, isFirst);
  Value newBest = arith::SelectOp::create(b, location, better, x, best);
  Value newIndex = arith::SelectOp::create(b, location, better, position, body.accumulator(1));
  SmallVector<AffineExpr> rest, map;
  for (unsigned i = 0; i < dims.size(); ++i) {
    if (i != axis) {
      rest.push_back(dims[i]);
      map.push_back(body.loop(i));
    }
  }
  Value values = lowering.filled(rest, extreme(lowering, element, !arg.getLargest()));
  Value indices = lowering.filled(rest, lowering.builder.getI64IntegerAttr(0));
  AffineMap outMap = AffineMap::get(dims.size(), 0, map, lowering.builder.getContext());
  linalg::GenericOp generic =
      body.finish({newBest, newIndex}, {values, indices}, {outMap, outMap}, axis);
  if (arg.getKeepdims()) {
    Value positions = generic.getResult(1);
    llvm::SmallBitVector reduced(dims.size());
    reduced.set(axis);
    Value y = compute(lowering, getDims(arg.getY().getType()), lowering.builder.getI64Type(),
                      [&](Body &outer, ArrayRef<AffineExpr> at) {
                        return outer.load(positions, kept(at, reduced));
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
      lowering, space, reduced, number(lowering, wide, 0),
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
    total = compute(lowering, dims, storage, [&](Body &body, ArrayRef<AffineExpr> at) {
      return body.load(sums, at);
    });
  }
  lowering.bind(cumsum.getY(), total);
  return success();
}

} // namespace tenon::codegen
