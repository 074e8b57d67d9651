// The gathers: elements of an operand at positions that another tensor holds. An index outside of
// its dim fails the kernel and is held inside, so that no read leaves the tensor.
#include "compiler/codegen/common/lower/ElementFn.h"
#include "compiler/codegen/common/region/Failures.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {

namespace {

/// -size <= element < size, in 64 bits: the index type of a kernel may have fewer.
Value isInDim(OpBuilder &b, Location location, Value element, Value size) {
  Type wide = b.getI64Type();
  Value number = arith::IndexCastOp::create(b, location, wide, size);
  if (element.getType() != wide) {
    element = arith::ExtSIOp::create(b, location, wide, element);
  }
  // Both ends by one comparison: a sum below zero is a large unsigned number.
  Value shifted = arith::AddIOp::create(b, location, element, number);
  Value twice = arith::AddIOp::create(b, location, number, number);
  return arith::CmpIOp::create(b, location, arith::CmpIPredicate::ult, shifted, twice);
}

/// Whether all elements of an index tensor are constants inside a dim of constant size.
bool areKnownInDim(Value indices, AffineExpr dim) {
  ConstantOp constant = indices.getDefiningOp<ConstantOp>();
  DenseElementsAttr elements =
      constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  std::optional<int64_t> size = constantDim(dim);
  return elements && size && llvm::all_of(elements.getValues<APInt>(), [&](const APInt &element) {
           return element.sge(-*size) && element.slt(*size);
         });
}

} // namespace

Value indexInDim(OpBuilder &b, Location location, Value indices, Value element, AffineExpr dim,
                 Value size) {
  Value zero = arith::ConstantIndexOp::create(b, location, 0);
  Value one = arith::ConstantIndexOp::create(b, location, 1);
  Value index = arith::IndexCastOp::create(b, location, b.getIndexType(), element);
  Value isNegative = arith::CmpIOp::create(b, location, arith::CmpIPredicate::slt, index, zero);
  Value wrapped = arith::AddIOp::create(b, location, index, size);
  Value counted = arith::SelectOp::create(b, location, isNegative, wrapped, index);
  Value last = arith::SubIOp::create(b, location, size, one);
  Value high = arith::MinSIOp::create(b, location, counted, last);
  Value held = arith::MaxSIOp::create(b, location, high, zero);
  return areKnownInDim(indices, dim)
             ? held
             : require(b, location, held, isInDim(b, location, element, size), Failure::index);
}

namespace {

AffineExpr indexFrom(Body &body, Value indices, ArrayRef<AffineExpr> position, AffineExpr size) {
  Value element = body.at(indices, position);
  if (!element) {
    return {};
  }
  return body.asIndex(
      indexInDim(body.builder, body.lowering.location, indices, element, size, body.index(size)));
}

/// What stands for an element of an empty operand: no index is inside of it.
Value missingElement(Body &body, Value x) {
  Value never = arith::ConstantOp::create(body.builder, body.lowering.location,
                                          body.builder.getBoolAttr(false));
  return require(body.builder, body.lowering.location, zeroElement(body, x), never, Failure::index);
}

} // namespace

Value elementOfGather(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  GatherOp gather = cast<GatherOp>(op);
  if (isEmpty(gather.getX())) {
    return missingElement(body, gather.getX());
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

Value elementOfGatherElements(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  GatherElementsOp gather = cast<GatherElementsOp>(op);
  if (isEmpty(gather.getX())) {
    return missingElement(body, gather.getX());
  }
  size_t axis = gather.getAxis();
  SmallVector<AffineExpr> mapped(indices);
  mapped[axis] =
      indexFrom(body, gather.getIndices(), indices, getDims(gather.getX().getType())[axis]);
  return mapped[axis] ? body.at(gather.getX(), mapped) : Value();
}

Value elementOfGatherNd(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  GatherNdOp gather = cast<GatherNdOp>(op);
  if (isEmpty(gather.getX())) {
    return missingElement(body, gather.getX());
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
