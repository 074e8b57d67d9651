// Convolutions and matmuls with constant weights: sums of s8 by s8 in 32 bits, with the input's
// zero point folded into the bias and one rounding behind the sum.
#include "compiler/codegen/edge/Lowering.h"

#include "support/text/Text.h"

#include <cstdlib>
#include <numeric>

using namespace mlir;

namespace tenon::codegen::edge {
namespace {

/// Of the distance of a number from its zero point.
constexpr int64_t kMaxDistance = 255;
constexpr double kMaxSum = 2147483647.0;

} // namespace

/// 8-bit weights behind tn.dequantize, less their zero points.
std::optional<EdgeWeights> Lowering::weightsOf(Operation *op, Value weight, int64_t columnDim) {
  tn::DequantizeOp dequantize = weight.getDefiningOp<tn::DequantizeOp>();
  if (!dequantize || !opt::Constants::isConstant(dequantize.getX())) {
    return gap(op,
               viewOf(weight) ? "both of its operands are computed"
                              : "its weights are not quantized to 8 bits",
               "put DequantizeLinear behind weights of 8 bits");
  }
  std::optional<std::vector<double>> numbers = constants.elements(dequantize.getX());
  std::optional<std::vector<double>> zeros = constants.elements(dequantize.getZeroPoint());
  std::optional<std::vector<double>> scales = constants.elements(dequantize.getScale());
  ArrayRef<int64_t> shape = shapeOf(weight);
  int64_t columns = shape[columnDim];
  if (!numbers || !zeros || !scales ||
      !opt::tensorType(dequantize.getX()).getElementType().isInteger(8)) {
    return gap(op, "its weights are not quantized to 8 bits");
  }
  bool isOfColumns = scales->size() > 1 || zeros->size() > 1;
  int64_t axis = dequantize.getAxis() < 0
                     ? dequantize.getAxis() + static_cast<int64_t>(shape.size())
                     : dequantize.getAxis();
  if (isOfColumns && axis != columnDim) {
    return gap(op, "the scales of its weights belong to another dim than that of its outputs");
  }
  if (llvm::any_of(*scales, [](double scale) { return !(scale > 0) || !std::isfinite(scale); })) {
    return gap(op, "a scale of its weights is not a positive number");
  }
  int64_t inner = std::accumulate(shape.begin() + columnDim + 1, shape.end(), int64_t{1},
                                  std::multiplies<int64_t>());
  EdgeWeights result{{}, *scales};
  for (auto [i, number] : llvm::enumerate(*numbers)) {
    int64_t column = static_cast<int64_t>(i) / inner % columns;
    double value = number - (*zeros)[zeros->size() > 1 ? column : 0];
    if (value < -128 || value > 127) {
      return gap(op, "its weights less their zero point do not fit in 8 bits",
                 "quantize its weights symmetrically");
    }
    result.values.push_back(static_cast<int8_t>(value));
  }
  return result;
}

/// Biases and factors of rows of weights, one row a column of the result.
std::optional<Lowering::Scales> Lowering::scalesOf(Operation *op, ArrayRef<int8_t> rows,
                                                   ArrayRef<double> scales, int64_t columns,
                                                   Value bias, const View &x,
                                                   const Quantizer &quantizer) {
  std::optional<std::vector<double>> biases;
  if (bias) {
    biases = constants.elements(bias);
    if (!biases || (biases->size() != 1 && static_cast<int64_t>(biases->size()) != columns)) {
      return gap(op, "its bias is no constant with one number for each output");
    }
  }
  Scales made;
  int64_t depth = static_cast<int64_t>(rows.size()) / columns;
  for (int64_t column = 0; column < columns; ++column) {
    int64_t sum = 0, size = 0;
    for (int8_t value : rows.slice(column * depth, depth)) {
      sum += value;
      size += std::abs(value);
    }
    double product = x.scale * scales[scales.size() > 1 ? column : 0];
    double added = biases ? (*biases)[biases->size() > 1 ? column : 0] : 0;
    double whole = std::nearbyint(added / product);
    double largest = std::abs(whole) + static_cast<double>(size * kMaxDistance) +
                     std::abs(static_cast<double>(x.zero * sum));
    double factor = product / quantizer.scale;
    std::optional<FixedPoint> fixed = fixedPoint(factor);
    if (!(largest <= kMaxSum)) {
      return gap(op, "its sums do not fit in 32 bits");
    }
    if (!fixed || largest * factor > kMaxSum / 2) {
      return gap(op, "its sums are far beyond the range of its quantized result");
    }
    made.bias.push_back(static_cast<int32_t>(static_cast<int64_t>(whole) - x.zero * sum));
    if (column == 0 || scales.size() > 1) {
      made.multipliers.push_back(fixed->value);
      made.shifts.push_back(static_cast<uint8_t>(fixed->shift));
    }
  }
  return made;
}

namespace {

void addArrays(Call &call, std::vector<int8_t> weights, const std::vector<int32_t> &bias,
               const std::vector<int32_t> &multipliers, const std::vector<uint8_t> &shifts) {
  call.constants.push_back(constantOf("weights", "int8_t", weights));
  call.constants.push_back(constantOf("bias", "int32_t", bias));
  call.constants.push_back(constantOf("multiplier", "int32_t", multipliers));
  call.constants.push_back(constantOf("shift", "uint8_t", shifts));
}

} // namespace

Lowering::Maybe Lowering::conv(tn::ConvOp op, const Quantizer &quantizer) {
  std::optional<View> x = viewOf(op.getX());
  if (!x) {
    return std::nullopt;
  }
  ArrayRef<int64_t> shape = shapeOf(op.getWeight());
  std::optional<Windows> at =
      op.getChannelsLast() ? windowsOf(op.getX(), op.getY(), shape.drop_front(2), op.getStrides(),
                                       op.getDilations(), op.getPads(), true)
                           : std::nullopt;
  if (!at) {
    return gap(op, strCat("a convolution over ", shape.size() - 2, " dims has no kernel"));
  }
  std::optional<EdgeWeights> weights = weightsOf(op, op.getWeight(), 0);
  if (!weights) {
    return std::nullopt;
  }
  bool isPointwise = at->kernelH * at->kernelW * at->strideH * at->strideW == 1 &&
                     at->inH == at->outH && at->inW == at->outW;
  if (isPointwise) { // one row of all positions
    at->outW = at->inW *= at->inH * at->batch;
    at->outH = at->inH = at->batch = 1;
  }
  int64_t outputs = shape[0], depth = shape[1];
  std::optional<Scales> scales =
      scalesOf(op, weights->values, weights->scales, outputs, op.getBias(), *x, quantizer);
  if (!scales) {
    return std::nullopt;
  }
  int32_t step = scales->multipliers.size() > 1 ? 1 : 0;
  int64_t taps = static_cast<int64_t>(at->kernelH) * at->kernelW;
  bool isDepthwise = depth == 1 && op.getGroups() > 1;
  // [out, depth, taps] → [taps, out], or [out, taps, depth].
  std::vector<int8_t> ordered(weights->values.size());
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t i = 0; i < depth; ++i) {
      for (int64_t t = 0; t < taps; ++t) {
        int64_t to = isDepthwise ? t * outputs + o : (o * taps + t) * depth + i;
        ordered[to] = weights->values[(o * depth + i) * taps + t];
      }
    }
  }
  int tensor = newTensor(countOf(op.getY()));
  std::vector<int32_t> parameters = {
      at->batch, at->inH, at->inW, at->channels, at->outH, at->outW, static_cast<int32_t>(outputs)};
  if (!isDepthwise) {
    parameters.push_back(static_cast<int32_t>(op.getGroups()));
  }
  parameters.insert(parameters.end(), {at->kernelH, at->kernelW, at->strideH, at->strideW,
                                       at->dilationH, at->dilationW, at->padH, at->padW, x->zero,
                                       quantizer.zero, quantizer.low, quantizer.high, step});
  Call &made = call(op, isDepthwise ? Kernel::Depthwise : Kernel::Conv, {x->tensor}, tensor,
                    std::move(parameters));
  made.products = countOf(op.getY()) * depth * taps;
  addArrays(made, std::move(ordered), scales->bias, scales->multipliers, scales->shifts);
  return tensor;
}

/// A convolution by one tap, whose positions are the rows.
Lowering::Maybe Lowering::matmul(tn::MatmulOp op, Value bias, const Quantizer &quantizer) {
  std::optional<View> x = viewOf(op.getA());
  if (!x) {
    return std::nullopt;
  }
  ArrayRef<int64_t> shape = shapeOf(op.getB());
  if (op.getTransposeA() || shape.size() != 2) {
    return gap(op, "a matmul of this form has no kernel; weights of two dims have one");
  }
  bool isTransposed = op.getTransposeB();
  std::optional<EdgeWeights> weights = weightsOf(op, op.getB(), isTransposed ? 0 : 1);
  if (!weights) {
    return std::nullopt;
  }
  int64_t columns = shape[isTransposed ? 0 : 1], depth = shape[isTransposed ? 1 : 0];
  std::vector<int8_t> rows = weights->values;
  if (!isTransposed) {
    for (int64_t i = 0; i < depth; ++i) {
      for (int64_t o = 0; o < columns; ++o) {
        rows[o * depth + i] = weights->values[i * columns + o];
      }
    }
  }
  std::optional<Scales> scales = scalesOf(op, rows, weights->scales, columns, bias, *x, quantizer);
  if (!scales) {
    return std::nullopt;
  }
  int32_t count = static_cast<int32_t>(countOf(op.getA()) / depth);
  int32_t step = scales->multipliers.size() > 1 ? 1 : 0;
  int32_t in = static_cast<int32_t>(depth), out = static_cast<int32_t>(columns);
  int tensor = newTensor(countOf(op.getY()));
  Call &made = call(op, Kernel::Conv, {x->tensor}, tensor,
                    {1,
                     1,
                     count,
                     in,
                     1,
                     count,
                     out,
                     1,
                     1,
                     1,
                     1,
                     1,
                     1,
                     1,
                     0,
                     0,
                     x->zero,
                     quantizer.zero,
                     quantizer.low,
                     quantizer.high,
                     step});
  made.products = countOf(op.getY()) * depth;
  addArrays(made, std::move(rows), scales->bias, scales->multipliers, scales->shifts);
  return tensor;
}

} // namespace tenon::codegen::edge
