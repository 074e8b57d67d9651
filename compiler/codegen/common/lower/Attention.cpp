// Attention in its plain form: scores, softmax and the weighted sum as passes over one row of
// scores. Regions of f32 with a product kernel use that instead (codegen/cpu).
#include "compiler/codegen/common/lower/Compute.h"
#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/SmallBitVector.h"

#include <limits>

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {
namespace {

/// Operands and result by their logical indices (batch, head, position, feature).
class AttentionLayout {
public:
  explicit AttentionLayout(AttentionOp op) : op(op) {}

  enum Tensor { kQuery, kKey, kValue, kResult };

  /// The logical dims or indices from those of the stored tensor; its own inverse.
  SmallVector<AffineExpr> swapped(Tensor which, ArrayRef<AffineExpr> list) const {
    SmallVector<AffineExpr> result(list);
    if (AttentionOp(op).getHeadsInner()[which]) {
      std::swap(result[1], result[2]);
    }
    return result;
  }
  Dims dims(Tensor which, Value value) const { return swapped(which, getDims(value.getType())); }

private:
  AttentionOp op;
};

llvm::SmallBitVector lastOf(size_t rank) {
  llvm::SmallBitVector reduced(rank);
  reduced.set(rank - 1);
  return reduced;
}

Value product(Body &body, Value a, Value b) {
  return a && b ? arith::MulFOp::create(body.builder, body.lowering.location, a, b).getResult()
                : Value();
}

/// scale * (q . k) with the mask added and future keys put out of reach.
Value maskedScore(Body &body, AttentionOp op, Value dot, ArrayRef<AffineExpr> at,
                  AffineExpr keysAhead) {
  OpBuilder &b = body.builder;
  Location location = body.lowering.location;
  Type type = dot.getType();
  Value scale =
      arith::ConstantOp::create(b, location, b.getFloatAttr(type, op.getScale().convertToDouble()));
  Value score = arith::MulFOp::create(b, location, dot, scale);
  if (op.getMask()) {
    Dims maskDims = getDims(op.getMask().getType());
    SmallVector<AffineExpr> maskAt(at.take_back(maskDims.size()));
    for (auto [i, dim] : llvm::enumerate(maskDims)) {
      if (constantDim(dim) == 1) {
        maskAt[i] = b.getAffineConstantExpr(0);
      }
    }
    Value mask = wideAt(body, op.getMask(), maskAt);
    if (!mask) {
      return {};
    }
    score = arith::AddFOp::create(b, location, score, mask);
  }
  if (op.getCausal()) {
    AffineExpr first = op.getStart() ? b.getAffineConstantExpr(0) : keysAhead;
    Value distance = body.index(at[3] - at[2] - first);
    if (op.getStart()) {
      Value start = body.at(op.getStart(), b.getAffineConstantExpr(0));
      if (!start) {
        return {};
      }
      start = arith::IndexCastOp::create(b, location, b.getIndexType(), start);
      distance = arith::SubIOp::create(b, location, distance, start);
    }
    auto compare = [&](arith::CmpIPredicate predicate, int64_t number) -> Value {
      Value bound = arith::ConstantIndexOp::create(b, location, number);
      return arith::CmpIOp::create(b, location, predicate, distance, bound);
    };
    Value isHidden = compare(arith::CmpIPredicate::sgt, 0);
    if (int64_t window = op.getWindow(); window > 0) {
      isHidden =
          arith::OrIOp::create(b, location, isHidden, compare(arith::CmpIPredicate::sle, -window));
    }
    Value lowest = arith::ConstantOp::create(
        b, location, b.getFloatAttr(type, -std::numeric_limits<double>::infinity()));
    score = arith::SelectOp::create(b, location, isHidden, lowest, score);
  }
  return score;
}

} // namespace

LogicalResult computeAttention(Lowering &lowering, Operation *operation) {
  AttentionOp op = cast<AttentionOp>(operation);
  AttentionLayout layout(op);
  OpBuilder &builder = lowering.builder;
  Type storage = storageType(getElementTypeOrSelf(op.getQ()));
  Type wide = accumulatorType(storage);
  Dims q = layout.dims(AttentionLayout::kQuery, op.getQ());
  Dims k = layout.dims(AttentionLayout::kKey, op.getK());
  AffineExpr sharing = q[1].floorDiv(k[1]);
  auto keyHead = [&](AffineExpr head) {
    return sameDim(q[1], k[1]) ? head : head.floorDiv(sharing);
  };
  TypedAttr zero = builder.getFloatAttr(wide, 0);

  SmallVector<AffineExpr> scoreDims = {q[0], q[1], q[2], k[2]};
  SmallVector<AffineExpr> space(scoreDims);
  space.push_back(q[3]);
  Value dots = reduce(
      lowering, space, lastOf(5), zero,
      [&](Body &body, ArrayRef<AffineExpr> at) {
        SmallVector<AffineExpr> query = {at[0], at[1], at[2], at[4]};
        SmallVector<AffineExpr> key = {at[0], keyHead(at[1]), at[3], at[4]};
        return product(body,
                       wideAt(body, op.getQ(), layout.swapped(AttentionLayout::kQuery, query)),
                       wideAt(body, op.getK(), layout.swapped(AttentionLayout::kKey, key)));
      },
      combineSum);
  Value scores = dots
                     ? compute(lowering, scoreDims, wide,
                               [&](Body &body, ArrayRef<AffineExpr> at) {
                                 return maskedScore(body, op, body.load(dots, at), at, k[2] - q[2]);
                               })
                     : Value();
  if (!scores) {
    return failure();
  }
  // The probabilities of a query that sees no key are exp(-inf - lowest) = 0, and so is their sum,
  // which is 1 or more in every other row: 0 / 1 or 0 / 0.
  const llvm::fltSemantics &semantics = cast<FloatType>(wide).getFloatSemantics();
  APFloat lowest = APFloat::getLargest(semantics, /*Negative=*/true);
  Value maximum = reduce(
      lowering, scoreDims, lastOf(4), builder.getFloatAttr(wide, lowest),
      [&](Body &body, ArrayRef<AffineExpr> at) { return body.load(scores, at); },
      [&](OpBuilder &b, Location location, Value a, Value x) -> Value {
        return combineExtreme(b, location, wide, /*largest=*/true, a, x);
      });
  Value probabilities =
      compute(lowering, scoreDims, wide, [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
        Value top = body.load(maximum, at.drop_back());
        Value shifted =
            arith::SubFOp::create(body.builder, lowering.location, body.load(scores, at), top);
        return math::ExpOp::create(body.builder, lowering.location, shifted);
      });
  Value sum = reduce(
      lowering, scoreDims, lastOf(4), zero,
      [&](Body &body, ArrayRef<AffineExpr> at) { return body.load(probabilities, at); },
      combineSum);

  Dims resultDims = getDims(op.getY().getType());
  SmallVector<AffineExpr> sumSpace(resultDims);
  sumSpace.push_back(k[2]);
  Value total = reduce(
      lowering, sumSpace, lastOf(5), zero,
      [&](Body &body, ArrayRef<AffineExpr> at) {
        SmallVector<AffineExpr> to = layout.swapped(AttentionLayout::kResult, at.take_front(4));
        SmallVector<AffineExpr> value = {to[0], keyHead(to[1]), at[4], to[3]};
        SmallVector<AffineExpr> weight = {to[0], to[1], to[2], at[4]};
        return product(body, body.load(probabilities, weight),
                       wideAt(body, op.getV(), layout.swapped(AttentionLayout::kValue, value)));
      },
      combineSum);
  if (!total) {
    return failure();
  }
  Value y =
      compute(lowering, resultDims, storage, [&](Body &body, ArrayRef<AffineExpr> at) -> Value {
        SmallVector<AffineExpr> to = layout.swapped(AttentionLayout::kResult, at);
        to.pop_back();
        Value divisor = body.load(sum, to);
        std::optional<int64_t> keys = constantDim(k[2]);
        if (!op.getMaskedRowsAreNan() || !keys || *keys == 0) {
          OpBuilder &b = body.builder;
          Value one = arith::ConstantOp::create(b, lowering.location, b.getFloatAttr(wide, 1));
          Value atLeastOne = arith::MaximumFOp::create(b, lowering.location, divisor, one);
          if (op.getMaskedRowsAreNan()) {
            Value none = arith::ConstantIndexOp::create(b, lowering.location, 0);
            Value hasKeys = arith::CmpIOp::create(b, lowering.location, arith::CmpIPredicate::sgt,
                                                  body.index(k[2]), none);
            divisor = arith::SelectOp::create(b, lowering.location, hasKeys, divisor, atLeastOne);
          } else {
            divisor = atLeastOne;
          }
        }
        return arith::DivFOp::create(body.builder, lowering.location, body.load(total, at),
                                     divisor);
      });
  lowering.bind(op.getY(), y);
  return success();
}

} // namespace tenon::codegen
