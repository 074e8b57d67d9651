// Products in their plain form: matmul and convolution as one linalg.generic each. Regions with a
// contraction strategy have kernels of their own; this form serves every other shape (grouped,
// dilated, 1-D and 3-D) and small sizes.
#include "compiler/codegen/common/lower/Compute.h"
#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/lower/Window.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/graph/NarrowIntegers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {
namespace {

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

/// The product of two elements, the first one of `x`, as it is summed for `y`: of bytes in i32.
Value multiply(Body &body, Value a, Value b, Value x, Value y) {
  Location location = body.lowering.location;
  Type sum = storageType(getElementTypeOrSelf(y));
  if (sum.isInteger(32) && a.getType().isInteger(8)) {
    a = isSignedByte(getElementTypeOrSelf(x))
            ? arith::ExtSIOp::create(body.builder, location, sum, a).getResult()
            : arith::ExtUIOp::create(body.builder, location, sum, a).getResult();
    b = arith::ExtSIOp::create(body.builder, location, sum, b);
  }
  if (!isa<FloatType>(a.getType())) {
    return arith::MulIOp::create(body.builder, location, a, b);
  }
  return arith::MulFOp::create(body.builder, location, widen(body.builder, location, a),
                               widen(body.builder, location, b));
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
        return a && b ? multiply(body, a, b, matmul.getA(), matmul.getY()) : Value();
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
        return multiply(body, x, w, conv.getX(), conv.getY());
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
        x = selectInside(body, inside, x, zeroOf(body, x.getType()));
        return multiply(body, x, w, conv.getX(), conv.getY());
      },
      combineSum);
  return sum ? bindSum(lowering, conv.getY(), sum, conv.getBias(), false) : failure();
}

} // namespace tenon::codegen
