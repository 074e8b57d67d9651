// Resampling as a weighted sum over the taps of every resampled dim; positions and weights of a dim
// are small tables that are computed first. Relies on ONNX's definition of coordinates, as the
// reference interpreter states it, in f64; sums of narrower elements are of f32.
#include "compiler/codegen/common/lower/Resize.h"

#include "compiler/codegen/common/lower/Compute.h"
#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {
namespace {

/// More taps than this along one dim are refused: the result would be a mean of everything.
constexpr double kMaxTaps = 1 << 20;

/// f64 arithmetic in a body.
class Real {
public:
  Real(Body &body) : body(body), b(body.builder), location(body.lowering.location) {}

  Value constant(double value) {
    return arith::ConstantOp::create(b, location, b.getF64FloatAttr(value));
  }
  Value of(AffineExpr index) {
    Value wide = arith::IndexCastOp::create(b, location, b.getI64Type(), body.index(index));
    return arith::SIToFPOp::create(b, location, b.getF64Type(), wide);
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, location, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, location, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, location, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, location, x, y); }
  Value ceil(Value x) { return math::CeilOp::create(b, location, x); }
  Value abs(Value x) { return math::AbsFOp::create(b, location, x); }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, location, c, x, y); }
  Value is(arith::CmpFPredicate predicate, Value x, Value y) {
    return arith::CmpFOp::create(b, location, predicate, x, y);
  }
  /// x held in [low, high]; NaN becomes low.
  Value clamp(Value x, Value low, Value high) {
    Value above = arith::MaxNumFOp::create(b, location, x, low);
    return arith::MinNumFOp::create(b, location, above, high);
  }

private:
  Body &body;
  OpBuilder &b;
  Location location;
};

using P = arith::CmpFPredicate;

/// Resampling along one dim.
class DimResampler {
public:
  DimResampler(Lowering &lowering, ResizeOp op, size_t dim)
      : lowering(lowering), op(op), dim(dim), in(getDims(op.getX().getType())[dim]),
        out(getDims(op.getY().getType())[dim]), scale(op.getScales()[dim]) {
    isCubic = op.getMode() == ResizeMode::cubic;
    shrink = op.getAntialias() ? std::min(scale, 1.0) : 1;
    start = std::max(std::floor(-(isCubic ? 2 : 1) / shrink) + 1, -kMaxTaps);
  }

  bool isIdentity() {
    return in == out && scale == 1 && op.getCoordinates() != "tf_crop_and_resize";
  }
  int64_t taps() {
    return op.getMode() == ResizeMode::nearest ? 1 : static_cast<int64_t>(2 - 2 * start);
  }
  LogicalResult makeTables();

  /// The position in the data that an index of the result stands for.
  Value source(Body &body, AffineExpr index);
  /// Whether the extrapolation value stands at this index.
  Value isOutside(Body &body, AffineExpr index) {
    Real r(body);
    Value x = source(body, index);
    return arith::OrIOp::create(body.builder, lowering.location, r.is(P::ULT, x, r.constant(0)),
                                r.is(P::UGT, x, r.of(in - 1)));
  }
  /// The nearest neighbour's index, held inside the data.
  Value nearest(Body &body, AffineExpr index);
  /// Index and weight of a tap, from the tables.
  Value position(Body &body, AffineExpr index, AffineExpr tap) {
    return toIndex(body, body.load(positions, {index, tap}));
  }
  Value weight(Body &body, AffineExpr index, AffineExpr tap) {
    return body.load(weights, {index, tap});
  }

private:
  Value toIndex(Body &body, Value wide) {
    return arith::IndexCastOp::create(body.builder, lowering.location, body.builder.getIndexType(),
                                      wide);
  }
  Value truncated(Body &body, Value real) {
    Real r(body);
    Value inside = r.clamp(real, r.constant(0), r.of(in - 1));
    return arith::FPToSIOp::create(body.builder, lowering.location, body.builder.getI64Type(),
                                   inside);
  }
  Value rawWeight(Body &body, AffineExpr index, AffineExpr tap);
  /// The tap's place before it is held inside the data.
  Value tapPlace(Body &body, AffineExpr index, AffineExpr tap) {
    Real r(body);
    Value left = r.sub(r.ceil(source(body, index)), r.constant(1));
    return r.add(left, r.add(r.of(tap), r.constant(start)));
  }

  Lowering &lowering;
  ResizeOp op;
  size_t dim;
  AffineExpr in, out;
  double scale, shrink, start;
  bool isCubic;
  Value positions, weights;
};

Value DimResampler::source(Body &body, AffineExpr index) {
  Real r(body);
  StringRef coordinates = op.getCoordinates();
  Value i = r.of(index), size = r.of(in), one = r.constant(1), half = r.constant(0.5);
  Value length = r.mul(r.constant(scale), size);
  Value isSingle = r.is(P::OEQ, length, one);
  Value last = r.sub(size, one);
  if (coordinates == "align_corners") {
    Value at = r.div(r.mul(i, last), r.sub(length, one));
    return r.select(isSingle, r.constant(0), at);
  }
  if (coordinates == "asymmetric") {
    return r.div(i, r.constant(scale));
  }
  if (coordinates == "tf_crop_and_resize") {
    ArrayRef<double> roi = op.getRoi();
    size_t rank = op.getScales().size();
    bool isGiven = roi.size() == 2 * rank;
    double begin = isGiven ? roi[dim] : 0, end = isGiven ? roi[rank + dim] : 1;
    Value span = r.mul(r.constant(end - begin), last);
    Value at = r.div(r.mul(i, span), r.sub(length, one));
    Value inner = r.select(isSingle, r.mul(span, half), at);
    return r.add(inner, r.mul(r.constant(begin), last));
  }
  Value at = r.div(r.add(i, half), r.constant(scale));
  if (coordinates == "half_pixel_symmetric") {
    Value rest = r.sub(one, r.div(r.of(out), length));
    at = r.add(r.mul(r.mul(size, half), rest), at);
  }
  at = r.sub(at, half);
  return coordinates == "pytorch_half_pixel" ? r.select(isSingle, r.constant(-0.5), at) : at;
}

Value DimResampler::nearest(Body &body, AffineExpr index) {
  Real r(body);
  Value x = source(body, index);
  // The neighbour to the left is at least a step away, so an exact position has ratio 1.
  Value left = r.sub(r.ceil(x), r.constant(1));
  Value ratio = r.sub(x, left);
  Value right = r.add(left, r.constant(1));
  StringRef mode = op.getNearest();
  Value bound = r.constant(mode == "ceil" ? 0 : mode == "floor" ? 1 : 0.5);
  bool isInclusive = mode == "floor" || mode == "round_prefer_ceil";
  Value goesRight = r.is(isInclusive ? P::OGE : P::OGT, ratio, bound);
  return toIndex(body, truncated(body, r.select(goesRight, right, left)));
}

Value DimResampler::rawWeight(Body &body, AffineExpr index, AffineExpr tap) {
  Real r(body);
  Value x = source(body, index);
  Value place = tapPlace(body, index, tap);
  Value d = r.mul(r.abs(r.sub(place, x)), r.constant(shrink));
  Value zero = r.constant(0), one = r.constant(1);
  Value weight;
  if (isCubic) {
    double a = op.getCubicA().convertToDouble();
    Value square = r.mul(d, d);
    Value inner = r.sub(r.mul(r.constant(a + 2), d), r.constant(a + 3));
    Value close = r.add(r.mul(inner, square), one);
    Value outer =
        r.add(r.mul(r.sub(r.mul(r.constant(a), d), r.constant(5 * a)), d), r.constant(8 * a));
    Value far = r.sub(r.mul(outer, d), r.constant(4 * a));
    Value beyond = r.select(r.is(P::OLT, d, r.constant(2)), far, zero);
    weight = r.select(r.is(P::OLE, d, one), close, beyond);
  } else {
    Value line = r.sub(one, d);
    weight = r.select(r.is(P::OGT, line, zero), line, zero);
  }
  if (!op.getExcludeOutside()) {
    return weight;
  }
  Value held = r.clamp(place, zero, r.of(in - 1));
  return r.select(r.is(P::OEQ, held, place), weight, zero);
}

LogicalResult DimResampler::makeTables() {
  if (op.getMode() == ResizeMode::nearest) {
    return success();
  }
  if (start <= -kMaxTaps) {
    return op.emitError("shrinks by more than can be averaged");
  }
  OpBuilder &b = lowering.builder;
  SmallVector<AffineExpr> space = {out, b.getAffineConstantExpr(taps())};
  bool isNormalized = op.getExcludeOutside() || op.getAntialias();
  Value totals;
  if (isNormalized) {
    llvm::SmallBitVector reduced(2);
    reduced.set(1);
    totals = reduce(
        lowering, space, reduced, b.getF64FloatAttr(0),
        [&](Body &body, ArrayRef<AffineExpr> at) { return rawWeight(body, at[0], at[1]); },
        combineSum);
  }
  Type real = realOf(getElementTypeOrSelf(op.getX()));
  weights = compute(lowering, space, real, [&](Body &body, ArrayRef<AffineExpr> at) {
    Value weight = rawWeight(body, at[0], at[1]);
    return isNormalized ? Real(body).div(weight, body.load(totals, at[0])) : weight;
  });
  positions = compute(lowering, space, b.getI64Type(), [&](Body &body, ArrayRef<AffineExpr> at) {
    return truncated(body, tapPlace(body, at[0], at[1]));
  });
  return success();
}

} // namespace

std::optional<ResizeTables> makeResizeTables(Lowering &lowering, ResizeOp op, size_t dim,
                                             Type real) {
  DimResampler resampler(lowering, op, dim);
  if (resampler.isIdentity()) {
    return ResizeTables{};
  }
  if (failed(resampler.makeTables())) {
    return std::nullopt;
  }
  AffineExpr taps = lowering.builder.getAffineConstantExpr(resampler.taps());
  SmallVector<AffineExpr> space = {taps, getDims(op.getY().getType())[dim]};
  ResizeTables tables;
  tables.weights = compute(lowering, space, real, [&](Body &body, ArrayRef<AffineExpr> at) {
    return resampler.weight(body, at[1], at[0]);
  });
  Type wide = lowering.builder.getI64Type();
  tables.positions = compute(lowering, space, wide, [&](Body &body, ArrayRef<AffineExpr> at) {
    Value place = resampler.position(body, at[1], at[0]);
    return arith::IndexCastOp::create(body.builder, lowering.location, wide, place).getResult();
  });
  return tables;
}

Type realOf(Type element) {
  bool isWide = element.isF64() || isa<IntegerType>(element);
  MLIRContext *context = element.getContext();
  return isWide ? Type(Float64Type::get(context)) : Type(Float32Type::get(context));
}

Value toReal(OpBuilder &b, Location location, Type element, Type type, Value x) {
  if (isa<FloatType>(x.getType())) {
    return x.getType() == type ? x : arith::ExtFOp::create(b, location, type, x).getResult();
  }
  return element.isUnsignedInteger() ? Value(arith::UIToFPOp::create(b, location, type, x))
                                     : Value(arith::SIToFPOp::create(b, location, type, x));
}

Value fromReal(OpBuilder &b, Location location, Type element, Value x) {
  if (!isa<FloatType>(element)) {
    return saturate(b, location, element, math::RoundEvenOp::create(b, location, x));
  }
  return x.getType() == element ? x : arith::TruncFOp::create(b, location, element, x).getResult();
}

namespace {

/// The weighted sum over the taps of all resampled dims.
Value weightedSum(Lowering &lowering, ResizeOp op, MutableArrayRef<DimResampler> dims) {
  SmallVector<AffineExpr> space(getDims(op.getY().getType()));
  size_t rank = space.size();
  for (DimResampler &dim : dims) {
    if (!dim.isIdentity()) {
      space.push_back(lowering.builder.getAffineConstantExpr(dim.taps()));
    }
  }
  llvm::SmallBitVector reduced(space.size());
  reduced.set(rank, space.size());
  Type element = getElementTypeOrSelf(op.getX()), real = realOf(element);
  return reduce(
      lowering, space, reduced, lowering.builder.getFloatAttr(real, 0),
      [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
        Real r(body);
        SmallVector<AffineExpr> places(at.take_front(rank));
        Value weight;
        size_t tap = rank;
        for (auto [i, dim] : llvm::enumerate(dims)) {
          if (!dim.isIdentity()) {
            places[i] = body.asIndex(dim.position(body, at[i], at[tap]));
            Value own = dim.weight(body, at[i], at[tap++]);
            weight = weight ? r.mul(weight, own) : own;
          }
        }
        OpBuilder &b = body.builder;
        Value x = body.at(op.getX(), places);
        Value number = x ? toReal(b, lowering.location, element, real, x) : Value();
        if (!number || !weight) {
          return number;
        }
        Value zero =
            arith::ConstantOp::create(b, lowering.location, b.getFloatAttr(real, 0)).getResult();
        // A weight of zero also takes no NaN or infinity along.
        return r.select(r.is(P::OEQ, weight, zero), zero, r.mul(weight, number));
      },
      combineSum);
}

} // namespace

LogicalResult computeResize(Lowering &lowering, Operation *op) {
  ResizeOp resize = cast<ResizeOp>(op);
  Dims out = getDims(resize.getY().getType());
  Type element = getElementTypeOrSelf(resize.getX());
  SmallVector<DimResampler> dims;
  for (size_t i = 0; i < out.size(); ++i) {
    dims.emplace_back(lowering, resize, i);
    if (!dims.back().isIdentity() && failed(dims.back().makeTables())) {
      return failure();
    }
  }
  bool isNearest = resize.getMode() == ResizeMode::nearest;
  Value sum = isNearest ? Value() : weightedSum(lowering, resize, dims);
  if (!isNearest && !sum) {
    return failure();
  }
  bool crops = resize.getCoordinates() == "tf_crop_and_resize";
  Value y = compute(
      lowering, out, storageType(element), [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
        OpBuilder &b = body.builder;
        Location location = lowering.location;
        SmallVector<AffineExpr> places(at);
        Value outside;
        for (auto [i, dim] : llvm::enumerate(dims)) {
          if (dim.isIdentity()) {
            continue;
          }
          if (isNearest) {
            places[i] = body.asIndex(dim.nearest(body, at[i]));
          }
          if (crops) {
            Value here = dim.isOutside(body, at[i]);
            outside = outside ? Value(arith::OrIOp::create(b, location, outside, here)) : here;
          }
        }
        Value value = isNearest ? body.at(resize.getX(), places)
                                : fromReal(b, location, element, body.load(sum, at));
        if (!value || !outside) {
          return value;
        }
        double extrapolation = resize.getExtrapolation().convertToDouble();
        Value constant = arith::ConstantOp::create(b, location, b.getF64FloatAttr(extrapolation));
        return arith::SelectOp::create(b, location, outside,
                                       fromReal(b, location, element, constant), value);
      });
  if (!y) {
    return failure();
  }
  lowering.bind(resize.getY(), y);
  return success();
}

} // namespace tenon::codegen
