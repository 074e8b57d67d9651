// Shape rules and verifiers of the elementwise operations.
// Relies on infer/Infer.h for broadcasting and its diagnostics.
#include "compiler/graph/infer/Infer.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tenon::tn;
using namespace tenon::tn::infer;

namespace {

LogicalResult inferBroadcast(infer::Location location, Value a, Value b, Type element,
                             Types &types) {
  FailureOr<Dims> dims = broadcast(location, dimsOf(a), dimsOf(b));
  return failed(dims) ? failure() : append(location, *dims, element, types);
}

/// A scalar scale for the whole tensor or one entry for each index along `axis`.
LogicalResult checkQuantization(infer::Location location, Value x, Value scale, Value zeroPoint,
                                int64_t axis) {
  Dims dims;
  if (rankOf(scale) != 0) {
    if (failed(checkAxis(location, axis, rankOf(x)))) {
      return failure();
    }
    dims.push_back(dimsOf(x)[axis]);
  }
  return success(succeeded(checkDims(location, scale, dims, "scale")) &&
                 succeeded(checkDims(location, zeroPoint, dims, "zero point")));
}

} // namespace

LogicalResult infer::test(infer::Location location, Value x, Types &types) {
  types.push_back(withElement(x.getType(), IntegerType::get(x.getContext(), 1)));
  return success();
}

LogicalResult infer::binary(infer::Location location, Value a, Value b, Types &types) {
  return failed(checkSameElement(location, a, b))
             ? failure()
             : inferBroadcast(location, a, b, elementOf(a), types);
}

LogicalResult PowOp::inferReturnTypes(MLIRContext *, infer::Location location, Adaptor adaptor,
                                      Types &types) {
  return inferBroadcast(location, adaptor.getA(), adaptor.getB(), elementOf(adaptor.getA()), types);
}

LogicalResult CompareOp::inferReturnTypes(MLIRContext *context, infer::Location location,
                                          Adaptor adaptor, Types &types) {
  return failed(checkSameElement(location, adaptor.getA(), adaptor.getB()))
             ? failure()
             : inferBroadcast(location, adaptor.getA(), adaptor.getB(),
                              IntegerType::get(context, 1), types);
}

LogicalResult SelectOp::inferReturnTypes(MLIRContext *, infer::Location location, Adaptor adaptor,
                                         Types &types) {
  if (failed(checkSameElement(location, adaptor.getA(), adaptor.getB()))) {
    return failure();
  }
  FailureOr<Dims> values = broadcast(location, dimsOf(adaptor.getA()), dimsOf(adaptor.getB()));
  if (failed(values)) {
    return failure();
  }
  FailureOr<Dims> dims = broadcast(location, dimsOf(adaptor.getCondition()), *values);
  return failed(dims) ? failure() : append(location, *dims, elementOf(adaptor.getA()), types);
}

LogicalResult RequireOp::inferReturnTypes(MLIRContext *, infer::Location, Adaptor adaptor,
                                          Types &types) {
  types.push_back(adaptor.getX().getType());
  return success();
}

LogicalResult RequireOp::verify() {
  if (!isa<RankedTensorType>(getX().getType())) {
    return isa<RankedTensorType>(getCondition().getType())
               ? emitOpError("has a scalar under a tensor's condition")
               : success();
  }
  bool isOne = isa<RankedTensorType>(getCondition().getType()) && rankOf(getCondition()) == 0;
  return isOne && getFailure() == Failure::constraint
             ? success()
             : emitOpError("of a tensor states a constraint by one bool");
}

OpFoldResult RequireOp::fold(FoldAdaptor adaptor) {
  Attribute condition = adaptor.getCondition();
  if (DenseElementsAttr elements = dyn_cast_or_null<DenseElementsAttr>(condition)) {
    condition = elements.getSplatValue<Attribute>();
  }
  IntegerAttr flag = dyn_cast_or_null<IntegerAttr>(condition);
  bool holds = flag && !flag.getValue().isZero() && getX().getType() == getY().getType();
  return holds ? getX() : Value();
}

LogicalResult CastOp::verify() {
  return checkDims(getLoc(), getY(), dimsOf(getX()), "the result of a cast");
}

LogicalResult QuantizeOp::verify() {
  if (failed(checkSameElement(getLoc(), getX(), getScale())) ||
      failed(checkSameElement(getLoc(), getY(), getZeroPoint())) ||
      failed(checkQuantization(getLoc(), getX(), getScale(), getZeroPoint(), getAxis()))) {
    return failure();
  }
  return checkDims(getLoc(), getY(), dimsOf(getX()), "the quantized tensor");
}

LogicalResult DequantizeOp::verify() {
  if (failed(checkSameElement(getLoc(), getY(), getScale())) ||
      failed(checkSameElement(getLoc(), getX(), getZeroPoint())) ||
      failed(checkQuantization(getLoc(), getX(), getScale(), getZeroPoint(), getAxis()))) {
    return failure();
  }
  return checkDims(getLoc(), getY(), dimsOf(getX()), "the dequantized tensor");
}
