// The gathers: elements of an operand at positions that another tensor holds. An index outside of
// its dim is held inside, so that no read leaves the tensor.
#include "compiler/codegen/common/Access.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {

Value indexInDim(OpBuilder &b, Location location, Value element, Value size) {
  Value zero = arith::ConstantIndexOp::create(b, location, 0);
  Value one = arith::ConstantIndexOp::create(b, location, 1);
  Value index = arith::IndexCastOp::create(b, location, b.getIndexType(), element);
  Value isNegative = arith::CmpIOp::create(b, location, arith::CmpIPredicate::slt, index, zero);
  Value wrapped = arith::AddIOp::create(b, location, index, size);
  Value counted = arith::SelectOp::create(b, location, isNegative, wrapped, index);
  Value last = arith::SubIOp::create(b, location, size, one);
  Value high = arith::MinSIOp::create(b, location, counted, last);
  return arith::MaxSIOp::create(b, location, high, zero);
}

namespace {

AffineExpr indexFrom(Body &body, Value indices, ArrayRef<AffineExpr> position, AffineExpr size) {
  Value element = body.at(indices, position);
  if (!element) {
    return {};
  }
  return body.asIndex(indexInDim(body.builder, body.lowering.location, element, body.index(size)));
}

} // namespace

Value accessGather(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  GatherOp gather = cast<GatherOp>(op);
  if (isEmpty(gather.getX())) {
    return zeroElement(body, gather.getX());
  }
  Dims dims = getDims(gather.getX().getType());
  size_t axis = gather.getAxis();
  size_t indexRank = getDims(gather.getIndices().getType()).size();
  AffineExpr chosen =
      indexFrom(body, gather.getIndices(), indices.slice(axis, indexRank), dims[axis]);
  if (!chosen) {
    return {};
  }
  SmallVector<AffineExpr> mapped(indices.take_front(axis));
  mapped.push_back(chosen);
  llvm::append_range(mapped, indices.drop_front(axis + indexRank));
  return body.at(gather.getX(), mapped);
}

Value accessGatherElements(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  GatherElementsOp gather = cast<GatherElementsOp>(op);
  if (isEmpty(gather.getX())) {
    return zeroElement(body, gather.getX());
  }
  size_t axis = gather.getAxis();
  SmallVector<AffineExpr> mapped(indices);
  mapped[axis] =
      indexFrom(body, gather.getIndices(), indices, getDims(gather.getX().getType())[axis]);
  return mapped[axis] ? body.at(gather.getX(), mapped) : Value();
}

Value accessGatherNd(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  GatherNdOp gather = cast<GatherNdOp>(op);
  if (isEmpty(gather.getX())) {
    return zeroElement(body, gather.getX());
  }
  Dims dims = getDims(gather.getX().getType());
  Dims indexDims = getDims(gather.getIndices().getType());
  size_t batch = gather.getBatchDims();
  int64_t tuple = constantDim(indexDims.back()).value_or(0);
  SmallVector<AffineExpr> mapped(indices.take_front(batch));
  for (int64_t i = 0; i < tuple; ++i) {
    SmallVector<AffineExpr> position(indices.take_front(indexDims.size() - 1));
    position.push_back(getAffineConstantExpr(i, body.builder.getContext()));
    AffineExpr chosen = indexFrom(body, gather.getIndices(), position, dims[batch + i]);
    if (!chosen) {
      return {};
    }
    mapped.push_back(chosen);
  }
  llvm::append_range(mapped, indices.drop_front(indexDims.size() - 1));
  return body.at(gather.getX(), mapped);
}

} // namespace tenon::codegen
