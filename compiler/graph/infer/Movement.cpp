// Shape rules and verifiers of the operations that move elements without computing.
// Relies on infer/Infer.h; indices are checked when they are read, not here.
#include "compiler/graph/infer/Infer.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/CheckedArithmetic.h"

using namespace mlir;
using namespace tenon::tn;
using namespace tenon::tn::infer;

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *, infer::Location location,
                                            Adaptor adaptor, Types &types) {
  Dims dims = dimsOf(adaptor.getX());
  ArrayRef<int64_t> permutation = adaptor.getPermutation();
  SmallVector<bool> used(dims.size(), false);
  bool valid = permutation.size() == dims.size();
  Dims result;
  for (size_t i = 0; valid && i < dims.size(); ++i) {
    int64_t source = permutation[i];
    valid = source >= 0 && source < int64_t(dims.size()) && !used[source];
    if (valid) {
      used[source] = true;
      result.push_back(dims[source]);
    }
  }
  if (!valid) {
    return emitOptionalError(location, "the permutation does not name each of ", dims.size(),
                             " dims once");
  }
  return append(location, result, elementOf(adaptor.getX()), types);
}

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *, infer::Location location, Adaptor adaptor,
                                         Types &types) {
  if (adaptor.getXs().empty()) {
    return emitOptionalError(location, "concat needs an operand");
  }
  Value first = adaptor.getXs().front();
  Dims dims = dimsOf(first);
  int64_t axis = adaptor.getAxis();
  if (failed(checkAxis(location, axis, dims.size()))) {
    return failure();
  }
  for (Value other : adaptor.getXs().drop_front()) {
    Dims next = dimsOf(other);
    if (failed(checkSameElement(location, first, other))) {
      return failure();
    }
    if (next.size() != dims.size()) {
      return emitOptionalError(location, "operands of ranks ", dims.size(), " and ", next.size(),
                               " cannot be concatenated");
    }
    for (size_t i = 0; i < dims.size(); ++i) {
      if (int64_t(i) != axis &&
          failed(checkSameDim(location, dims[i], next[i], "dims beside the concatenated axis"))) {
        return failure();
      }
    }
    if (!dims[axis] || !next[axis]) {
      dims[axis] = AffineExpr();
      continue;
    }
    dims[axis] = addDims(dims[axis], next[axis]);
    if (!dims[axis]) {
      return emitOptionalError(location, "the size of the concatenated axis overflows");
    }
  }
  return append(location, dims, elementOf(first), types);
}

LogicalResult PadOp::inferReturnTypes(MLIRContext *context, infer::Location location,
                                      Adaptor adaptor, Types &types) {
  Dims dims = dimsOf(adaptor.getX());
  ArrayRef<int64_t> begins = adaptor.getBegins();
  ArrayRef<int64_t> ends = adaptor.getEnds();
  if (failed(checkExtents(location, begins, dims.size(), -kLargestExtent, "pad")) ||
      failed(checkExtents(location, ends, dims.size(), -kLargestExtent, "pad"))) {
    return failure();
  }
  if (Value value = adaptor.getValue()) {
    if (rankOf(value) != 0 || failed(checkSameElement(location, adaptor.getX(), value))) {
      return emitOptionalError(location, "the padding value is not a scalar of the data's type");
    }
  }
  for (auto [index, dim] : llvm::enumerate(dims)) {
    bool grows = begins[index] > 0 || ends[index] > 0;
    if (constantDim(dim) == 0 && grows && adaptor.getMode() != PadMode::constant) {
      return emitOptionalError(location, "dim ", index, " is empty: there is nothing to repeat");
    }
    AffineExpr growth = getAffineConstantExpr(begins[index] + ends[index], context);
    AffineExpr size = addDims(dim, growth);
    if (dim && (!size || constantDim(size).value_or(0) < 0)) {
      return emitOptionalError(location, "pads of ", begins[index], " and ", ends[index],
                               " do not fit dim ", index, " of size ", text(dim));
    }
    dim = size;
  }
  return append(location, dims, elementOf(adaptor.getX()), types);
}

LogicalResult ReshapeOp::verify() {
  if (failed(checkSameElement(getLoc(), getX(), getY()))) {
    return failure();
  }
  AffineExpr before = elementCount(getContext(), dimsOf(getX()));
  AffineExpr after = elementCount(getContext(), dimsOf(getY()));
  if (!before || !after || before == after) {
    return success();
  }
  return emitOpError("changes the number of elements from ")
         << text(before) << " to " << text(after);
}

LogicalResult BroadcastOp::verify() {
  return success(succeeded(checkSameElement(getLoc(), getX(), getY())) &&
                 succeeded(checkBroadcastsTo(getLoc(), dimsOf(getX()), dimsOf(getY()), "tensor")));
}

LogicalResult SliceOp::verify() {
  size_t rank = rankOf(getX());
  AffineMap starts = getStarts();
  if (starts.getNumDims() != 0 || starts.getNumResults() != rank || getSteps().size() != rank ||
      rankOf(getY()) != int64_t(rank)) {
    return emitOpError("needs a start, a step and a result dim for each of ") << rank << " dims";
  }
  if (failed(checkSameElement(getLoc(), getX(), getY()))) {
    return failure();
  }
  Dims in = dimsOf(getX());
  Dims out = dimsOf(getY());
  for (size_t i = 0; i < rank; ++i) {
    if (getSteps()[i] == 0) {
      return emitOpError("has step 0 in dim ") << i;
    }
    std::optional<int64_t> start = constantDim(starts.getResult(i));
    std::optional<int64_t> size = constantDim(in[i]);
    std::optional<int64_t> count = constantDim(out[i]);
    if (!start || !size || !count || *count == 0) {
      continue;
    }
    std::optional<int64_t> last = llvm::checkedMulAdd(*count - 1, getSteps()[i], *start);
    if (*start < 0 || *start >= *size || !last || *last < 0 || *last >= *size) {
      return emitOpError("reads outside dim ") << i << " of size " << *size;
    }
  }
  return success();
}

LogicalResult IotaOp::verify() {
  if (rankOf(getStart()) != 0 || rankOf(getStep()) != 0 || rankOf(getY()) != 1) {
    return emitOpError("takes scalars and gives one dim");
  }
  return success(succeeded(checkSameElement(getLoc(), getStart(), getStep())) &&
                 succeeded(checkSameElement(getLoc(), getStart(), getY())));
}

LogicalResult TriluOp::verify() {
  return rankOf(getX()) >= 2 ? success() : emitOpError("needs two dims");
}

LogicalResult TopKOp::verify() {
  Dims dims = dimsOf(getX());
  int64_t axis = getAxis();
  if (failed(checkAxis(getLoc(), axis, dims.size())) ||
      failed(checkSameElement(getLoc(), getX(), getValues()))) {
    return failure();
  }
  if (!elementOf(getIndices()).isSignlessInteger(64) ||
      rankOf(getValues()) != int64_t(dims.size())) {
    return emitOpError("gives i64 indices and results of the operand's rank");
  }
  AffineExpr count = dimsOf(getValues())[axis];
  std::optional<int64_t> size = constantDim(dims[axis]);
  if (size && constantDim(count).value_or(0) > *size) {
    return emitOpError("is asked for more than the ") << *size << " elements of axis " << axis;
  }
  dims[axis] = count;
  return success(succeeded(checkDims(getLoc(), getValues(), dims, "values")) &&
                 succeeded(checkDims(getLoc(), getIndices(), dims, "indices")));
}
