// The checks that all shape rules share: axes, equal dims, windows, and sizes that fit into int64.
// Relies on Shape.h for the arithmetic of dims.
#include "compiler/graph/infer/Infer.h"

#include "compiler/graph/Constraints.h"
#include "compiler/graph/DimText.h"
#include "llvm/Support/CheckedArithmetic.h"

using namespace mlir;

namespace tenon::tn::infer {

std::string text(AffineExpr dim) { return dimText(dim, {}); }

std::string text(ArrayRef<AffineExpr> dims) {
  std::string result = "[";
  for (AffineExpr dim : dims) {
    result += (result.size() > 1 ? ", " : "") + text(dim);
  }
  return result + "]";
}

LogicalResult append(Location location, ArrayRef<AffineExpr> dims, Type element, Types &types) {
  Dims simple;
  int64_t bytes = element.isIntOrFloat() ? (element.getIntOrFloatBitWidth() + 7) / 8 : 16;
  for (AffineExpr dim : dims) {
    AffineExpr normal = simplify(dim);
    if (dim && !normal) {
      return emitOptionalError(location, "the size of a dim overflows or is too complex");
    }
    simple.push_back(normal);
    std::optional<int64_t> size = constantDim(normal);
    if (size.value_or(0) < 0) {
      return emitOptionalError(location, "the result has a dim of negative size ", *size);
    }
    // Dims of size 0 count as 1: the strides of an empty tensor must not overflow either.
    std::optional<int64_t> total = llvm::checkedMul(bytes, std::max<int64_t>(size.value_or(1), 1));
    if (!total) {
      return emitOptionalError(location, "a tensor of shape ", text(dims),
                               " has more bytes than int64 can count");
    }
    bytes = *total;
  }
  types.push_back(makeTensor(simple, element));
  return success();
}

LogicalResult checkAxis(Location location, int64_t axis, int64_t rank) {
  if (axis >= 0 && axis < rank) {
    return success();
  }
  return emitOptionalError(location, "axis ", axis, " is outside a tensor of rank ", rank);
}

LogicalResult checkSameElement(Location location, Value a, Value b) {
  if (elementOf(a) == elementOf(b)) {
    return success();
  }
  return emitOptionalError(location, "the operands have different element types, ", elementOf(a),
                           " and ", elementOf(b));
}

LogicalResult checkSameDim(Location location, AffineExpr a, AffineExpr b, StringRef what) {
  if (!a || !b || sameDim(a, b) || assume(ConstraintKind::equal, a, b)) {
    return success();
  }
  std::optional<int64_t> left = constantDim(a);
  std::optional<int64_t> right = constantDim(b);
  if (left && right) {
    return emitOptionalError(location, what, ": ", *left, " and ", *right, " differ");
  }
  return emitOptionalError(location, what, ": ", text(a), " and ", text(b),
                           " are not known to be equal");
}

LogicalResult checkDims(Location location, Value value, ArrayRef<AffineExpr> dims, StringRef what) {
  Dims actual = dimsOf(value);
  if (actual.size() != dims.size()) {
    return emitOptionalError(location, what, " has shape ", text(actual), " where ", text(dims),
                             " is needed");
  }
  for (auto [have, need] : llvm::zip_equal(actual, dims)) {
    if (failed(checkSameDim(location, have, need, what))) {
      return failure();
    }
  }
  return success();
}

LogicalResult checkBroadcastsTo(Location location, ArrayRef<AffineExpr> part,
                                ArrayRef<AffineExpr> whole, StringRef what) {
  bool fits = part.size() <= whole.size();
  for (size_t back = 1; fits && back <= part.size(); ++back) {
    AffineExpr have = part[part.size() - back];
    AffineExpr need = whole[whole.size() - back];
    fits = !have || !need || constantDim(have) == 1 || sameDim(have, need) ||
           assume(ConstraintKind::equal, have, need);
  }
  if (fits) {
    return success();
  }
  return emitOptionalError(location, what, " of shape ", text(part), " does not broadcast to ",
                           text(whole));
}

LogicalResult checkExtents(Location location, ArrayRef<int64_t> values, size_t count, int64_t least,
                           StringRef what) {
  if (values.size() != count) {
    return emitOptionalError(location, what, " has ", values.size(), " entries where ", count,
                             " are needed");
  }
  for (int64_t value : values) {
    if (value < least || value > kLargestExtent) {
      return emitOptionalError(location, what, " is ", value, ", outside [", least, ", ",
                               kLargestExtent, "]");
    }
  }
  return success();
}

FailureOr<Dims> broadcast(Location location, ArrayRef<AffineExpr> a, ArrayRef<AffineExpr> b) {
  FailureOr<Dims> dims = broadcastDims(a, b);
  if (failed(dims)) {
    return emitOptionalError(location, "shapes ", text(a), " and ", text(b),
                             " do not broadcast against each other");
  }
  return dims;
}

FailureOr<SmallVector<Window>> makeWindows(Location location, size_t spatial,
                                           ArrayRef<int64_t> kernel, ArrayRef<int64_t> strides,
                                           ArrayRef<int64_t> pads, ArrayRef<int64_t> dilations) {
  if (failed(checkExtents(location, kernel, spatial, 1, "kernel size")) ||
      failed(checkExtents(location, strides, spatial, 1, "stride")) ||
      failed(checkExtents(location, dilations, spatial, 1, "dilation")) ||
      failed(checkExtents(location, pads, 2 * spatial, 0, "pad"))) {
    return failure();
  }
  SmallVector<Window> windows;
  for (size_t i = 0; i < spatial; ++i) {
    std::optional<int64_t> reach = llvm::checkedMul(kernel[i] - 1, dilations[i]);
    if (!reach || *reach > kLargestExtent) {
      return emitOptionalError(location, "a kernel of ", kernel[i], " with dilation ", dilations[i],
                               " is larger than any tensor");
    }
    windows.push_back({kernel[i], strides[i], dilations[i], pads[i], pads[spatial + i]});
  }
  return windows;
}

FailureOr<AffineExpr> windowCount(Location location, AffineExpr size, const Window &window,
                                  bool ceilMode) {
  if (!size) {
    return AffineExpr();
  }
  int64_t pads = window.padBegin + window.padEnd;
  std::optional<int64_t> constant = constantDim(size);
  AffineExpr least = getAffineConstantExpr(window.extent() - pads, size.getContext());
  bool fits = constant ? *constant <= kLargestExtent && *constant + pads >= window.extent()
                       : assumeIfHeard(ConstraintKind::at_least, size, least);
  if (!fits) {
    return emitOptionalError(location, "a window of ", window.extent(),
                             " does not fit into a dim of ", text(size), " with ", pads,
                             " of padding");
  }
  if (!ceilMode) {
    return (size + (pads - window.extent())).floorDiv(window.stride) + 1;
  }
  // min(ceil((size + pads - extent) / stride) + 1, ceil((size + padBegin) / stride)): which one is
  // smaller does not depend on the size.
  int64_t shorter = std::min<int64_t>(window.padEnd - window.extent() + window.stride, 0);
  return (size + (window.padBegin + shorter)).ceilDiv(window.stride);
}

} // namespace tenon::tn::infer
