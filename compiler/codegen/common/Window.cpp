// Products and windows in their plain form: matmul, convolution, pooling as one linalg.generic
// each. Regions with a contraction strategy use the product micro-kernel instead; this form serves
// every other shape (grouped, dilated, 1-D and 3-D) and small sizes.
#include "compiler/codegen/common/Compute.h"
#include "compiler/codegen/common/Reduce.h"
#include "compiler/codegen/common/ScalarBody.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/SmallBitVector.h"

#include <limits>

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {
namespace {

/// Positions of a window's elements: output index * stride - pad + tap * dilation, for each spatial
/// dim.
struct Window {
  ArrayRef<int64_t> strides, pads, dilations;

  SmallVector<AffineExpr> positions(ArrayRef<AffineExpr> outputs, ArrayRef<AffineExpr> taps) const {
    SmallVector<AffineExpr> result;
    for (size_t i = 0; i < outputs.size(); ++i) {
      result.push_back(outputs[i] * strides[i] + taps[i] * dilations[i] - pads[i]);
    }
    return result;
  }
};

/// Whether no position of a window can lie outside of the operand.
bool staysInside(const Window &window, ArrayRef<AffineExpr> input, ArrayRef<AffineExpr> output,
                 ArrayRef<int64_t> kernel, size_t i) {
  std::optional<int64_t> in = constantDim(input[i]), out = constantDim(output[i]);
  return window.pads[i] == 0 && in && out &&
         (*out - 1) * window.strides[i] + (kernel[i] - 1) * window.dilations[i] < *in;
}

/// Spatial positions held inside the operand, and whether they were inside (null if always so).
struct Clamped {
  SmallVector<AffineExpr> positions;
  Value inside;
};

Clamped clampPositions(Body &body, const Window &window, ArrayRef<AffineExpr> positions,
                       ArrayRef<AffineExpr> input, ArrayRef<AffineExpr> output,
                       ArrayRef<int64_t> kernel) {
  OpBuilder &b = body.builder;
  Location location = body.lowering.location;
  Clamped result;
  for (size_t i = 0; i < positions.size(); ++i) {
    if (staysInside(window, input, output, kernel, i)) {
      result.positions.push_back(positions[i]);
      continue;
    }
    Value position = body.index(positions[i]);
    Value zero = arith::ConstantIndexOp::create(b, location, 0);
    Value size = body.index(input[i]);
    // One unsigned comparison sees both ends.
    Value inside = arith::CmpIOp::create(b, location, arith::CmpIPredicate::ult, position, size);
    Value safe = arith::SelectOp::create(b, location, inside, position, zero);
    result.inside =
        result.inside ? Value(arith::AndIOp::create(b, location, result.inside, inside)) : inside;
    result.positions.push_back(body.asIndex(safe));
  }
  return result;
}

Value selectInside(Body &body, Value inside, Value element, Value otherwise) {
  return inside ? arith::SelectOp::create(body.builder, body.lowering.location, inside, element,
                                          otherwise)
                      .getResult()
                : element;
}

Value zeroOf(Body &body, Type type) {
  return arith::ConstantOp::create(body.builder, body.lowering.location,
                                   body.builder.getZeroAttr(type));
}

/// Batch and channel dims around the spatial ones, in either layout.
SmallVector<AffineExpr> withSpatial(AffineExpr batch, AffineExpr channel,
                                    ArrayRef<AffineExpr> spatial, bool channelsLast) {
  SmallVector<AffineExpr> result = {batch};
  if (!channelsLast) {
    result.push_back(channel);
  }
  llvm::append_range(result, spatial);
  if (channelsLast) {
    result.push_back(channel);
  }
  return result;
}

SmallVector<AffineExpr> spatialOf(ArrayRef<AffineExpr> dims, bool channelsLast) {
  return SmallVector<AffineExpr>(channelsLast ? dims.slice(1, dims.size() - 2)
                                              : dims.drop_front(2));
}

AffineExpr channelOf(ArrayRef<AffineExpr> dims, bool channelsLast) {
  return channelsLast ? dims.back() : dims[1];
}

llvm::SmallBitVector lastReduced(size_t rank, size_t count) {
  llvm::SmallBitVector reduced(rank);
  reduced.set(rank - count, rank);
  return reduced;
}

/// Rounds a widened sum to the stored type and adds an optional bias along the channels.
LogicalResult bindSum(Lowering &lowering, Value y, Value sum, Value bias, bool channelsLast) {
  Dims dims = getDims(y.getType());
  Type storage = storageType(getElementTypeOrSelf(y));
  if (!bias && getElementTypeOrSelf(sum) == storage) {
    lowering.bind(y, sum);
    return success();
  }
  Body body(lowering, dims);
  SmallVector<AffineExpr> at = body.loops();
  Value total = body.load(sum, at);
  if (bias) {
    Value offset = body.at(bias, channelOf(at, channelsLast));
    if (!offset) {
      return failure();
    }
    total = combineSum(body.builder, lowering.location, total,
                       widen(body.builder, lowering.location, offset));
  }
  Value element = narrow(body.builder, lowering.location, total, storage);
  lowering.bind(y, body.finish(element, lowering.empty(dims, storage),
                               lowering.builder.getMultiDimIdentityMap(dims.size()))
                       .getResult(0));
  return success();
}

Value multiply(Body &body, Value a, Value b) {
  Location location = body.lowering.location;
  if (!isa<FloatType>(a.getType())) {
    return arith::MulIOp::create(body.builder, location, a, b);
  }
  return arith::MulFOp::create(body.builder, location, widen(body.builder, location, a),
                               widen(body.builder, location, b));
}

TypedAttr zeroSum(Lowering &lowering, Value y) {
  return lowering.builder.getZeroAttr(accumulatorType(getElementTypeOrSelf(y)));
}

} // namespace

LogicalResult computeMatmul(Lowering &lowering, Operation *op) {
  MatmulOp matmul = cast<MatmulOp>(op);
  Dims out = getDims(matmul.getY().getType());
  Dims aDims = getDims(matmul.getA().getType());
  Dims bDims = getDims(matmul.getB().getType());
  size_t rank = out.size();
  SmallVector<AffineExpr> space(out);
  space.push_back(matmul.getTransposeA() ? aDims[aDims.size() - 2] : aDims.back());
  auto operandIndices = [&](ArrayRef<AffineExpr> dims, ArrayRef<AffineExpr> at, AffineExpr row,
                            AffineExpr column) {
    SmallVector<AffineExpr> indices;
    size_t batch = dims.size() - 2;
    for (size_t i = 0; i < batch; ++i) {
      AffineExpr loop = at[rank - 2 - batch + i];
      indices.push_back(constantDim(dims[i]) == 1 ? lowering.builder.getAffineConstantExpr(0)
                                                  : loop);
    }
    indices.push_back(row);
    indices.push_back(column);
    return indices;
  };
  Value sum = reduce(
      lowering, space, lastReduced(space.size(), 1), zeroSum(lowering, matmul.getY()),
      [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
        AffineExpr m = at[rank - 2], n = at[rank - 1], k = at[rank];
        Value a = body.at(matmul.getA(), matmul.getTransposeA() ? operandIndices(aDims, at, k, m)
                                                                : operandIndices(aDims, at, m, k));
        Value b = body.at(matmul.getB(), matmul.getTransposeB() ? operandIndices(bDims, at, n, k)
                                                                : operandIndices(bDims, at, k, n));
        return a && b ? multiply(body, a, b) : Value();
      },
      combineSum);
  return sum ? bindSum(lowering, matmul.getY(), sum, Value(), false) : failure();
}

LogicalResult computeConv(Lowering &lowering, Operation *op) {
  ConvOp conv = cast<ConvOp>(op);
  bool last = conv.getChannelsLast();
  Dims in = getDims(conv.getX().getType()), out = getDims(conv.getY().getType());
  Dims weight = getDims(conv.getWeight().getType());
  SmallVector<AffineExpr> input = spatialOf(in, last), output = spatialOf(out, last);
  size_t spatial = input.size();
  SmallVector<int64_t> kernel;
  for (AffineExpr dim : ArrayRef<AffineExpr>(weight).drop_front(2)) {
    kernel.push_back(constantDim(dim).value_or(1));
  }
  Window window{conv.getStrides(), conv.getPads(), conv.getDilations()};
  SmallVector<AffineExpr> space(out);
  OpBuilder &builder = lowering.builder;
  AffineExpr perGroup = weight[1];
  space.push_back(perGroup);
  for (int64_t size : kernel) {
    space.push_back(builder.getAffineConstantExpr(size));
  }
  AffineExpr outPerGroup = channelOf(out, last).floorDiv(conv.getGroups());
  Value sum = reduce(
      lowering, space, lastReduced(space.size(), spatial + 1), zeroSum(lowering, conv.getY()),
      [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
        ArrayRef<AffineExpr> outAt = at.take_front(out.size()), taps = at.take_back(spatial);
        AffineExpr oc = channelOf(outAt, last), ic = at[out.size()];
        SmallVector<AffineExpr> positions = window.positions(spatialOf(outAt, last), taps);
        Clamped clamped = clampPositions(body, window, positions, input, output, kernel);
        AffineExpr channel = oc.floorDiv(outPerGroup) * perGroup + ic;
        if (conv.getGroups() == 1) {
          channel = ic;
        } else if (constantDim(perGroup) == 1 && constantDim(outPerGroup) == 1) {
          channel = oc;
        }
        Value x = body.at(conv.getX(), withSpatial(outAt[0], channel, clamped.positions, last));
        SmallVector<AffineExpr> weightAt = {oc, ic};
        llvm::append_range(weightAt, taps);
        Value w = body.at(conv.getWeight(), weightAt);
        if (!x || !w) {
          return {};
        }
        x = selectInside(body, clamped.inside, x, zeroOf(body, x.getType()));
        return multiply(body, x, w);
      },
      combineSum);
  return sum ? bindSum(lowering, conv.getY(), sum, conv.getBias(), last) : failure();
}

/// Gathers: output o receives input i through tap k where o = i * stride + k * dilation - pad.
LogicalResult computeConvTranspose(Lowering &lowering, Operation *op) {
  ConvTransposeOp conv = cast<ConvTransposeOp>(op);
  Dims in = getDims(conv.getX().getType()), out = getDims(conv.getY().getType());
  Dims weight = getDims(conv.getWeight().getType());
  size_t spatial = in.size() - 2;
  AffineExpr inPerGroup = in[1].floorDiv(conv.getGroups());
  SmallVector<AffineExpr> space(out);
  space.push_back(inPerGroup);
  space.append(weight.begin() + 2, weight.end());
  Value sum = reduce(
      lowering, space, lastReduced(space.size(), spatial + 1), zeroSum(lowering, conv.getY()),
      [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
        OpBuilder &b = body.builder;
        Location location = lowering.location;
        ArrayRef<AffineExpr> taps = at.take_back(spatial);
        AffineExpr group = at[1].floorDiv(weight[1]);
        SmallVector<AffineExpr> xAt = {at[0], group * inPerGroup + at[out.size()]};
        Value inside;
        for (size_t i = 0; i < spatial; ++i) {
          AffineExpr distance = at[2 + i] + conv.getPads()[i] - taps[i] * conv.getDilations()[i];
          Value position = body.index(distance.floorDiv(conv.getStrides()[i]));
          Value rest = body.index(distance % conv.getStrides()[i]);
          Value zero = arith::ConstantIndexOp::create(b, location, 0);
          Value within = arith::CmpIOp::create(b, location, arith::CmpIPredicate::ult, position,
                                               body.index(in[2 + i]));
          Value aligned = arith::CmpIOp::create(b, location, arith::CmpIPredicate::eq, rest, zero);
          Value here = arith::AndIOp::create(b, location, within, aligned);
          inside = inside ? Value(arith::AndIOp::create(b, location, inside, here)) : here;
          xAt.push_back(body.asIndex(arith::SelectOp::create(b, location, within, position, zero)));
        }
        SmallVector<AffineExpr> weightAt = {xAt[1], at[1] % weight[1]};
        llvm::append_range(weightAt, taps);
        Value x = body.at(conv.getX(), xAt);
        Value w = body.at(conv.getWeight(), weightAt);
        if (!x || !w) {
          return {};
        }
        return multiply(body, selectInside(body, inside, x, zeroOf(body, x.getType())), w);
      },
      combineSum);
  return sum ? bindSum(lowering, conv.getY(), sum, conv.getBias(), false) : failure();
}

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
  return {value, clamped.inside};
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
        if (isFloat) {
          return arith::MaximumFOp::create(b, location, a, x);
        }
        return isUnsigned ? Value(arith::MaxUIOp::create(b, location, a, x))
                          : Value(arith::MaxSIOp::create(b, location, a, x));
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
  return arith::SubIOp::create(b, location, end, first);
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
