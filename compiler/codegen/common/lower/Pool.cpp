// Pooling: the largest or the mean element of each window, as a reduction over the window's taps.
// Relies on Window.h for the positions and for what lies outside of the operand.
#include "compiler/codegen/common/lower/Compute.h"
#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/lower/Window.h"
#include "compiler/codegen/common/math/ScalarEmitter.h"
#include "compiler/graph/TnRare.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

#include <limits>

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {
namespace {

/// The space of a pooling op: its output dims and then the taps of its window.
SmallVector<AffineExpr> poolSpace(Lowering &lowering, ArrayRef<AffineExpr> out,
                                  ArrayRef<int64_t> kernel) {
  SmallVector<AffineExpr> space(out);
  for (int64_t size : kernel) {
    space.push_back(lowering.builder.getAffineConstantExpr(size));
  }
  return space;
}

struct PoolElement {
  Value value;
  Value inside;
  SmallVector<AffineExpr> positions;
};

PoolElement poolElement(Body &body, Value x, ArrayRef<AffineExpr> at, ArrayRef<AffineExpr> out,
                        const Window &window, ArrayRef<int64_t> kernel, bool last) {
  Dims in = getDims(x.getType());
  SmallVector<AffineExpr> input = spatialOf(in, last), output = spatialOf(out, last);
  ArrayRef<AffineExpr> outAt = at.take_front(out.size());
  SmallVector<AffineExpr> positions =
      window.positions(spatialOf(outAt, last), at.take_back(kernel.size()));
  Clamped clamped = clampPositions(body, window, positions, input, output, kernel);
  Value value = body.at(x, withSpatial(outAt[0], channelOf(outAt, last), clamped.positions, last));
  return {value, clamped.inside, clamped.positions};
}

} // namespace

LogicalResult computeMaxPool(Lowering &lowering, Operation *op) {
  MaxPoolOp pool = cast<MaxPoolOp>(op);
  Dims out = getDims(pool.getY().getType());
  Window window{pool.getStrides(), pool.getPads(), pool.getDilations()};
  ArrayRef<int64_t> kernel = pool.getKernel();
  Type element = getElementTypeOrSelf(pool.getX());
  Type storage = storageType(element);
  bool isFloat = isa<FloatType>(storage);
  bool isUnsigned = element.isUnsignedInteger();
  unsigned width = storage.getIntOrFloatBitWidth();
  TypedAttr lowest =
      isFloat ? TypedAttr(lowering.builder.getFloatAttr(storage,
                                                        -std::numeric_limits<double>::infinity()))
              : TypedAttr(lowering.builder.getIntegerAttr(
                    storage, isUnsigned ? APInt::getZero(width) : APInt::getSignedMinValue(width)));
  SmallVector<AffineExpr> space = poolSpace(lowering, out, kernel);
  Value y = reduce(
      lowering, space, lastReduced(space.size(), kernel.size()), lowest,
      [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
        PoolElement x =
            poolElement(body, pool.getX(), at, out, window, kernel, pool.getChannelsLast());
        if (!x.value) {
          return {};
        }
        Value low = arith::ConstantOp::create(body.builder, lowering.location, lowest);
        return selectInside(body, x.inside, x.value, low);
      },
      [&](OpBuilder &b, Location location, Value a, Value x) -> Value {
        return combineExtreme(b, location, element, /*largest=*/true, a, x);
      });
  if (!y) {
    return failure();
  }
  lowering.bind(pool.getY(), y);
  return success();
}

/// The smallest number of a position whose element is the largest.
LogicalResult computeMaxPoolIndex(Lowering &lowering, Operation *op) {
  MaxPoolIndexOp pool = cast<MaxPoolIndexOp>(op);
  Dims in = getDims(pool.getX().getType()), out = getDims(pool.getY().getType());
  Window window{pool.getStrides(), pool.getPads(), pool.getDilations()};
  ArrayRef<int64_t> kernel = pool.getKernel();
  SmallVector<AffineExpr> space = poolSpace(lowering, out, kernel);
  TypedAttr none = lowering.builder.getI64IntegerAttr(std::numeric_limits<int64_t>::max());
  Value y = reduce(
      lowering, space, lastReduced(space.size(), kernel.size()), none,
      [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
        OpBuilder &b = body.builder;
        PoolElement x = poolElement(body, pool.getX(), at, out, window, kernel, /*last=*/false);
        Value largest = x.value ? body.at(pool.getLargest(), at.take_front(out.size())) : Value();
        if (!largest) {
          return {};
        }
        AffineExpr number = b.getAffineConstantExpr(0);
        for (size_t i = 0; i < kernel.size(); ++i) {
          number = number * in[2 + i] + x.positions[i];
        }
        ScalarEmitter e(b, lowering.location, getElementTypeOrSelf(pool.getX()));
        Value element = e.load(x.value);
        Value isLargest = e.compare(Predicate::eq, element, e.load(largest));
        Value isNan = e.compare(Predicate::ne, element, element);
        isLargest = arith::OrIOp::create(b, lowering.location, isLargest, isNan);
        Value position =
            arith::IndexCastOp::create(b, lowering.location, b.getI64Type(), body.index(number));
        Value never = arith::ConstantOp::create(b, lowering.location, none);
        Value here = arith::SelectOp::create(b, lowering.location, isLargest, position, never);
        return selectInside(body, x.inside, here, never);
      },
      [](OpBuilder &b, Location location, Value a, Value x) -> Value {
        return arith::MinSIOp::create(b, location, a, x);
      });
  if (!y) {
    return failure();
  }
  lowering.bind(pool.getY(), y);
  return success();
}

namespace {

/// Taps of one window that lie inside the operand (or its padding) along one dim, as an index
/// value.
Value countTaps(Body &body, const Window &window, AffineExpr output, AffineExpr input,
                int64_t kernel, int64_t padEnd, size_t i, bool includePad) {
  OpBuilder &b = body.builder;
  Location location = body.lowering.location;
  int64_t dilation = window.dilations[i];
  AffineExpr start = output * window.strides[i] - window.pads[i];
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, location, value);
  };
  // Taps t with low <= start + t * dilation < high.
  Value first = constant(0);
  if (!includePad) {
    first = arith::MaxSIOp::create(b, location, first, body.index((-start).ceilDiv(dilation)));
  }
  AffineExpr high = includePad ? input + padEnd : input;
  Value beyond = body.index((high - start).ceilDiv(dilation));
  Value end = arith::MinSIOp::create(b, location, beyond, constant(kernel));
  Value taps = arith::SubIOp::create(b, location, end, first);
  // A window with no tap in the operand has the sum 0.
  bool mayMiss = window.pads[i] > 0 || padEnd > 0 || dilation > 1;
  return mayMiss ? arith::MaxSIOp::create(b, location, taps, constant(1)).getResult() : taps;
}

} // namespace

LogicalResult computeAvgPool(Lowering &lowering, Operation *op) {
  AvgPoolOp pool = cast<AvgPoolOp>(op);
  bool last = pool.getChannelsLast();
  Dims out = getDims(pool.getY().getType());
  Window window{pool.getStrides(), pool.getPads(), pool.getDilations()};
  ArrayRef<int64_t> kernel = pool.getKernel();
  SmallVector<AffineExpr> space = poolSpace(lowering, out, kernel);
  Value sum = reduce(
      lowering, space, lastReduced(space.size(), kernel.size()), zeroSum(lowering, pool.getY()),
      [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
        PoolElement x = poolElement(body, pool.getX(), at, out, window, kernel, last);
        if (!x.value) {
          return {};
        }
        Value value = selectInside(body, x.inside, x.value, zeroOf(body, x.value.getType()));
        return widen(body.builder, lowering.location, value);
      },
      combineSum);
  if (!sum) {
    return failure();
  }
  SmallVector<AffineExpr> input = spatialOf(getDims(pool.getX().getType()), last);
  Type storage = storageType(getElementTypeOrSelf(pool.getY()));
  Body body(lowering, out);
  OpBuilder &b = body.builder;
  SmallVector<AffineExpr> at = body.loops();
  SmallVector<AffineExpr> outAt = spatialOf(at, last);
  Value count = arith::ConstantIndexOp::create(b, lowering.location, 1);
  for (size_t i = 0; i < kernel.size(); ++i) {
    Value taps = countTaps(body, window, outAt[i], input[i], kernel[i],
                           window.pads[kernel.size() + i], i, pool.getCountIncludePad());
    count = arith::MulIOp::create(b, lowering.location, count, taps);
  }
  Value total = body.load(sum, at);
  Value wide = arith::IndexCastOp::create(b, lowering.location, b.getI64Type(), count);
  Value divisor = arith::SIToFPOp::create(b, lowering.location, total.getType(), wide);
  Value mean = arith::DivFOp::create(b, lowering.location, total, divisor);
  Value element = narrow(b, lowering.location, mean, storage);
  lowering.bind(pool.getY(), body.finish(element, lowering.empty(out, storage),
                                         lowering.builder.getMultiDimIdentityMap(out.size()))
                                 .getResult(0));
  return success();
}

} // namespace tenon::codegen
