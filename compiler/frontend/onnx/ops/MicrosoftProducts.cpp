// ONNX Runtime's products of quantized matrices of the domain com.microsoft: exact in integers,
// with scales and biases behind them. Relies on a left operand of floats being quantized by its
// range as DynamicQuantizeLinear does it.
#include "compiler/frontend/onnx/ops/Quantizing.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

/// True if inputs `a` and `b` have two dimensions or more; else a gap.
bool areMatrices(NodeContext &c, unsigned a, unsigned b) {
  if (c.rank(a) >= 2 && c.rank(b) >= 2) {
    return true;
  }
  c.gap("one-dimensional operands are not supported", "add a dimension");
  return false;
}

void setWithBias(NodeContext &c, Value y, unsigned bias) {
  c.setOutput(0, c.has(bias) ? c.add(y, c.value(bias)) : y);
}

void dynamicQuantizeMatMul(NodeContext &c) {
  if (areMatrices(c, 0, 1)) {
    checkQuantization(c, {{1, 2, 3}});
    RangeQuantized a = quantizeByRange(c, c.value(0));
    Value b = centered(c, c.value(1), c.value(3), c.rank(1) - 1);
    setWithBias(c, scaledProduct(c, centered(c, a.x, a.zero, 0), b, a.scale, c.value(2)), 4);
  }
}

void matMulIntegerToFloat(NodeContext &c) {
  if (areMatrices(c, 0, 1)) {
    checkQuantization(c, {{0, 2, 4}, {1, 3, 5}});
    Value a = centered(c, c.value(0), c.value(4), c.rank(0) - 2);
    Value b = centered(c, c.value(1), c.value(5), c.rank(1) - 1);
    setWithBias(c, scaledProduct(c, a, b, c.value(2), c.value(3)), 6);
  }
}

/// alpha * (A B scaleA scaleB + C); the integers of C have the scale of the product. Without a
/// scale of its own the result is float.
void qGemm(NodeContext &c) {
  if (c.rank(0) != 2 || c.rank(3) != 2) {
    return c.error(ErrorId::OnnxBadNode, "its operands are not matrices");
  }
  checkQuantization(c, {{0, 1, 2}, {3, 4, 5}, {-1, 7, 8}});
  Type real = c.builder().getF32Type();
  bool isTransposed = c.integer("transB", 0) != 0;
  Value a = centered(c, c.value(0), c.value(2), 0);
  Value b = centered(c, c.value(3), c.value(5), isTransposed ? 0 : 1);
  a = c.integer("transA", 0) != 0 ? c.transpose(a, {1, 0}) : a;
  b = isTransposed ? c.transpose(b, {1, 0}) : b;
  Value product = c.make<tn::MatmulOp>(a, b, false, false);
  product = c.has(6) ? c.add(product, c.value(6)) : product;
  Value scale = c.mul(c.value(1), c.value(4));
  double alpha = c.real("alpha", 1);
  scale = alpha == 1 ? scale : c.mul(scale, c.scalarLike(alpha, scale));
  Value y = c.mul(c.cast(product, real), scale);
  if (!c.has(7)) {
    return c.setOutput(0, y);
  }
  Type element = c.has(8) ? c.element(8) : c.element(0);
  c.setOutput(0, emitQuantize(c, y, c.value(7), zeroPoint(c, 8, c.value(7), element), 0, element));
}

constexpr Attributes kGemm = {{"alpha", kFloat}, {"transA", kInt}, {"transB", kInt}};

constexpr OpRow kMicrosoftProductOpRows[] = {
    {"DynamicQuantizeMatMul", 1, 3, 5, 1, dynamicQuantizeMatMul, {}, kMicrosoft},
    {"MatMulIntegerToFloat", 1, 4, 7, 1, matMulIntegerToFloat, {}, kMicrosoft},
    {"QGemm", 1, 6, 9, 1, qGemm, kGemm, kMicrosoft},
};

} // namespace

ArrayRef<OpRow> microsoftProductRows() { return kMicrosoftProductOpRows; }

} // namespace tenon::onnx
