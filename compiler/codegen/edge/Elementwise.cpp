// What a quantizer reads, by the kind of operation: sums, products, constants beside a tensor, and
// functions of one 8-bit number as tables.
#include "compiler/codegen/edge/LiteFunctions.h"
#include "compiler/codegen/edge/Lowering.h"

#include "llvm/ADT/TypeSwitch.h"

#include <array>

using namespace mlir;

namespace tenon::codegen::edge {

/// The call that makes the numbers of an operation's result. None without a gap where there is no
/// kernel of that kind.
Lowering::Maybe Lowering::producer(Operation *op, const Quantizer &quantizer) {
  return llvm::TypeSwitch<Operation *, Maybe>(op)
      .Case([&](tn::ConvOp conv) { return this->conv(conv, quantizer); })
      .Case([&](tn::MatmulOp matmul) { return this->matmul(matmul, Value(), quantizer); })
      .Case([&](tn::AddOp) { return sum(op, false, quantizer); })
      .Case([&](tn::SubOp) { return sum(op, true, quantizer); })
      .Case([&](tn::MulOp) { return product(op, quantizer); })
      .Case([&](tn::DivOp) { return product(op, quantizer); })
      .Case([&](tn::AvgPoolOp pool) { return averagePool(pool, quantizer); })
      .Case([&](tn::ReduceOp reduce) { return reduction(reduce, quantizer); })
      .Case([&](tn::SoftmaxOp softmax) { return this->softmax(softmax, quantizer); })
      .Case([&](tn::ConcatOp concat) { return this->concat(concat, quantizer); })
      .Default([](Operation *) { return Maybe(); });
}

/// Its shape is a part of the other's, with ones before and behind it.
std::optional<Repetition> repetitionOf(Value repeated, Value whole) {
  ArrayRef<int64_t> a = shapeOf(repeated), b = shapeOf(whole);
  while (a.size() > b.size() && a.front() == 1) {
    a = a.drop_front();
  }
  if (a.size() > b.size()) {
    return std::nullopt;
  }
  ArrayRef<int64_t> aligned = b.take_back(a.size());
  int64_t inner = 1;
  while (!a.empty() && a.back() == 1) {
    inner *= aligned.back();
    a = a.drop_back();
    aligned = aligned.drop_back();
  }
  while (!a.empty() && a.front() == 1) {
    a = a.drop_front();
    aligned = aligned.drop_front();
  }
  if (a != aligned) {
    return std::nullopt;
  }
  return Repetition{static_cast<int32_t>(countOf(repeated)), static_cast<int32_t>(inner)};
}

Lowering::Maybe Lowering::sum(Operation *op, bool isDifference, const Quantizer &quantizer) {
  Value a = op->getOperand(0), b = op->getOperand(1), y = op->getResult(0);
  for (auto [product, added] : {std::pair(a, b), std::pair(b, a)}) {
    tn::MatmulOp matmul = product.getDefiningOp<tn::MatmulOp>();
    bool isBias = matmul && !isDifference && opt::Constants::isConstant(added) &&
                  shapeOf(product) == shapeOf(y) &&
                  (countOf(added) == 1 || shapeOf(added).back() == countOf(added));
    if (isBias) {
      Maybe tensor = this->matmul(matmul, added, quantizer);
      if (tensor) {
        lowered.insert(matmul);
      }
      return tensor;
    }
  }
  bool isSwapped = !viewOf(a) || (shapeOf(a) != shapeOf(y) && shapeOf(b) == shapeOf(y));
  if (isSwapped) {
    std::swap(a, b);
  }
  double signA = isDifference && isSwapped ? -1 : 1, signB = isDifference && !isSwapped ? -1 : 1;
  std::optional<View> first = viewOf(a), second = viewOf(b);
  std::optional<Repetition> repetition = repetitionOf(b, y);
  if (!first || shapeOf(a) != shapeOf(y) || !repetition) {
    return std::nullopt;
  }
  if (std::optional<std::vector<double>> offsets = constants.elements(b)) {
    for (double &offset : *offsets) {
      offset *= signB;
    }
    return affine(op, a, {signA}, *offsets, repetition->inner, quantizer);
  }
  if (!second) {
    return std::nullopt;
  }
  if (roundsTwice) {
    if (isDifference && isSwapped) {
      return gap(
          op, "its first operand repeats in its second, which --rounding tflite has no kernel for");
    }
    return sumLite(op, *first, *second, *repetition, isDifference, quantizer);
  }
  double factorA = signA * first->scale / quantizer.scale;
  double factorB = signB * second->scale / quantizer.scale;
  std::optional<FixedPoint> fixed = fixedPoint(std::max(std::abs(factorA), std::abs(factorB)));
  if (!fixed || std::abs(factorA) + std::abs(factorB) > 1 << 20) {
    return gap(op, "its operands are far beyond the range of its quantized result");
  }
  int tensor = newTensor(countOf(y));
  Call &made =
      call(op, Kernel::Add, {first->tensor, second->tensor}, tensor,
           {static_cast<int32_t>(countOf(y)), repetition->period, repetition->inner, first->zero,
            second->zero, withShift(factorA, fixed->shift), withShift(factorB, fixed->shift),
            fixed->shift, quantizer.zero, quantizer.low, quantizer.high});
  // The second operand is read again where it repeats.
  made.mayOverwrite = first->tensor != second->tensor || repetition->period == countOf(y);
  return tensor;
}

Lowering::Maybe Lowering::product(Operation *op, const Quantizer &quantizer) {
  Value a = op->getOperand(0), b = op->getOperand(1), y = op->getResult(0);
  bool isQuotient = isa<tn::DivOp>(op);
  if (!isQuotient && (!viewOf(a) || (shapeOf(a) != shapeOf(y) && shapeOf(b) == shapeOf(y)))) {
    std::swap(a, b);
  }
  std::optional<View> first = viewOf(a), second = viewOf(b);
  std::optional<Repetition> repetition = repetitionOf(b, y);
  if (!first || shapeOf(a) != shapeOf(y) || !repetition) {
    return std::nullopt;
  }
  if (std::optional<std::vector<double>> factors = constants.elements(b)) {
    for (double &factor : *factors) {
      factor = isQuotient ? 1 / factor : factor;
    }
    return affine(op, a, *factors, {0}, repetition->inner, quantizer);
  }
  if (!second || isQuotient) {
    return std::nullopt;
  }
  double factor = first->scale * second->scale / quantizer.scale;
  std::optional<FixedPoint> fixed = fixedPoint(factor);
  if (!fixed || factor > 1 << 12) {
    return gap(op, "its operands are far beyond the range of its quantized result");
  }
  int tensor = newTensor(countOf(y));
  Call &made = call(op, Kernel::Mul, {first->tensor, second->tensor}, tensor,
                    {static_cast<int32_t>(countOf(y)), repetition->period, repetition->inner,
                     first->zero, second->zero, fixed->value, fixed->shift, quantizer.zero,
                     quantizer.low, quantizer.high});
  made.mayOverwrite = first->tensor != second->tensor || repetition->period == countOf(y);
  return tensor;
}

/// factors * x + offsets, each one number or as many as repeat.
Lowering::Maybe Lowering::affine(Operation *op, Value variable, ArrayRef<double> factors,
                                 ArrayRef<double> offsets, int32_t inner,
                                 const Quantizer &quantizer) {
  if (roundsTwice) {
    return gap(op, "it has a constant operand, which --rounding tflite has no kernel for");
  }
  View x = *viewOf(variable);
  size_t period = std::max(factors.size(), offsets.size());
  double largest = 0, farthest = 0;
  for (double factor : factors) {
    largest = std::max(largest, std::abs(factor * x.scale / quantizer.scale));
  }
  for (double offset : offsets) {
    farthest = std::max(farthest, std::abs(offset / quantizer.scale));
  }
  std::optional<FixedPoint> fixed = fixedPoint(largest);
  if (!fixed || !(largest < 1 << 20) || !(farthest < 1 << 29) ||
      !(std::ldexp(farthest, fixed->shift) < 4e18)) {
    return gap(op, "its operands are far beyond the range of its quantized result");
  }
  std::vector<int32_t> multipliers;
  std::vector<int64_t> added;
  for (size_t i = 0; i < period; ++i) {
    double factor = factors[factors.size() > 1 ? i : 0] * x.scale / quantizer.scale;
    double offset = offsets[offsets.size() > 1 ? i : 0] / quantizer.scale;
    multipliers.push_back(withShift(factor, fixed->shift));
    added.push_back(std::llrint(std::ldexp(offset, fixed->shift)));
  }
  int32_t count = static_cast<int32_t>(countOf(variable));
  int tensor = newTensor(count);
  Call &made = call(op, Kernel::Affine, {x.tensor}, tensor,
                    {count, static_cast<int32_t>(period), inner, x.zero, fixed->shift,
                     quantizer.zero, quantizer.low, quantizer.high});
  made.mayOverwrite = true;
  made.constants.push_back(constantOf("multiplier", "int32_t", multipliers));
  made.constants.push_back(constantOf("offset", "int64_t", added));
  return tensor;
}

/// The same numbers with another scale or bounds; the tensor itself where nothing changes.
Lowering::Maybe Lowering::rescaled(Operation *op, const View &x, int64_t count,
                                   const Quantizer &quantizer) {
  bool isSame = x.scale == quantizer.scale && x.zero == quantizer.zero;
  if (isSame && quantizer.low == -128 && quantizer.high == 127) {
    return x.tensor;
  }
  double factor = x.scale / quantizer.scale;
  if (roundsTwice && isa<tn::ReluOp>(op)) {
    factor = static_cast<double>(static_cast<float>(factor)); // as a quotient of floats
  }
  std::optional<FixedPoint> fixed = fixedPoint(factor);
  if (!fixed || factor > 1 << 20) {
    return gap(op, "its operand is far beyond the range of its quantized result");
  }
  int tensor = newTensor(count);
  Call &made = call(op, Kernel::Affine, {x.tensor}, tensor,
                    {static_cast<int32_t>(count), 1, 1, x.zero, fixed->shift, quantizer.zero,
                     quantizer.low, quantizer.high});
  made.mayOverwrite = true;
  made.constants.push_back(constantOf("multiplier", "int32_t", std::vector<int32_t>{fixed->value}));
  made.constants.push_back(constantOf("offset", "int64_t", std::vector<int64_t>{0}));
  return tensor;
}

namespace {

using Values = std::array<double, 256>;

/// A function of one tensor's numbers, evaluated for each of the 256.
class Tabulation {
public:
  Tabulation(const opt::Constants &moduleConstants, const llvm::DenseMap<Value, View> &known)
      : constants(moduleConstants), views(known) {}

  std::optional<Values> evaluate(Value value) {
    auto view = views.find(value);
    if (view != views.end()) {
      return ofView(view->second);
    }
    if (std::optional<double> scalar = constants.scalar(value)) {
      Values all;
      all.fill(*scalar);
      return all;
    }
    Operation *op = value.getDefiningOp();
    if (!op || op->getNumResults() != 1 || op->getNumOperands() > 2 || op->getNumOperands() == 0) {
      return std::nullopt;
    }
    std::optional<Values> a = evaluate(op->getOperand(0));
    if (!a) {
      return std::nullopt;
    }
    bool isDone = op->getNumOperands() == 1 ? unary(op, *a) : binary(op, *a);
    if (!isDone) {
      return std::nullopt;
    }
    used.push_back(op);
    return a;
  }

  std::optional<View> source;
  SmallVector<Operation *> used;

private:
  std::optional<Values> ofView(const View &view) {
    if (source && !(*source == view)) {
      return std::nullopt;
    }
    source = view;
    Values values;
    for (int q = -128; q < 128; ++q) {
      values[q + 128] = (q - view.zero) * view.scale;
    }
    return values;
  }

  static bool apply(Values &values, function_ref<double(double)> function) {
    for (double &value : values) {
      value = function(value);
    }
    return true;
  }

  static bool unary(Operation *op, Values &x) {
    auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
    return llvm::TypeSwitch<Operation *, bool>(op)
        .Case([&](tn::ReluOp) { return apply(x, [](double v) { return std::max(v, 0.0); }); })
        .Case([&](tn::AbsOp) { return apply(x, [](double v) { return std::abs(v); }); })
        .Case([&](tn::NegOp) { return apply(x, [](double v) { return -v; }); })
        .Case([&](tn::ExpOp) { return apply(x, [](double v) { return std::exp(v); }); })
        .Case([&](tn::LogOp) { return apply(x, [](double v) { return std::log(v); }); })
        .Case([&](tn::SqrtOp) { return apply(x, [](double v) { return std::sqrt(v); }); })
        .Case([&](tn::TanhOp) { return apply(x, [](double v) { return std::tanh(v); }); })
        .Case([&](tn::ErfOp) { return apply(x, [](double v) { return std::erf(v); }); })
        .Case([&](tn::SigmoidOp) { return apply(x, sigmoid); })
        .Case([&](tn::SiluOp) { return apply(x, [&](double v) { return v * sigmoid(v); }); })
        .Case([&](tn::ClampOp clamp) {
          double low = clamp.getLo().convertToDouble(), high = clamp.getHi().convertToDouble();
          return apply(x, [&](double v) { return std::min(std::max(v, low), high); });
        })
        .Case([&](tn::LeakyReluOp leaky) {
          double alpha = leaky.getAlpha().convertToDouble();
          return apply(x, [&](double v) { return v >= 0 ? v : alpha * v; });
        })
        .Case([&](tn::EluOp elu) {
          double alpha = elu.getAlpha().convertToDouble();
          return apply(x, [&](double v) { return v >= 0 ? v : alpha * (std::exp(v) - 1); });
        })
        .Case([&](tn::HardSigmoidOp hard) {
          double alpha = hard.getAlpha().convertToDouble(), beta = hard.getBeta().convertToDouble();
          return apply(x, [&](double v) { return std::max(0.0, std::min(1.0, alpha * v + beta)); });
        })
        .Case([&](tn::GeluOp gelu) {
          return !gelu.getApproximate() &&
                 apply(x, [](double v) { return v / 2 * (1 + std::erf(v / std::sqrt(2.0))); });
        })
        .Default(false);
  }

  bool binary(Operation *op, Values &a) {
    std::optional<Values> b = evaluate(op->getOperand(1));
    if (!b) {
      return false;
    }
    for (auto [x, y] : llvm::zip_equal(a, *b)) {
      if (isa<tn::AddOp>(op)) {
        x += y;
      } else if (isa<tn::SubOp>(op)) {
        x -= y;
      } else if (isa<tn::MulOp>(op)) {
        x *= y;
      } else if (isa<tn::DivOp>(op)) {
        x /= y;
      } else if (isa<tn::MaxOp>(op)) {
        x = std::max(x, y);
      } else if (isa<tn::MinOp>(op)) {
        x = std::min(x, y);
      } else {
        return false;
      }
    }
    return true;
  }

  const opt::Constants &constants;
  const llvm::DenseMap<Value, View> &views;
};

bool isHardSwish(const Values &values, const View &view) {
  return llvm::all_of(llvm::seq(-128, 128), [&](int q) {
    double x = (q - view.zero) * view.scale;
    double exact = x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
    return std::abs(values[q + 128] - exact) <= 1e-6 * (1 + std::abs(exact));
  });
}

} // namespace

Lowering::Maybe Lowering::table(Operation *op, Value value, const Quantizer &quantizer) {
  if (Maybe made = roundsTwice ? tableLite(op, quantizer) : Maybe()) {
    return made;
  }
  Tabulation tabulation(constants, views);
  std::optional<Values> values = tabulation.evaluate(value);
  if (!values || !tabulation.source ||
      llvm::any_of(*values, [](double number) { return std::isnan(number); })) {
    return std::nullopt;
  }
  // Functions of one operation are the nearest number there too, and hard swish is one of several.
  bool isComposed = roundsTwice && op->getNumOperands() != 1;
  const View &x = *tabulation.source;
  std::optional<LiteTable> hardSwish =
      isComposed && isHardSwish(*values, x)
          ? liteHardSwish(x.scale, x.zero, quantizer.scale, quantizer.zero)
          : std::nullopt;
  if (isComposed && !hardSwish) {
    return gap(op, "a function of several operations has no kernel with --rounding tflite");
  }
  std::vector<int8_t> numbers;
  for (auto [i, number] : llvm::enumerate(*values)) {
    int32_t quantized = hardSwish ? (*hardSwish)[i] : quantizer.quantized(number);
    numbers.push_back(
        static_cast<int8_t>(std::min(quantizer.high, std::max(quantizer.low, quantized))));
  }
  lowered.insert(tabulation.used.begin(), tabulation.used.end());
  int32_t count = static_cast<int32_t>(countOf(value));
  int tensor = newTensor(count);
  Call &made = call(op, Kernel::Table, {tabulation.source->tensor}, tensor, {count});
  made.mayOverwrite = true;
  made.constants.push_back(constantOf("values", "int8_t", numbers));
  return tensor;
}

} // namespace tenon::codegen::edge
