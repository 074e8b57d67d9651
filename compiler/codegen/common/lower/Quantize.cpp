// Conversions between floats and scaled integers, per tensor or along an axis. Relies on the
// verifier for scale and zero point having the same dims.
#include "compiler/codegen/common/lower/ElementFn.h"
#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {
namespace {

/// The element of a scale or zero point that belongs to these indices.
Value parameterAt(Body &body, Value parameter, int64_t axis, ArrayRef<AffineExpr> indices) {
  bool isPerAxis = !getDims(parameter.getType()).empty();
  return body.at(parameter, isPerAxis ? indices.slice(axis, 1) : ArrayRef<AffineExpr>());
}

/// A float type that holds every value of an integer type.
Type exactFloat(OpBuilder &b, Type integer) {
  return integer.getIntOrFloatBitWidth() > 16 ? b.getF64Type() : b.getF32Type();
}

Value toFloat(OpBuilder &b, Location location, Type element, Type real, Value x) {
  return element.isUnsignedInteger() ? Value(arith::UIToFPOp::create(b, location, real, x))
                                     : Value(arith::SIToFPOp::create(b, location, real, x));
}

Value resizeFloat(OpBuilder &b, Location location, Type type, Value x) {
  unsigned from = x.getType().getIntOrFloatBitWidth(), to = type.getIntOrFloatBitWidth();
  if (from == to) {
    return x;
  }
  return from < to ? Value(arith::ExtFOp::create(b, location, type, x))
                   : Value(arith::TruncFOp::create(b, location, type, x));
}

} // namespace

Value elementOfQuantize(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  QuantizeOp quantize = cast<QuantizeOp>(op);
  OpBuilder &b = body.builder;
  Location location = body.lowering.location;
  Value x = wideAt(body, quantize.getX(), indices);
  Value scale = parameterAt(body, quantize.getScale(), quantize.getAxis(), indices);
  Value zero = parameterAt(body, quantize.getZeroPoint(), quantize.getAxis(), indices);
  if (!x || !scale || !zero) {
    return {};
  }
  Type element = getElementTypeOrSelf(quantize.getY());
  Type stored = getElementTypeOrSelf(quantize.getX());
  Type real = exactFloat(b, element);
  Value quotient = arith::DivFOp::create(b, location, x, widen(b, location, scale));
  // The quotient is rounded to its type first, as the model's arithmetic would.
  quotient = widen(b, location, narrow(b, location, quotient, stored));
  Value level = math::RoundEvenOp::create(b, location, resizeFloat(b, location, real, quotient));
  level = arith::AddFOp::create(b, location, level, toFloat(b, location, element, real, zero));
  return saturate(b, location, element, level);
}

Value elementOfDequantize(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  DequantizeOp dequantize = cast<DequantizeOp>(op);
  OpBuilder &b = body.builder;
  Location location = body.lowering.location;
  Value x = body.at(dequantize.getX(), indices);
  Value scale = parameterAt(body, dequantize.getScale(), dequantize.getAxis(), indices);
  Value zero = parameterAt(body, dequantize.getZeroPoint(), dequantize.getAxis(), indices);
  if (!x || !scale || !zero) {
    return {};
  }
  Type element = getElementTypeOrSelf(dequantize.getX());
  Type real = exactFloat(b, element);
  Value level = arith::SubFOp::create(b, location, toFloat(b, location, element, real, x),
                                      toFloat(b, location, element, real, zero));
  Value product = arith::MulFOp::create(b, location, level, resizeFloat(b, location, real, scale));
  return resizeFloat(b, location, storageType(getElementTypeOrSelf(dequantize.getY())), product);
}

} // namespace tenon::codegen
