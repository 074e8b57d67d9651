// A normed row z of n elements has a length of at most sqrt(n), so by Cauchy and Schwarz a product
// (z g + b) w is at most sqrt(n) |g w| + |b w|; attention gives means of its values. Relies on
// norms standing close before products, as in transformers.
#include "compiler/opt/precision/Float8Bounds.h"

#include "compiler/graph/Shape.h"
#include "compiler/opt/Match.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <cstring>

using namespace mlir;

namespace tenon::opt {
namespace {

template <typename T> std::vector<float> widened(ArrayRef<char> bytes) {
  std::vector<float> numbers(bytes.size() / sizeof(T));
  for (size_t i = 0; i < numbers.size(); ++i) {
    T number;
    std::memcpy(&number, bytes.data() + i * sizeof(T), sizeof(T));
    numbers[i] = static_cast<float>(number);
  }
  return numbers;
}

/// A norm of rows along the last dim.
bool isRowNorm(Operation *op) {
  auto isLast = [&](int64_t axis) { return axis + 1 == tensorType(op->getOperand(0)).getRank(); };
  if (tn::LayerNormOp norm = dyn_cast_or_null<tn::LayerNormOp>(op)) {
    return isLast(static_cast<int64_t>(norm.getAxis()));
  }
  tn::RmsNormOp norm = dyn_cast_or_null<tn::RmsNormOp>(op);
  return norm && isLast(static_cast<int64_t>(norm.getAxis()));
}

Value scaleOf(Operation *norm) {
  tn::LayerNormOp layer = dyn_cast<tn::LayerNormOp>(norm);
  return layer ? layer.getScale() : cast<tn::RmsNormOp>(norm).getScale();
}

Value biasOf(Operation *norm) {
  tn::LayerNormOp layer = dyn_cast<tn::LayerNormOp>(norm);
  return layer ? layer.getBias() : Value();
}

/// The norm whose rows a value is, through what keeps rows whole; or null.
Operation *rowNormOf(Value value) {
  Operation *op = value.getDefiningOp();
  while (isa_and_nonnull<tn::ReshapeOp>(op) &&
         tn::sameDim(tn::getDims(op->getOperand(0).getType()).back(),
                     tn::getDims(op->getResult(0).getType()).back())) {
    op = op->getOperand(0).getDefiningOp();
  }
  return isRowNorm(op) ? op : nullptr;
}

/// The weights of a norm, or as many of one number where it has none.
std::vector<float> parameter(const Constants &constants, Value given, size_t count, float other) {
  std::vector<float> elements =
      given ? floatsOf(constants, given) : std::vector<float>(count, other);
  return elements.size() == count ? elements : std::vector<float>();
}

} // namespace

std::vector<float> floatsOf(const Constants &constants, Value constant) {
  Type element = getElementTypeOrSelf(constant.getType());
  std::vector<char> bytes =
      Constants::isConstant(constant) ? constants.bytes(constant) : std::vector<char>();
  if (element.isF32()) {
    return widened<float>(bytes);
  }
  if (element.isF16()) {
    return widened<_Float16>(bytes);
  }
  return element.isBF16() ? widened<__bf16>(bytes) : std::vector<float>();
}

double Float8Bounds::magnitudeOf(Value constant) {
  double most = 0;
  for (float element : floatsOf(constants, constant)) {
    most = std::max(most, std::fabs(double(element)));
  }
  return most;
}

std::optional<double> Float8Bounds::of(Value value, int steps) {
  auto found = known.find(value);
  if (found != known.end()) {
    return found->second;
  }
  Operation *op = value.getDefiningOp();
  std::optional<double> bound = op && steps > 0 ? infer(op, steps - 1) : std::nullopt;
  bound = bound && std::isfinite(*bound) ? bound : std::nullopt;
  if (bound || steps == kMaxSteps) {
    known[value] = bound;
  }
  return bound;
}

std::optional<double> Float8Bounds::ofNorm(Operation *norm) {
  std::optional<int64_t> count = tn::constantDim(tn::getDims(norm->getOperand(0).getType()).back());
  for (Value given : {scaleOf(norm), biasOf(norm)}) {
    if (!count || (given && !Constants::isConstant(given))) {
      return std::nullopt;
    }
  }
  double scale = scaleOf(norm) ? magnitudeOf(scaleOf(norm)) : 1;
  return std::sqrt(double(*count)) * scale + (biasOf(norm) ? magnitudeOf(biasOf(norm)) : 0);
}

std::optional<double> Float8Bounds::ofProduct(tn::MatmulOp product, int steps) {
  RankedTensorType type = tensorType(product.getB());
  if (type.getRank() != 2 || product.getTransposeA()) {
    return std::nullopt;
  }
  bool isTransposed = product.getTransposeB();
  size_t depth = type.getDimSize(isTransposed ? 1 : 0),
         columns = type.getDimSize(isTransposed ? 0 : 1);
  Operation *norm = rowNormOf(product.getA());
  std::optional<double> bound = norm ? ofNorm(norm) : of(product.getA(), steps);
  std::vector<float> scales = parameter(constants, norm ? scaleOf(norm) : Value(), depth, 1);
  std::vector<float> biases = parameter(constants, norm ? biasOf(norm) : Value(), depth, 0);
  std::vector<float> weights = bound ? floatsOf(constants, product.getB()) : std::vector<float>();
  if (weights.size() != depth * columns || scales.empty() || biases.empty()) {
    return std::nullopt;
  }
  std::vector<double> squares(columns), offsets(columns), magnitudes(columns);
  for (size_t i = 0; i < depth; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      double weight = weights[isTransposed ? j * depth + i : i * columns + j];
      double scaled = weight * scales[i];
      squares[j] += scaled * scaled;
      offsets[j] += weight * biases[i];
      magnitudes[j] += std::fabs(weight);
    }
  }
  double most = 0;
  for (size_t j = 0; j < columns; ++j) {
    double ofColumn = *bound * magnitudes[j];
    if (norm) {
      ofColumn = std::min(ofColumn, std::sqrt(double(depth) * squares[j]) + std::fabs(offsets[j]));
    }
    most = std::max(most, ofColumn);
  }
  return most;
}

std::optional<double> Float8Bounds::infer(Operation *op, int steps) {
  if (isMoved(op)) {
    return of(op->getOperand(0), steps);
  }
  if (isRowNorm(op)) {
    return ofNorm(op);
  }
  auto both = [&](auto combine) -> std::optional<double> {
    std::optional<double> a = of(op->getOperand(0), steps);
    std::optional<double> b = a ? of(op->getOperand(1), steps) : std::nullopt;
    return b ? std::optional<double>(combine(*a, *b)) : std::nullopt;
  };
  return llvm::TypeSwitch<Operation *, std::optional<double>>(op)
      .Case<tn::ConstantOp, tn::WeightOp>([&](Operation *constant) -> std::optional<double> {
        constexpr int64_t kMaxElements = 1 << 20; // a bias, not a table
        RankedTensorType type = tensorType(constant->getResult(0));
        Type element = type.getElementType();
        bool isRead = type.hasStaticShape() && type.getNumElements() <= kMaxElements &&
                      (element.isF32() || element.isF16() || element.isBF16());
        return isRead ? std::optional(magnitudeOf(constant->getResult(0))) : std::nullopt;
      })
      .Case<tn::SoftmaxOp>([](tn::SoftmaxOp softmax) {
        return softmax.getLog() ? std::nullopt : std::optional(1.0);
      })
      .Case<tn::SigmoidOp, tn::HardSigmoidOp, tn::TanhOp, tn::ErfOp>(
          [](Operation *) { return 1.0; })
      .Case<tn::ReluOp, tn::GeluOp, tn::SiluOp, tn::CastOp, tn::NegOp, tn::AbsOp>(
          [&](Operation *unary) -> std::optional<double> {
            bool isFloat = isa<FloatType>(getElementTypeOrSelf(unary->getOperand(0)));
            return isFloat ? of(unary->getOperand(0), steps) : std::nullopt;
          })
      .Case<tn::ClampOp>([&](tn::ClampOp clamp) {
        return std::max(std::fabs(clamp.getLo().convertToDouble()),
                        std::fabs(clamp.getHi().convertToDouble()));
      })
      .Case<tn::AddOp, tn::SubOp>(
          [&](Operation *) { return both([](double a, double b) { return a + b; }); })
      .Case<tn::MulOp>([&](Operation *) { return both([](double a, double b) { return a * b; }); })
      .Case<tn::MatmulOp>([&](tn::MatmulOp product) { return ofProduct(product, steps); })
      .Case<tn::AttentionOp>([&](tn::AttentionOp attention) { return of(attention.getV(), steps); })
      .Default([](Operation *) { return std::nullopt; });
}

} // namespace tenon::opt
