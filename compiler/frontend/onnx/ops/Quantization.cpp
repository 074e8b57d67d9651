// What operators of quantization share, and those made of `tn.quantize`: by a range found at run
// time, and products of integers.
// Relies on zero points being given: where ONNX leaves one out, it is a zero of the quantized type.
#include "compiler/frontend/onnx/ops/Quantizing.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

/// A scale of one element is a scalar: ONNX allows both spellings of "per tensor".
Value scalarIfSingle(NodeContext &c, Value x) {
  RankedTensorType type = x ? cast<RankedTensorType>(x.getType()) : RankedTensorType();
  bool single = type && type.getRank() == 1 && type.getDimSize(0) == 1;
  return single ? c.reshape(x, {}) : x;
}

} // namespace

Value zeroPoint(NodeContext &c, unsigned i, Value scale, Type element) {
  if (c.has(i)) {
    return c.value(i);
  }
  return scale ? c.broadcast(c.scalar(0, element), tn::getDims(scale.getType())) : Value();
}

Value emitQuantize(NodeContext &c, Value x, Value scale, Value zero, int64_t axis, Type element) {
  scale = scalarIfSingle(c, scale);
  zero = scalarIfSingle(c, zero);
  return x ? c.makeTyped<tn::QuantizeOp>(tn::withElement(x.getType(), element), x, scale, zero,
                                         axis)
           : Value();
}

Value emitDequantize(NodeContext &c, Value x, Value scale, Value zero, int64_t axis) {
  scale = scalarIfSingle(c, scale);
  zero = scalarIfSingle(c, zero);
  Type element = scale ? cast<RankedTensorType>(scale.getType()).getElementType() : Type();
  return x && element ? c.makeTyped<tn::DequantizeOp>(tn::withElement(x.getType(), element), x,
                                                      scale, zero, axis)
                      : Value();
}

namespace {

/// Scale and zero point from the data's range, as ONNX defines them for uint8.
void dynamicQuantizeLinear(NodeContext &c) {
  Type byte = c.builder().getIntegerType(8, false);
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, c.rank(0)));
  Value x = c.value(0);
  Value zero = c.scalarLike(0, x);
  Value high = c.max(c.reduce(tn::ReduceKind::max, x, axes, false), zero);
  Value low = c.min(c.reduce(tn::ReduceKind::min, x, axes, false), zero);
  Value levels = c.scalarLike(255, x);
  Value scale = c.div(c.sub(high, low), levels);
  Value start = c.unary<tn::RoundOp>(c.min(c.max(c.sub(zero, c.div(low, scale)), zero), levels));
  Value point = c.cast(start, byte);
  c.setOutput(0, emitQuantize(c, x, scale, point, 0, byte));
  c.setOutput(1, scale);
  c.setOutput(2, point);
}

/// A per-row (or per-column) parameter of a product's operand, shaped to broadcast against it.
Value alongOperand(NodeContext &c, Value parameter, int64_t axis, int64_t rank) {
  RankedTensorType type =
      parameter ? cast<RankedTensorType>(parameter.getType()) : RankedTensorType();
  return type && type.getRank() == 1 && type.getDimSize(0) != 1 && rank >= 2
             ? c.alongAxis(parameter, axis, rank)
             : scalarIfSingle(c, parameter);
}

void qlinearMatmul(NodeContext &c) {
  Type wide = c.builder().getI32Type();
  Type real = c.builder().getF32Type();
  int64_t rankA = c.rank(0), rankB = c.rank(3);
  if (rankA < 2 || rankB < 2) {
    return c.gap("one-dimensional operands are not supported", "add a dimension");
  }
  Value a =
      c.sub(c.cast(c.value(0), wide), alongOperand(c, c.cast(c.value(2), wide), rankA - 2, rankA));
  Value b =
      c.sub(c.cast(c.value(3), wide), alongOperand(c, c.cast(c.value(5), wide), rankB - 1, rankB));
  Value product = c.make<tn::MatmulOp>(a, b, false, false);
  int64_t rank = std::max(rankA, rankB);
  Value scale = c.mul(alongOperand(c, c.cast(c.value(1), real), rank - 2, rank),
                      alongOperand(c, c.cast(c.value(4), real), rank - 1, rank));
  c.setOutput(0, emitQuantize(c, c.mul(c.cast(product, real), scale), c.cast(c.value(6), real),
                              c.value(7), 0, c.element(7)));
}

constexpr OpRow kRows[] = {
    {"DynamicQuantizeLinear", 11, 1, 1, 3, dynamicQuantizeLinear},
    {"QLinearMatMul", 10, 8, 8, 1, qlinearMatmul},
};

} // namespace

ArrayRef<OpRow> quantizationRows() { return kRows; }

} // namespace tenon::onnx
