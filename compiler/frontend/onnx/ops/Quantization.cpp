// What operators of quantization share, and those made of `tn.quantize`: by a range found at run
// time, and products of integers.
// Relies on zero points being given: where ONNX leaves one out, it is a zero of the quantized type.
#include "compiler/frontend/onnx/ops/Quantizing.h"

#include "compiler/graph/TensorInfo.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <limits>

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

void checkScales(NodeContext &c, unsigned i, bool divides) {
  std::optional<SmallVector<double>> scales = c.reals(i);
  for (double scale : scales.value_or(SmallVector<double>())) {
    if (!std::isfinite(scale) || (divides && scale < std::numeric_limits<float>::min())) {
      std::string text = StringRef(llvm::formatv("{0:g}", scale).str()).lower();
      return c.error(ErrorId::OnnxBadNode,
                     "its scale is " + text + ", which is not a step between numbers");
    }
  }
}

void checkQuantization(NodeContext &c, std::initializer_list<QuantizationInputs> inputs) {
  auto isGiven = [&](int i) { return i >= 0 && c.has(i); };
  for (const QuantizationInputs &each : inputs) {
    if (isGiven(each.scale)) {
      checkScales(c, each.scale, /*divides=*/each.numbers < 0);
    }
    if (isGiven(each.numbers) && isGiven(each.zero) &&
        c.element(each.numbers) != c.element(each.zero)) {
      c.error(ErrorId::OnnxBadNode, "the type of input " + Twine(each.zero) +
                                        ", a zero point, differs from that of its numbers");
    }
  }
}

RangeQuantized quantizeByRange(NodeContext &c, Value x) {
  Type byte = c.builder().getIntegerType(8, false);
  int64_t rank = x ? cast<RankedTensorType>(x.getType()).getRank() : 0;
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  Value zero = c.scalarLike(0, x);
  Value high = c.max(c.reduce(tn::ReduceKind::max, x, axes, false), zero);
  Value low = c.min(c.reduce(tn::ReduceKind::min, x, axes, false), zero);
  Value levels = c.scalarLike(255, x);
  Value scale = c.div(c.sub(high, low), levels);
  Value start = c.unary<tn::RoundOp>(c.min(c.max(c.sub(zero, c.div(low, scale)), zero), levels));
  Value point = c.cast(start, byte);
  return {emitQuantize(c, x, scale, point, 0, byte), scale, point};
}

namespace {

/// A per-row (or per-column) parameter of a product's operand, shaped to broadcast against it.
Value alongOperand(NodeContext &c, Value parameter, int64_t axis, int64_t rank) {
  RankedTensorType type =
      parameter ? cast<RankedTensorType>(parameter.getType()) : RankedTensorType();
  return type && type.getRank() == 1 && type.getDimSize(0) != 1 && rank >= 2
             ? c.alongAxis(parameter, axis, rank)
             : scalarIfSingle(c, parameter);
}

} // namespace

Value centered(NodeContext &c, Value x, Value zero, int64_t axis) {
  Type wide = c.builder().getI32Type();
  Value y = c.cast(x, wide);
  return y && zero ? c.sub(y, alongOperand(c, c.cast(zero, wide), axis, tn::rankOf(x))) : y;
}

Value scaledProduct(NodeContext &c, Value a, Value b, Value scaleA, Value scaleB) {
  if (!a || !b) {
    return {};
  }
  Type real = c.builder().getF32Type();
  int64_t rank = std::max(tn::rankOf(a), tn::rankOf(b));
  Value scale = c.mul(alongOperand(c, c.cast(scaleA, real), rank - 2, rank),
                      alongOperand(c, c.cast(scaleB, real), rank - 1, rank));
  return c.mul(c.cast(c.make<tn::MatmulOp>(a, b, false, false), real), scale);
}

namespace {

void dynamicQuantizeLinear(NodeContext &c) {
  RangeQuantized y = quantizeByRange(c, c.value(0));
  c.setOutput(0, y.x);
  c.setOutput(1, y.scale);
  c.setOutput(2, y.zero);
}

void qlinearMatmul(NodeContext &c) {
  int64_t rankA = c.rank(0), rankB = c.rank(3);
  if (rankA < 2 || rankB < 2) {
    return c.gap("one-dimensional operands are not supported", "add a dimension");
  }
  checkQuantization(c, {{0, 1, 2}, {3, 4, 5}, {-1, 6, 7}});
  Value a = centered(c, c.value(0), c.value(2), rankA - 2);
  Value b = centered(c, c.value(3), c.value(5), rankB - 1);
  Value y = scaledProduct(c, a, b, c.value(1), c.value(4));
  c.setOutput(0, emitQuantize(c, y, c.cast(c.value(6), c.builder().getF32Type()), c.value(7), 0,
                              c.element(7)));
}

constexpr OpRow kQuantizationOpRows[] = {
    {"DynamicQuantizeLinear", 11, 1, 1, 3, dynamicQuantizeLinear},
    {"QLinearMatMul", 10, 8, 8, 1, qlinearMatmul},
};

} // namespace

ArrayRef<OpRow> quantizationRows() { return kQuantizationOpRows; }

} // namespace tenon::onnx
