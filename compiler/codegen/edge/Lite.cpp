// What TensorFlow Lite Micro rounds in a way of its own (--rounding tflite). Factors are computed
// in floats or doubles as there: a last bit of a factor may decide a result.
#include "compiler/codegen/edge/LiteFunctions.h"
#include "compiler/codegen/edge/Lowering.h"

using namespace mlir;

namespace tenon::codegen::edge {

Lowering::Maybe Lowering::sumLite(Operation *op, const View &a, const View &b,
                                  const Repetition &repetition, bool isDifference,
                                  const Quantizer &quantizer) {
  constexpr int kBits = 20;
  auto rounded = [&](double value) {
    return isDifference ? static_cast<double>(static_cast<float>(value)) : value;
  };
  double twice = 2 * std::max(a.scale, b.scale);
  std::optional<FixedPoint> factorA = fixedPoint(rounded(a.scale / twice));
  std::optional<FixedPoint> factorB = fixedPoint(rounded(b.scale / twice));
  double unit = rounded(std::ldexp(quantizer.scale, kBits));
  std::optional<FixedPoint> whole = fixedPoint(rounded(twice / unit));
  if (!factorA || !factorB || !whole || whole->shift < 31) {
    return gap(op, "its operands are far beyond the range of its quantized result");
  }
  int32_t count = static_cast<int32_t>(countOf(op->getResult(0)));
  int tensor = newTensor(count);
  Call &made = call(op, Kernel::AddLite, {a.tensor, b.tensor}, tensor,
                    {count, repetition.period, repetition.inner, a.zero, b.zero, factorA->value,
                     factorA->shift, factorB->value, factorB->shift, isDifference ? -1 : 1,
                     whole->value, whole->shift, quantizer.zero, quantizer.low, quantizer.high});
  made.mayOverwrite = a.tensor != b.tensor || repetition.period == count;
  return tensor;
}

Lowering::Maybe Lowering::averageLite(tn::AvgPoolOp op, std::vector<int32_t> shape,
                                      const Quantizer &quantizer) {
  constexpr int64_t kMostCounted = 5000; // up to which the inverse is exact
  View x = *viewOf(op.getX());
  int64_t most = int64_t{shape[6]} * shape[7];
  if (x.scale != quantizer.scale || x.zero != quantizer.zero || op.getCountIncludePad() ||
      most > kMostCounted) {
    return gap(op, "an average of this form has no kernel with --rounding tflite: its result has "
                   "the scale of its operand there, and does not count padding");
  }
  std::vector<int32_t> inverses;
  for (int64_t count = 2; count <= std::max<int64_t>(2, most); ++count) {
    inverses.push_back(static_cast<int32_t>(static_cast<uint32_t>((int64_t{1} << 32) / count + 1)));
  }
  shape.insert(shape.end(), {quantizer.low, quantizer.high});
  int tensor = newTensor(countOf(op.getY()));
  Call &made = call(op, Kernel::AverageLite, {x.tensor}, tensor, std::move(shape));
  made.constants.push_back(constantOf("inverse", "int32_t", inverses));
  return tensor;
}

Lowering::Maybe Lowering::softmaxLite(tn::SoftmaxOp op, const View &x, int64_t columns,
                                      const Quantizer &quantizer) {
  constexpr int64_t kMostColumns = 511; // whose sum has 28 bits
  std::optional<std::array<int32_t, 256>> powers = liteExponentials(x.scale);
  bool isPlain = quantizer.scale == 1.0 / 256 && quantizer.zero == -128 && quantizer.low == -128 &&
                 quantizer.high == 127;
  if (!powers || !isPlain || columns > kMostColumns) {
    return gap(op, "a softmax of this form has no kernel with --rounding tflite: results are "
                   "numbers of 1/256 there, and rows have at most 511 elements");
  }
  int32_t count = static_cast<int32_t>(countOf(op.getX()));
  int tensor = newTensor(count);
  Call &made = call(op, Kernel::SoftmaxLite, {x.tensor}, tensor,
                    {static_cast<int32_t>(count / columns), static_cast<int32_t>(columns)});
  made.mayOverwrite = true;
  made.constants.push_back(
      constantOf("powers", "int32_t", std::vector<int32_t>(powers->begin(), powers->end())));
  return tensor;
}

Lowering::Maybe Lowering::tableLite(Operation *op, const Quantizer &quantizer) {
  std::optional<View> x = op->getNumOperands() == 1 ? viewOf(op->getOperand(0)) : std::nullopt;
  if (!x) {
    return std::nullopt;
  }
  std::optional<LiteTable> table;
  if (isa<tn::SigmoidOp>(op) && quantizer.scale == 1.0 / 256 && quantizer.zero == -128) {
    table = liteLogistic(x->scale, x->zero);
  } else if (isa<tn::TanhOp>(op) && quantizer.scale == 1.0 / 128 && quantizer.zero == 0) {
    table = liteTanh(x->scale, x->zero);
  } else if (isa<tn::AbsOp>(op)) {
    table.emplace();
    for (int32_t q = -128; q < 128; ++q) {
      int32_t scaled = liteScaled(std::abs(q - x->zero), x->scale / quantizer.scale);
      (*table)[q + 128] = static_cast<int8_t>(std::clamp(scaled + quantizer.zero, -128, 127));
    }
  } else if (tn::LeakyReluOp leaky = dyn_cast<tn::LeakyReluOp>(op)) {
    float in = static_cast<float>(x->scale), out = static_cast<float>(quantizer.scale);
    float alpha = static_cast<float>(leaky.getAlpha().convertToDouble());
    table.emplace();
    for (int32_t q = -128; q < 128; ++q) {
      int32_t value = q - x->zero;
      float slope = in * alpha / out;
      int32_t scaled = value >= 0  ? liteScaled(value, in / out)
                       : slope < 0 ? -liteScaled(value, -slope)
                                   : liteScaled(value, slope);
      (*table)[q + 128] = static_cast<int8_t>(std::clamp(scaled + quantizer.zero, -128, 127));
    }
  }
  if (!table) {
    return std::nullopt;
  }
  lowered.insert(op);
  for (int8_t &number : *table) {
    number = static_cast<int8_t>(
        std::min(quantizer.high, std::max(quantizer.low, static_cast<int32_t>(number))));
  }
  int32_t count = static_cast<int32_t>(countOf(op->getResult(0)));
  int tensor = newTensor(count);
  Call &made = call(op, Kernel::Table, {x->tensor}, tensor, {count});
  made.mayOverwrite = true;
  made.constants.push_back(
      constantOf("values", "int8_t", std::vector<int8_t>(table->begin(), table->end())));
  return tensor;
}

} // namespace tenon::codegen::edge
