// Shape rules and verifiers of reductions, normalizations and the other operations along rows.
// Relies on axes being sorted and not negative, which it checks.
#include "compiler/graph/Constraints.h"
#include "compiler/graph/infer/Infer.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tenon::tn;
using namespace tenon::tn::infer;

namespace {

/// An optional scale or bias of a normalization: x's element type, broadcast over the dims from
/// `axis` on.
LogicalResult checkParameter(infer::Location location, Value x, int64_t axis, Value parameter,
                             StringRef what) {
  if (!parameter) {
    return success();
  }
  if (failed(checkSameElement(location, x, parameter))) {
    return failure();
  }
  Dims dims = dimsOf(x);
  return checkBroadcastsTo(location, dimsOf(parameter), ArrayRef(dims).drop_front(axis), what);
}

/// A parameter with one entry for each channel.
LogicalResult checkPerChannel(infer::Location location, Value x, AffineExpr channels,
                              Value parameter, StringRef what) {
  return success(succeeded(checkSameElement(location, x, parameter)) &&
                 succeeded(checkDims(location, parameter, channels, what)));
}

} // namespace

LogicalResult ReduceOp::inferReturnTypes(MLIRContext *context, infer::Location location,
                                         Adaptor adaptor, Types &types) {
  Dims dims = dimsOf(adaptor.getX());
  int64_t previous = -1;
  for (int64_t axis : adaptor.getAxes()) {
    if (failed(checkAxis(location, axis, dims.size()))) {
      return failure();
    }
    if (axis <= previous) {
      return emitOptionalError(location, "axis ", axis, " is repeated or out of order");
    }
    previous = axis;
  }
  Dims result;
  for (auto [index, dim] : llvm::enumerate(dims)) {
    if (!llvm::is_contained(adaptor.getAxes(), int64_t(index))) {
      result.push_back(dim);
    } else if (adaptor.getKeepdims()) {
      result.push_back(getAffineConstantExpr(1, context));
    }
  }
  return append(location, result, elementOf(adaptor.getX()), types);
}

LogicalResult ArgReduceOp::inferReturnTypes(MLIRContext *context, infer::Location location,
                                            Adaptor adaptor, Types &types) {
  Dims dims = dimsOf(adaptor.getX());
  int64_t axis = adaptor.getAxis();
  if (failed(checkAxis(location, axis, dims.size()))) {
    return failure();
  }
  AffineExpr one = getAffineConstantExpr(1, context);
  bool hasElements =
      !dims[axis] ||
      (constantDim(dims[axis]) ? *constantDim(dims[axis]) > 0
                               : assumeIfHeard(ConstraintKind::at_least, dims[axis], one));
  if (!hasElements) {
    return emitOptionalError(location, "no element is the largest of none: axis ", axis,
                             " has size 0");
  }
  if (adaptor.getKeepdims()) {
    dims[axis] = getAffineConstantExpr(1, context);
  } else {
    dims.erase(dims.begin() + axis);
  }
  return append(location, dims, IntegerType::get(context, 64), types);
}

LogicalResult LayerNormOp::inferReturnTypes(MLIRContext *, infer::Location location,
                                            Adaptor adaptor, Types &types) {
  Value x = adaptor.getX();
  int64_t axis = adaptor.getAxis();
  if (failed(checkAxis(location, axis, rankOf(x))) ||
      failed(checkParameter(location, x, axis, adaptor.getScale(), "scale")) ||
      failed(checkParameter(location, x, axis, adaptor.getBias(), "bias"))) {
    return failure();
  }
  types.push_back(x.getType());
  return success();
}

LogicalResult RmsNormOp::inferReturnTypes(MLIRContext *, infer::Location location, Adaptor adaptor,
                                          Types &types) {
  Value x = adaptor.getX();
  int64_t axis = adaptor.getAxis();
  if (failed(checkAxis(location, axis, rankOf(x))) ||
      failed(checkParameter(location, x, axis, adaptor.getScale(), "scale"))) {
    return failure();
  }
  types.push_back(x.getType());
  return success();
}

LogicalResult GroupNormOp::inferReturnTypes(MLIRContext *, infer::Location location,
                                            Adaptor adaptor, Types &types) {
  Value x = adaptor.getX();
  if (rankOf(x) < 2) {
    return emitOptionalError(location, "group norm needs a batch and a channel dim");
  }
  AffineExpr channels = dimsOf(x)[1];
  std::optional<int64_t> count = constantDim(channels);
  int64_t groups = adaptor.getGroups();
  if (!count || groups < 1 || *count % groups != 0) {
    return emitOptionalError(location, groups, " groups do not divide ", text(channels),
                             " channels");
  }
  if (failed(checkPerChannel(location, x, channels, adaptor.getScale(), "scale")) ||
      failed(checkPerChannel(location, x, channels, adaptor.getBias(), "bias"))) {
    return failure();
  }
  types.push_back(x.getType());
  return success();
}

LogicalResult BatchNormOp::inferReturnTypes(MLIRContext *, infer::Location location,
                                            Adaptor adaptor, Types &types) {
  Value x = adaptor.getX();
  if (rankOf(x) < 2) {
    return emitOptionalError(location, "batch norm needs a batch and a channel dim");
  }
  Dims dims = dimsOf(x);
  AffineExpr channels = adaptor.getChannelsLast() ? dims.back() : dims[1];
  if (failed(checkPerChannel(location, x, channels, adaptor.getScale(), "scale")) ||
      failed(checkPerChannel(location, x, channels, adaptor.getBias(), "bias")) ||
      failed(checkPerChannel(location, x, channels, adaptor.getMean(), "mean")) ||
      failed(checkPerChannel(location, x, channels, adaptor.getVar(), "variance"))) {
    return failure();
  }
  types.push_back(x.getType());
  return success();
}

LogicalResult SoftmaxOp::verify() { return checkAxis(getLoc(), getAxis(), rankOf(getX())); }

LogicalResult CumsumOp::verify() { return checkAxis(getLoc(), getAxis(), rankOf(getX())); }
