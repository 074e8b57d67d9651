// Linear quantization: `tn.quantize` and `tn.dequantize`, and the operators made of them.
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

bool isBlocked(NodeContext &c) {
  if (c.integer("block_size", 0) == 0 && c.rank(1) <= 1) {
    return false;
  }
  c.gap("blocked quantization is not supported", "quantize per tensor or per axis");
  return true;
}

int64_t quantizedAxis(NodeContext &c) {
  c.ignore("axis"); // of a tensor with one scale
  return c.rank(1) == 1 && c.rank(0) > 0 && c.opset >= 13 ? c.axis("axis", 1, c.rank(0)) : 0;
}

void quantizeLinear(NodeContext &c) {
  if (isBlocked(c)) {
    return;
  }
  c.ignore("saturate"); // of 8-bit floats
  Type usual = c.has(2) ? c.element(2) : Type(c.builder().getIntegerType(8, false));
  Type element = c.elementNamed("output_dtype", usual);
  if (element && c.has(2) && element != usual) {
    return c.error(ErrorId::OnnxBadAttribute,
                   "attribute 'output_dtype' is not the zero point's type");
  }
  if (!isa_and_nonnull<IntegerType>(element) || element.getIntOrFloatBitWidth() < 8) {
    return c.gap("its quantized type is not supported", "use 8 or 16-bit integers");
  }
  Type precision = c.elementNamed("precision", c.element(1));
  if (!isa_and_nonnull<FloatType>(precision)) {
    return c.gap("dividing in a type that is no float type is not supported", "use a float scale");
  }
  Value x = c.cast(c.value(0), precision);
  Value scale = c.cast(c.value(1), precision);
  c.setOutput(
      0, emitQuantize(c, x, scale, zeroPoint(c, 2, scale, element), quantizedAxis(c), element));
}

void dequantizeLinear(NodeContext &c) {
  if (isBlocked(c)) {
    return;
  }
  if (c.element(0).getIntOrFloatBitWidth() < 8 || !isa<IntegerType>(c.element(0))) {
    return c.gap("its quantized type is not supported", "use 8 or 16-bit integers");
  }
  Type element = c.elementNamed("output_dtype", c.element(1));
  if (!isa_and_nonnull<FloatType>(element)) {
    return c.error(ErrorId::OnnxBadAttribute, "attribute 'output_dtype' is no float type");
  }
  // Rounded once, where the result has another type than the scale.
  bool same = element == c.element(1);
  Value scale = same ? c.value(1) : c.cast(c.value(1), c.builder().getF32Type());
  Value y =
      emitDequantize(c, c.value(0), scale, zeroPoint(c, 2, scale, c.element(0)), quantizedAxis(c));
  c.setOutput(0, c.cast(y, element));
}

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

constexpr Attributes kDequantize = {
    {"axis", kInt, 13}, {"block_size", kInt, 21}, {"output_dtype", kInt, 23}};
constexpr Attributes kQuantize = {{"axis", kInt, 13},
                                  {"block_size", kInt, 21},
                                  {"output_dtype", kInt, 21},
                                  {"precision", kInt, 23},
                                  {"saturate", kInt, 19}};

constexpr OpRow kRows[] = {
    {"DequantizeLinear", 10, 2, 3, 1, dequantizeLinear, kDequantize},
    {"DynamicQuantizeLinear", 11, 1, 1, 3, dynamicQuantizeLinear},
    {"QLinearMatMul", 10, 8, 8, 1, qlinearMatmul},
    {"QuantizeLinear", 10, 2, 3, 1, quantizeLinear, kQuantize},
};

} // namespace

ArrayRef<OpRow> quantizationRows() { return kRows; }

} // namespace tenon::onnx
