// Row numbers are moved, made the first of several indices, and picked by.
#include "compiler/graph/RowNumbers.h"

using namespace mlir;

namespace tenon::tn {

namespace {

bool isFilledWith(Value value, int64_t number) {
  ConstantOp constant = value.getDefiningOp<ConstantOp>();
  DenseIntElementsAttr elements =
      constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue()) : DenseIntElementsAttr();
  return elements && elements.isSplat() && elements.getSplatValue<APInt>() == number;
}

} // namespace

bool isRowNumber(const KnownRows &known, IotaOp iota) {
  AffineExpr group = known.groupOf(getDims(iota.getType())[0]);
  return group && constantDim(group) == 1 && isFilledWith(iota.getStart(), 0) &&
         isFilledWith(iota.getStep(), 1);
}

Rows byRowNumbers(const KnownRows &known, Operation *op) {
  Rows first = known.of(op->getOperand(0));
  auto picksOwn = [&](Value x, Value indices, int64_t axis) {
    return known.of(x).isAlong(axis) &&
           sameDim(getDims(x.getType())[axis], getDims(indices.getType())[known.of(indices).axis]);
  };
  if (isa<ReshapeOp, BroadcastOp>(op)) {
    std::optional<int64_t> axis = known.onlyAxis(op->getResult(0).getType());
    std::optional<int64_t> group =
        axis ? constantDim(known.groupOf(getDims(op->getResult(0).getType())[*axis]))
             : std::nullopt;
    return group == 1 && first.isNumbered() ? Rows::numbered(*axis) : Rows::mixed(op, kByNumber);
  }
  if (isa<CastOp>(op) && isa<IntegerType>(getElementTypeOrSelf(op->getResult(0)))) {
    return first;
  }
  if (ConcatOp concat = dyn_cast<ConcatOp>(op)) {
    int64_t last = concat.getType().getRank() - 1;
    bool isFirst = first.isNumbered() && static_cast<int64_t>(concat.getAxis()) == last &&
                   first.axis != last &&
                   constantDim(getDims(concat.getXs()[0].getType())[last]) == 1;
    for (Value other : concat.getXs().drop_front()) {
      isFirst &= known.of(other).isAlong(first.axis) ||
                 (known.isAbsent(other) && known.isCommonAlong(other, first.axis));
    }
    return isFirst ? Rows::indexed(first.axis) : Rows::mixed(op, kByNumber);
  }
  if (GatherNdOp gather = dyn_cast<GatherNdOp>(op)) {
    Rows indices = known.of(gather.getIndices());
    bool isOwn = indices.isIndexed() && gather.getBatchDims() == 0 &&
                 picksOwn(gather.getX(), gather.getIndices(), 0);
    return isOwn ? Rows::along(indices.axis) : Rows::mixed(op, kByNumber);
  }
  if (GatherOp gather = dyn_cast<GatherOp>(op)) {
    int64_t axis = gather.getAxis();
    Rows indices = known.of(gather.getIndices());
    bool isOwn = indices.isNumbered() && gather.getIndices().getType().getRank() == 1 &&
                 picksOwn(gather.getX(), gather.getIndices(), axis);
    return isOwn ? Rows::along(axis) : Rows::mixed(op, kByNumber);
  }
  return Rows::mixed(op, kByNumber);
}

} // namespace tenon::tn
