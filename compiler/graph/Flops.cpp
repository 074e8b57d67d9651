// Implements the counts: a rule for each kind of operation, its factor for each element.
#include "compiler/graph/Flops.h"

#include "compiler/graph/TnRare.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tenon::tn {
namespace {

AffineExpr countOf(Value value) {
  return elementCount(value.getContext(), getDims(value.getType()));
}

AffineExpr times(AffineExpr count, int64_t factor) {
  return count ? multiplyDims(count, getAffineConstantExpr(factor, count.getContext())) : count;
}

int64_t product(ArrayRef<int64_t> values) {
  int64_t result = 1;
  for (int64_t value : values) {
    result *= value;
  }
  return result;
}

/// Products and sums of a contraction: two for each element of `rows` and each of a weight's row.
AffineExpr ofWeight(Value rows, Value weight) {
  Dims dims = getDims(weight.getType());
  AffineExpr row = elementCount(weight.getContext(), ArrayRef(dims).drop_front());
  return times(multiplyDims(countOf(rows), row), 2);
}

/// Q Kᵀ for each element of q, and probabilities times V for each of the result; softmax is left
/// out.
AffineExpr ofAttention(AttentionOp op) {
  AffineExpr keys = getDims(op.getK().getType())[op.getHeadsInner()[1] ? 1 : 2];
  AffineExpr both = addDims(countOf(op.getQ()), countOf(op.getY()));
  return times(multiplyDims(keys, both), 2);
}

/// As of sequences that fill their tables of pages.
AffineExpr ofPagedAttention(PagedAttentionOp op) {
  AffineExpr keys =
      multiplyDims(getDims(op.getPages().getType())[1], getDims(op.getKeys().getType())[2]);
  return times(multiplyDims(keys, addDims(countOf(op.getQ()), countOf(op.getY()))), 2);
}

AffineExpr none(Operation *op) { return getAffineConstantExpr(0, op->getContext()); }

} // namespace

AffineExpr flopsOf(Operation *op) {
  if (op->getNumResults() == 0) {
    return none(op);
  }
  Value result = op->getResult(0);
  return llvm::TypeSwitch<Operation *, AffineExpr>(op)
      .Case([&](MatmulOp matmul) {
        Dims a = getDims(matmul.getA().getType());
        AffineExpr depth = a[a.size() - (matmul.getTransposeA() ? 2 : 1)];
        return times(multiplyDims(countOf(result), depth), 2);
      })
      .Case([&](ConvOp conv) { return ofWeight(result, conv.getWeight()); })
      .Case([&](ConvTransposeOp conv) { return ofWeight(conv.getX(), conv.getWeight()); })
      .Case(ofAttention)
      .Case(ofPagedAttention)
      .Case<MaxPoolOp, AvgPoolOp, MaxPoolIndexOp>(
          [&](auto pool) { return times(countOf(result), product(pool.getKernel())); })
      .Case<SoftmaxOp>([&](Operation *) { return times(countOf(result), 5); })
      .Case<LayerNormOp, GroupNormOp>([&](Operation *) { return times(countOf(result), 7); })
      .Case<RmsNormOp>([&](Operation *) { return times(countOf(result), 4); })
      .Case<BatchNormOp, QuantizeOp, DequantizeOp>(
          [&](Operation *) { return times(countOf(result), 2); })
      .Case<CastOp, BitcastOp, EncodeOp, DecodeOp, RequireOp>([&](Operation *) { return none(op); })
      .Default([&](Operation *other) {
        // Reductions count what they read, elementwise operations what they write.
        return other->hasTrait<TnRowWise>()       ? countOf(other->getOperand(0))
               : other->hasTrait<TnElementwise>() ? countOf(result)
                                                  : none(op);
      });
}

AffineExpr bytesOf(Value value) {
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  int64_t bits = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 8;
  return times(countOf(value), (bits + 7) / 8);
}

AffineExpr bytesOf(Operation *op) {
  AffineExpr bytes = none(op);
  if (isa<ReshapeOp>(op)) {
    return bytes;
  }
  bool takesPart = isa<SliceOp, GatherOp, GatherElementsOp, GatherNdOp>(op);
  llvm::SmallPtrSet<Value, 4> seen;
  for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
    if (seen.insert(operand).second) {
      bytes = addDims(bytes, bytesOf(takesPart && index == 0 ? op->getResult(0) : operand));
    }
  }
  for (Value result : op->getResults()) {
    bytes = addDims(bytes, bytesOf(result));
  }
  return bytes;
}

} // namespace tenon::tn
