// Verifiers and folds of the operations that hold constants and regions.
// Relies on Shape.h for the agreement of types.
#include "compiler/graph/Winograd.h"
#include "compiler/graph/infer/Infer.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tenon::tn;
using namespace tenon::tn::infer;

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

LogicalResult SizesOp::verify() {
  RankedTensorType type = typeOf(getY());
  AffineMap values = getValues();
  if (type.getRank() > 1 || !type.getElementType().isSignlessInteger() ||
      type.getElementType().isInteger(1)) {
    return emitOpError("gives a scalar or a list of signed integers, not ") << type;
  }
  if (values.getNumDims() != 0 || values.getNumResults() != type.getNumElements()) {
    return emitOpError("needs one expression over symbols for each of ")
           << type.getNumElements() << " elements";
  }
  return success();
}

LogicalResult PackOp::verify() {
  Dims weight = dimsOf(getWeight());
  ArrayRef<int64_t> permutation = getPermutation();
  int64_t rank = weight.size();
  int64_t leading = getRows();
  int64_t panel = getPanel();
  int64_t groups = getGroups();
  SmallVector<bool> used(rank, false);
  bool valid = int64_t(permutation.size()) == rank && leading >= 0 && leading <= rank &&
               panel >= 1 && panel <= kLargestExtent && groups >= 1;
  int64_t rows = 1;
  int64_t columns = 1;
  for (int64_t i = 0; valid && i < rank; ++i) {
    int64_t source = permutation[i];
    valid = source >= 0 && source < rank && !used[source] && constantDim(weight[source]);
    if (valid) {
      used[source] = true;
      (i < leading ? rows : columns) *= *constantDim(weight[source]);
    }
  }
  if (!valid || columns % groups != 0) {
    return emitOpError("cannot lay out a weight ") << text(weight) << " with these attributes";
  }
  if (IntegerAttr winograd = (*this)->getAttrOfType<IntegerAttr>(winograd::kAttribute)) {
    bool isSquare = leading >= 2 && llvm::all_of(permutation.take_front(2), [&](int64_t dim) {
                      return constantDim(weight[dim]) == winograd::kTaps;
                    });
    int64_t m = winograd.getInt();
    if (!isSquare || (m != 2 && m != 4) || !elementOf(getWeight()).isF32()) {
      return emitOpError("cannot transform the filters of a weight ") << text(weight);
    }
    rows = winograd::transformedDepth(rows, m);
  }
  int64_t panels = (columns / groups + panel - 1) / panel;
  SmallVector<int64_t> shape = {panels, rows, panel};
  if (groups > 1) {
    shape.insert(shape.begin(), groups);
  }
  if (typeOf(getY()).getShape() != ArrayRef(shape) || elementOf(getY()) != elementOf(getWeight())) {
    return emitOpError("gives ") << RankedTensorType::get(shape, elementOf(getWeight())) << ", not "
                                 << getY().getType();
  }
  return success();
}

LogicalResult RegionOp::verify() {
  Block &block = getBody().front();
  if (!typesAgree(block.getArgumentTypes(), getInputs().getTypes())) {
    return emitOpError("has body arguments that do not agree with its operands");
  }
  YieldOp yield = block.empty() ? YieldOp() : dyn_cast<YieldOp>(block.back());
  if (!yield) {
    return emitOpError("does not end in tn.yield");
  }
  if (!typesAgree(yield.getValues().getTypes(), getOutputs().getTypes())) {
    return emitOpError("yields types that do not agree with its results");
  }
  return success();
}
