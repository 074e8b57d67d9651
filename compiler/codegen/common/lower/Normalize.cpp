// Softmax and the normalizations: passes over a row, each one linalg.generic. Relies on
// tile-and-fuse to bring the passes of one row together.
#include "compiler/codegen/common/lower/Compute.h"
#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SmallBitVector.h"

#include <limits>

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {
namespace {

Value combineMax(OpBuilder &b, Location location, Value a, Value x) {
  return combineExtreme(b, location, a.getType(), /*largest=*/true, a, x);
}

/// A value that several passes read: computed once, unless it is an operand already.
LogicalResult keep(Lowering &lowering, Value value) {
  return success(lowering.materialize(value) != nullptr);
}

} // namespace

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
      lowering, dims, reduced, extremeOf(lowering, element, false),
      [&](Body &body, ArrayRef<AffineExpr> at) { return wideAt(body, x, at); }, combineMax);
  auto shifted = [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
    Value top = body.load(maximum, keptIndices(at, reduced));
    return arith::SubFOp::create(body.builder, lowering.location, wideAt(body, x, at), top);
  };
  auto exponential = [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
    return math::ExpOp::create(body.builder, lowering.location, shifted(body, at));
  };
  // The logarithm needs the exponentials only for their sum; otherwise they are kept for the
  // quotient.
  Value exponentials = softmax.getLog() ? Value() : compute(lowering, dims, wide, exponential);
  Value sum = reduce(
      lowering, dims, reduced, numberOf(lowering, wide, 0),
      [&](Body &body, ArrayRef<AffineExpr> at) {
        return exponentials ? body.load(exponentials, at) : exponential(body, at);
      },
      combineSum);
  Value y = compute(
      lowering, dims, storageType(element), [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
        OpBuilder &b = body.builder;
        Location location = lowering.location;
        Value total = body.load(sum, keptIndices(at, reduced));
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
                        ElementSource source,
                        llvm::function_ref<Value(Body &, ArrayRef<AffineExpr>, Value)> finish) {
  Location location = lowering.location;
  Type element = getElementTypeOrSelf(x);
  Type wide = accumulatorType(element);
  TypedAttr zero = numberOf(lowering, wide, 0);
  Value sum;
  if (centered) {
    sum = reduce(lowering, dims, reduced, zero, source, combineSum);
  }
  std::optional<int64_t> count = constantDim(reducedSize(lowering, dims, reduced));
  auto mean = [&](Body &body, Value total) -> Value {
    OpBuilder &b = body.builder;
    if (count) {
      FloatAttr part = b.getFloatAttr(wide, 1.0 / static_cast<double>(*count));
      return arith::MulFOp::create(b, location, total,
                                   arith::ConstantOp::create(b, location, part));
    }
    return arith::DivFOp::create(b, location, total, reducedCount(body, dims, reduced, wide));
  };
  auto center = [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
    return mean(body, body.load(sum, keptIndices(at, reduced)));
  };
  auto left = [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
    Value value = source(body, at);
    return centered ? arith::SubFOp::create(body.builder, location, value, center(body, at))
                    : value;
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
  // Of 16-bit elements x / deviation - mean / deviation, one operation less an element: what the
  // rounding of the second quotient adds is like that of the mean. A row of one value, whose mean
  // is exact, has quotients of 0 for that.
  bool isShifted = centered && element.getIntOrFloatBitWidth() == 16;
  Value result = compute(
      lowering, dims, storageType(element), [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
        OpBuilder &b = body.builder;
        Value variance = mean(body, body.load(squares, keptIndices(at, reduced)));
        auto number = [&](double value) -> Value {
          return arith::ConstantOp::create(b, location, b.getFloatAttr(wide, value));
        };
        auto inverseRoot = [&](Value power) -> Value {
          Value root = math::SqrtOp::create(b, location, power);
          return arith::DivFOp::create(b, location, number(1), root);
        };
        Value power = arith::AddFOp::create(b, location, variance, number(epsilon));
        if (!isShifted) {
          Value inverse = inverseRoot(power);
          return finish(body, at, arith::MulFOp::create(b, location, left(body, at), inverse));
        }
        Value isFlat =
            arith::CmpFOp::create(b, location, arith::CmpFPredicate::OEQ, variance, number(0));
        Value infinity = number(std::numeric_limits<double>::infinity());
        Value inverse = inverseRoot(arith::SelectOp::create(b, location, isFlat, infinity, power));
        Value shift = arith::MulFOp::create(
            b, location, arith::NegFOp::create(b, location, center(body, at)), inverse);
        return finish(body, at, math::FmaOp::create(b, location, source(body, at), inverse, shift));
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

namespace {

/// Normalization of the dims from the op's `axis` on; `bias` may be null.
template <typename Norm>
LogicalResult normalizeTrailing(Lowering &lowering, Norm norm, bool centered, Value bias) {
  if (failed(keep(lowering, norm.getX()))) {
    return failure();
  }
  Dims dims = getDims(norm.getX().getType());
  llvm::SmallBitVector reduced(dims.size());
  reduced.set(norm.getAxis(), dims.size());
  return normalize(
      lowering, norm.getX(), norm.getY(), dims, reduced, centered,
      norm.getEpsilon().convertToDouble(),
      [&](Body &body, ArrayRef<AffineExpr> at) { return wideAt(body, norm.getX(), at); },
      [&](Body &body, ArrayRef<AffineExpr> at, Value value) {
        return scaleAndShift(body, at, value, norm.getScale(), bias);
      });
}

} // namespace

LogicalResult computeLayerNorm(Lowering &lowering, Operation *op) {
  LayerNormOp norm = cast<LayerNormOp>(op);
  return normalizeTrailing(lowering, norm, /*centered=*/true, norm.getBias());
}

LogicalResult computeRmsNorm(Lowering &lowering, Operation *op) {
  return normalizeTrailing(lowering, cast<RmsNormOp>(op), /*centered=*/false, Value());
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
  Value y =
      compute(lowering, dims, storageType(getElementTypeOrSelf(x)),
              [&](Body &body, ArrayRef<AffineExpr> at) {
                SmallVector<AffineExpr> parts = {at[0], at[1].floorDiv(perGroup), at[1] % perGroup};
                parts.append(at.begin() + 2, at.end());
                return body.load(tensor, parts);
              });
  lowering.bind(norm.getY(), y);
  return success();
}

} // namespace tenon::codegen
