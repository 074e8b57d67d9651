// Shape rules and verifiers of the operations that move elements without computing.
// Relies on infer/Infer.h; indices are checked when they are read, not here.
#include "compiler/graph/Constraints.h"
#include "compiler/graph/infer/Infer.h"

#include "mlir/IR/Builders.h"

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

namespace {

/// The smallest dim that can be padded so: what is taken off is there, and so is an element to be
/// repeated.
int64_t leastPadded(PadOp::Adaptor pad, size_t index) {
  int64_t begin = pad.getBegins()[index], end = pad.getEnds()[index];
  int64_t takenOff = -std::min<int64_t>(begin, 0) - std::min<int64_t>(end, 0);
  bool repeats = pad.getMode() != PadMode::constant && std::max(begin, end) > 0;
  return std::max<int64_t>(takenOff, repeats ? 1 : 0);
}

} // namespace

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
    AffineExpr growth = getAffineConstantExpr(begins[index] + ends[index], context);
    AffineExpr size = addDims(dim, growth);
    AffineExpr least = getAffineConstantExpr(leastPadded(adaptor, index), context);
    bool fits =
        !dim || (size && (constantDim(dim) ? *constantDim(dim) >= leastPadded(adaptor, index)
                                           : assumeIfHeard(ConstraintKind::at_least, dim, least)));
    if (!fits) {
      return emitOptionalError(location, "pads of ", begins[index], " and ", ends[index],
                               " do not fit dim ", index, " of size ", text(dim));
    }
    dim = size;
  }
  return append(location, dims, elementOf(adaptor.getX()), types);
}

/// The two counts of elements without the dims that both have.
static std::pair<AffineExpr, AffineExpr> differingCounts(MLIRContext *context, Dims before,
                                                         Dims after) {
  llvm::erase_if(before, [&](AffineExpr dim) {
    AffineExpr *same = llvm::find_if(after, [&](AffineExpr other) {
      return sameDim(dim, other) && constantDim(dim).value_or(1) != 0;
    });
    if (same == after.end()) {
      return false;
    }
    after.erase(same);
    return true;
  });
  return {elementCount(context, before), elementCount(context, after)};
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
  // Counts that differ by a remainder are equal by a constraint of the module.
  bool isRemainder = hasDivision(before) || hasDivision(after);
  if (isRemainder ? assumeIfHeard(ConstraintKind::equal, before, after)
                  : assume(ConstraintKind::equal, before, after)) {
    return success();
  }
  auto [left, right] = differingCounts(getContext(), dimsOf(getX()), dimsOf(getY()));
  if (isRemainder && assume(ConstraintKind::at_least, left, right) &&
      assume(ConstraintKind::at_least, right, left)) {
    return success();
  }
  return emitOpError("changes the number of elements from ")
         << text(before) << " to " << text(after);
}

LogicalResult BroadcastOp::verify() {
  Dims from = dimsOf(getX());
  Dims to = dimsOf(getY());
  bool fits = from.size() <= to.size();
  for (size_t back = 1; fits && back <= from.size(); ++back) {
    AffineExpr have = from[from.size() - back];
    AffineExpr need = to[to.size() - back];
    // A dim that is a number only when the model runs may turn out to be 1, by a constraint of the
    // module.
    fits = !have || !need || constantDim(have) == 1 || sameDim(have, need) ||
           (!constantDim(have) && assumeIfHeard(ConstraintKind::equal_or_one, have, need));
  }
  if (!fits) {
    return emitOpError("cannot broadcast ") << text(from) << " to " << text(to);
  }
  return checkSameElement(getLoc(), getX(), getY());
}

namespace {

/// Whether slice `i` lies in its dim, for symbols by an assumption. Of no elements nothing is
/// asked.
bool isInside(AffineExpr size, AffineExpr start, AffineExpr count, int64_t step) {
  if (!size || !count || constantDim(count) == 0) {
    return true;
  }
  MLIRContext *context = size.getContext();
  AffineExpr one = getAffineConstantExpr(1, context);
  AffineExpr minusOne = getAffineConstantExpr(-1, context);
  AffineExpr distance =
      multiplyDims(addDims(count, minusOne), getAffineConstantExpr(step, context));
  AffineExpr last = constantDim(count) == 1 ? start : addDims(start, distance);
  AffineExpr lowest = step > 0 ? start : last;
  AffineExpr needed = addDims(step > 0 ? last : start, one);
  auto atLeast = [](AffineExpr a, AffineExpr b) {
    std::optional<int64_t> left = constantDim(a), right = constantDim(b);
    return left && right ? *left >= *right : assumeIfHeard(ConstraintKind::at_least, a, b);
  };
  return last && needed && atLeast(lowest, getAffineConstantExpr(0, context)) &&
         atLeast(size, needed);
}

} // namespace

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
    if (!isInside(in[i], starts.getResult(i), out[i], getSteps()[i])) {
      return emitOpError("reads outside dim ") << i << " of size " << text(in[i]);
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
  std::optional<int64_t> asked = constantDim(count);
  bool fits = size && asked ? *asked <= *size
                            : !count || !dims[axis] ||
                                  assumeIfHeard(ConstraintKind::at_least, dims[axis], count);
  if (!fits) {
    return emitOpError("is asked for more than the ")
           << text(dims[axis]) << " elements of axis " << axis;
  }
  dims[axis] = count;
  return success(succeeded(checkDims(getLoc(), getValues(), dims, "values")) &&
                 succeeded(checkDims(getLoc(), getIndices(), dims, "indices")));
}
