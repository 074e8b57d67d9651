// Shape rules of pooling and the verifier of resampling.
// Relies on infer/Infer.h for window arithmetic.
#include "compiler/graph/Constraints.h"
#include "compiler/graph/infer/Infer.h"

#include "mlir/IR/Builders.h"

#include <cmath>

using namespace mlir;
using namespace tenon::tn;
using namespace tenon::tn::infer;

namespace {

template <typename Adaptor>
LogicalResult inferPool(infer::Location location, Adaptor adaptor, Types &types) {
  Dims dims = dimsOf(adaptor.getX());
  if (dims.size() < 3 || dims.size() > 5) {
    return emitOptionalError(location, "pooling takes 1 to 3 spatial dims, not a tensor ",
                             text(dims));
  }
  size_t first = adaptor.getChannelsLast() ? 1 : 2;
  FailureOr<SmallVector<Window>> windows =
      makeWindows(location, dims.size() - 2, adaptor.getKernel(), adaptor.getStrides(),
                  adaptor.getPads(), adaptor.getDilations());
  if (failed(windows)) {
    return failure();
  }
  for (auto [index, window] : llvm::enumerate(*windows)) {
    if (window.padBegin >= window.extent() || window.padEnd >= window.extent()) {
      return emitOptionalError(location, "padding of ", std::max(window.padBegin, window.padEnd),
                               " leaves windows of ", window.extent(), " without an element");
    }
    FailureOr<AffineExpr> size =
        windowCount(location, dims[first + index], window, adaptor.getCeilMode());
    if (failed(size)) {
      return failure();
    }
    dims[first + index] = *size;
  }
  return append(location, dims, elementOf(adaptor.getX()), types);
}

} // namespace

LogicalResult MaxPoolOp::inferReturnTypes(MLIRContext *, infer::Location location, Adaptor adaptor,
                                          Types &types) {
  return inferPool(location, adaptor, types);
}

LogicalResult AvgPoolOp::inferReturnTypes(MLIRContext *, infer::Location location, Adaptor adaptor,
                                          Types &types) {
  return inferPool(location, adaptor, types);
}

LogicalResult ResizeOp::verify() {
  constexpr llvm::StringLiteral coordinates[] = {"half_pixel",         "half_pixel_symmetric",
                                                 "pytorch_half_pixel", "asymmetric",
                                                 "align_corners",      "tf_crop_and_resize"};
  constexpr llvm::StringLiteral nearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                             "ceil"};
  if (!llvm::is_contained(coordinates, getCoordinates())) {
    return emitOpError("does not know the coordinates '") << getCoordinates() << "'";
  }
  if (!llvm::is_contained(nearest, getNearest())) {
    return emitOpError("does not know the rounding '") << getNearest() << "'";
  }
  size_t rank = rankOf(getX());
  if (failed(checkSameElement(getLoc(), getX(), getY()))) {
    return failure();
  }
  if (rankOf(getY()) != int64_t(rank) || getScales().size() != rank) {
    return emitOpError("needs a scale and a result dim for each of ") << rank << " dims";
  }
  bool crops = getCoordinates() == "tf_crop_and_resize";
  if (crops && getRoi().size() != 2 * rank) {
    return emitOpError("needs a region of interest of ") << 2 * rank << " numbers";
  }
  for (double scale : getScales()) {
    if (!std::isfinite(scale) || scale <= 0) {
      return emitOpError("has a scale of ") << scale << ", which is not positive and finite";
    }
  }
  for (auto [in, out] : llvm::zip_equal(dimsOf(getX()), dimsOf(getY()))) {
    AffineExpr one = getAffineConstantExpr(1, getContext());
    bool hasElements =
        !in || constantDim(out) == 0 || sameDim(in, out) ||
        (constantDim(in) ? *constantDim(in) > 0 : assumeIfHeard(ConstraintKind::at_least, in, one));
    if (!hasElements) {
      return emitOpError("cannot resample an empty dim");
    }
  }
  return success();
}
