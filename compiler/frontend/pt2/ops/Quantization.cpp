// Quantized forms of PT2E: a number is stored as round(x / scale) + zero point, held in [quant_min,
// quant_max].
#include "compiler/frontend/pt2/Call.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

/// Scale or zero point of a call: a number, or a tensor of one element or of one for each slice of
/// an axis.
mlir::Value parameter(Call &c, StringRef one, StringRef many, Type element, int64_t axis,
                      int64_t rank) {
  mlir::Value x = c.has(one) ? c.operand(one, element) : c.operand(many, element);
  if (!x || cast<RankedTensorType>(x.getType()).getRank() == 0) {
    return x;
  }
  return axis < 0 ? c.reshape(x, {}) : c.alongAxis(x, axis, rank);
}

struct Parameters {
  mlir::Value scale;
  mlir::Value zeroPoint;
};

Parameters parametersOf(Call &c, mlir::Value x) {
  int64_t rank = cast<RankedTensorType>(x.getType()).getRank();
  int64_t axis = c.has("axis") ? c.axis("axis", 0, rank) : -1;
  Type real = c.builder().getF32Type();
  return {parameter(c, "scale", "scales", real, axis, rank),
          parameter(c, "zero_point", "zero_points", real, axis, rank)};
}

void quantize(Call &c) {
  mlir::Value x = c.value("input");
  if (!x) {
    return;
  }
  auto [scale, zero] = parametersOf(c, x);
  c.elementNamed("dtype", c.resultElement());
  Type real = c.builder().getF32Type();
  // PyTorch multiplies by the inverse of the scale, rounds half to even, and then adds the zero
  // point.
  mlir::Value code = c.unary<tn::RoundOp>(c.mul(c.cast(x, real), c.unary<tn::ReciprocalOp>(scale)));
  code = zero ? c.add(code, zero) : code;
  code = c.min(c.max(code, c.operand("quant_min", real)), c.operand("quant_max", real));
  c.setOutput(c.toResult(code));
}

void dequantize(Call &c) {
  mlir::Value x = c.value("input");
  if (!x) {
    return;
  }
  auto [scale, zero] = parametersOf(c, x);
  c.ignore({"quant_min", "quant_max", "dtype", "out_dtype"});
  mlir::Value real = c.cast(x, c.builder().getF32Type());
  c.setOutput(c.toResult(c.mul(zero ? c.sub(real, zero) : real, scale)));
}

constexpr OpRow kRows[] = {
    {"quantized_decomposed.quantize_per_tensor", quantize},
    {"quantized_decomposed.quantize_per_channel", quantize},
    {"quantized_decomposed.dequantize_per_tensor", dequantize},
    {"quantized_decomposed.dequantize_per_channel", dequantize},
};

} // namespace

ArrayRef<OpRow> quantizationRows() { return kRows; }

} // namespace tenon::pt2
