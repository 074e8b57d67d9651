// Relies on views beginning where what they view does: a plan has no offset for them.
#include "compiler/graph/Views.h"

#include "compiler/graph/Shape.h"

using namespace mlir;

namespace tenon::tn {
namespace {

bool isOfScatter(Value value) {
  while (ReshapeOp reshape = value.getDefiningOp<ReshapeOp>()) {
    value = reshape.getX();
  }
  return isa_and_nonnull<ScatterNdOp, ScatterElementsOp>(value.getDefiningOp());
}

/// Whether a slice takes rows from the first on, whole ones and each.
bool isOfFirstRows(SliceOp slice) {
  Dims from = getDims(slice.getX().getType()), to = getDims(slice.getType());
  AffineMap starts = slice.getStarts();
  for (size_t i = 0; i < to.size(); ++i) {
    bool isWhole = i == 0 || from[i] == to[i];
    if (!isWhole || starts.getResult(i) != getAffineConstantExpr(0, slice.getContext()) ||
        slice.getSteps()[i] != 1) {
      return false;
    }
  }
  return !to.empty();
}

bool isReturned(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return user->hasTrait<OpTrait::IsTerminator>() ||
           (isa<ReshapeOp, SliceOp>(user) && isReturned(user->getResult(0)));
  });
}

} // namespace

Value viewedBy(Value value) {
  if (ReshapeOp reshape = value.getDefiningOp<ReshapeOp>()) {
    return reshape.getX();
  }
  SliceOp slice = value.getDefiningOp<SliceOp>();
  bool isView = slice && isOfFirstRows(slice) && isOfScatter(slice.getX()) && !isReturned(value);
  return isView ? slice.getX() : Value();
}

} // namespace tenon::tn
