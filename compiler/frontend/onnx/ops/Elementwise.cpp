// Arithmetic, comparisons, logic, casts and selection: one `tn` operation each, or a chain of them.
// Relies on `tn` broadcasting as numpy does, which is ONNX's rule since opset 7.
#include "compiler/frontend/onnx/Random.h"
#include "compiler/graph/ElementType.h"
#include "compiler/graph/TnRare.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

template <typename Op> void unary(NodeContext &c) { c.setOutput(0, c.unary<Op>(c.value(0))); }

/// The second operand; before opset 7 attributes say which dims of the first it lies along.
Value secondOperand(NodeContext &c) {
  Value b = c.value(1);
  if (c.opset >= 7 || !b || c.integer("broadcast", 0) == 0 || c.rank(1) == 0) {
    c.ignore("axis");
    return b;
  }
  int64_t missing = c.rank(0) - c.rank(1);
  int64_t axis = missing < 0 ? 0 : c.axis("axis", missing, std::max<int64_t>(c.rank(0), 1));
  tn::Dims dims = c.dims(1);
  dims.append(std::max<int64_t>(0, missing - axis), c.constantSize(1));
  return c.reshape(b, dims);
}

template <typename Op> void binary(NodeContext &c) {
  c.setOutput(0, c.make<Op>(c.value(0), secondOperand(c)));
}

template <tn::Predicate predicate> void comparison(NodeContext &c) {
  Value a = c.value(0);
  Value b = secondOperand(c);
  if (a && c.element(0).isInteger(1)) {
    // Bools are compared as numbers.
    a = c.cast(a, c.builder().getIntegerType(32));
    b = c.cast(b, c.builder().getIntegerType(32));
  }
  c.setOutput(0, c.compare(a, predicate, b));
}

template <typename Op> Value fold(NodeContext &c) {
  Value result = c.value(0);
  for (unsigned i = 1; i < c.numInputs(); ++i) {
    result = c.make<Op>(result, c.value(i));
  }
  return result;
}

template <typename Op> void variadic(NodeContext &c) { c.setOutput(0, fold<Op>(c)); }

void mean(NodeContext &c) {
  Value sum = fold<tn::AddOp>(c);
  c.setOutput(0, c.div(sum, c.scalarLike(c.numInputs(), sum)));
}

void mod(NodeContext &c) {
  c.setOutput(0, c.make<tn::ModOp>(c.value(0), c.value(1), c.integer("fmod", 0) != 0));
}

void bitShift(NodeContext &c) {
  std::string direction = c.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    return c.error(ErrorId::OnnxBadAttribute, "attribute 'direction' is neither LEFT nor RIGHT");
  }
  c.setOutput(0, c.make<tn::ShiftOp>(c.value(0), c.value(1), direction == "LEFT"));
}

void isInf(NodeContext &c) {
  c.setOutput(0, c.make<tn::IsInfOp>(c.value(0), c.integer("detect_positive", 1) != 0,
                                     c.integer("detect_negative", 1) != 0));
}

void isNan(NodeContext &c) { c.setOutput(0, c.make<tn::IsNanOp>(c.value(0))); }

/// How a cast converts what its type does not hold.
struct CastModes {
  bool saturates;
  std::string round; ///< of casts to float8e8m0
};

CastModes readCastModes(NodeContext &c) {
  return {c.integer("saturate", 1) != 0, c.choice("round_mode", {"up", "down", "nearest"})};
}

void castTo(NodeContext &c) {
  Type element = c.elementNamed("to", Type());
  if (!element) {
    return c.error(ErrorId::OnnxBadAttribute, "attribute 'to' is not a data type");
  }
  CastModes modes = readCastModes(c);
  if (element == c.element(0)) {
    return c.forward(0, 0);
  }
  std::optional<SmallVector<int64_t>> known = c.integers(0);
  if (known && element.isF32()) {
    return c.setOutput(0, ArrayRef<float>(SmallVector<float>(known->begin(), known->end())),
                       c.type(0).getShape());
  }
  c.setOutput(0, c.cast(c.value(0), element, modes.saturates, modes.round));
}

void castLike(NodeContext &c) {
  c.ignoreInput(1); // its type is what counts
  CastModes modes = readCastModes(c);
  if (c.element(0) == c.element(1)) {
    return c.forward(0, 0);
  }
  c.setOutput(0, c.cast(c.value(0), c.element(1), modes.saturates, modes.round));
}

void bitCast(NodeContext &c) {
  Type element = c.elementNamed("to", Type());
  auto isHeld = [](Type type) { return type && !tn::isLowBit(type); };
  if (!isHeld(element) || !isHeld(c.element(0))) {
    return c.gap("its element type is not supported", "use a type of 8 bits or more");
  }
  Value x = c.value(0);
  c.setOutput(0, element == c.element(0) || !x
                     ? x
                     : c.makeTyped<tn::BitcastOp>(tn::withElement(x.getType(), element), x));
}

void where(NodeContext &c) { c.setOutput(0, c.select(c.value(0), c.value(1), c.value(2))); }

/// A bound of Clip as a constant, if it is one or absent.
std::optional<double> constantBound(NodeContext &c, unsigned input, StringRef attribute,
                                    double open) {
  if (c.opset < 11) {
    return c.real(attribute, open);
  }
  if (!c.has(input)) {
    return open;
  }
  std::optional<SmallVector<double>> known = c.reals(input);
  return known && known->size() == 1 ? std::optional((*known)[0]) : std::nullopt;
}

void clip(NodeContext &c) {
  Value x = c.value(0);
  double infinity = std::numeric_limits<double>::infinity();
  std::optional<double> low = constantBound(c, 1, "min", -infinity);
  std::optional<double> high = constantBound(c, 2, "max", infinity);
  if (isa<FloatType>(c.element(0)) && low && high) {
    return c.setOutput(0, c.unary<tn::ClampOp>(x, llvm::APFloat(*low), llvm::APFloat(*high)));
  }
  for (unsigned i : {1u, 2u}) {
    Value bound = c.value(i);
    if (bound && c.rank(i) != 0) {
      bound = c.reshape(bound, {});
    }
    if (bound) {
      x = i == 1 ? c.max(x, bound) : c.min(x, bound);
    }
  }
  c.setOutput(0, x);
}

void identity(NodeContext &c) { c.forward(0, 0); }

/// Elements dropped by chance, the others scaled so that the mean stays.
void trainDropout(NodeContext &c) {
  Type real = c.element(0).isF64() ? c.element(0) : Type(c.builder().getF32Type());
  Value ratio = c.has(1) ? c.cast(c.reshape(c.value(1), {}), real) : c.scalar(0.5, real);
  Value unit = c.cast(uniformNumbers(c, c.dims(0), 0), real);
  Value isKept = c.compare(unit, tn::Predicate::ge, ratio);
  Value x = c.cast(c.value(0), real);
  Value scaled = c.div(x, c.sub(c.scalar(1, real), ratio));
  c.setOutput(0, c.cast(c.select(isKept, scaled, c.scalar(0, real)), c.element(0)));
  c.setOutput(1, isKept);
}

void dropout(NodeContext &c) {
  c.ignore("ratio");
  c.ignore("seed");
  std::optional<SmallVector<int64_t>> training = c.integers(2);
  std::optional<SmallVector<double>> ratio = c.reals(1);
  bool drops = c.has(2) && !(training && training->size() == 1 && (*training)[0] == 0);
  bool none = ratio && ratio->size() == 1 && (*ratio)[0] == 0;
  drops = c.opset < 7 ? c.integer("is_test", 0) == 0 : drops;
  if (drops && !none) {
    if (c.opset < 12 || !training || training->size() != 1) {
      return c.gap("whether it drops elements is unknown, or its ratio is an attribute",
                   "export the model in evaluation mode");
    }
    return trainDropout(c);
  }
  c.forward(0, 0);
  if (c.wantsOutput(1)) {
    Type element = c.opset < 10 ? c.element(0) : c.builder().getI1Type();
    c.setOutput(1, c.broadcast(c.scalar(1, element), c.dims(0)));
  }
}

constexpr Attributes kOldBroadcast = {{"axis", kInt, 1, 6}, {"broadcast", kInt, 1, 6}};
constexpr Attributes kCast = {
    {"round_mode", kString, 24}, {"saturate", kInt, 19}, needs({"to", kInt})};

constexpr OpRow kElementwiseOpRows[] = {
    {"Abs", 1, 1, 1, 1, unary<tn::AbsOp>},
    {"Acos", 7, 1, 1, 1, unary<tn::AcosOp>},
    {"Acosh", 9, 1, 1, 1, unary<tn::AcoshOp>},
    {"Add", 1, 2, 2, 1, binary<tn::AddOp>, kOldBroadcast},
    {"And", 1, 2, 2, 1, binary<tn::AndOp>, kOldBroadcast},
    {"Asin", 7, 1, 1, 1, unary<tn::AsinOp>},
    {"Asinh", 9, 1, 1, 1, unary<tn::AsinhOp>},
    {"Atan", 7, 1, 1, 1, unary<tn::AtanOp>},
    {"Atanh", 9, 1, 1, 1, unary<tn::AtanhOp>},
    {"BitCast", 26, 1, 1, 1, bitCast, {needs({"to", kInt})}},
    {"BitShift", 11, 2, 2, 1, bitShift, {needs({"direction", kString})}},
    {"BitwiseAnd", 18, 2, 2, 1, binary<tn::AndOp>},
    {"BitwiseNot", 18, 1, 1, 1, unary<tn::NotOp>},
    {"BitwiseOr", 18, 2, 2, 1, binary<tn::OrOp>},
    {"BitwiseXor", 18, 2, 2, 1, binary<tn::XorOp>},
    {"Cast", 6, 1, 1, 1, castTo, kCast},
    {"CastLike", 15, 2, 2, 1, castLike, {{"round_mode", kString, 24}, {"saturate", kInt, 19}}},
    {"Ceil", 1, 1, 1, 1, unary<tn::CeilOp>},
    {"Clip", 1, 1, 1, 1, clip, {{"max", kFloat}, {"min", kFloat}}},
    {"Clip", 11, 1, 3, 1, clip},
    {"Cos", 7, 1, 1, 1, unary<tn::CosOp>},
    {"Cosh", 9, 1, 1, 1, unary<tn::CoshOp>},
    {"Div", 1, 2, 2, 1, binary<tn::DivOp>, kOldBroadcast},
    {"Dropout", 1, 1, 1, 2, dropout, {{"is_test", kInt, 1, 6}, {"ratio", kFloat}}},
    {"Dropout", 12, 1, 3, 2, dropout, {{"seed", kInt}}},
    {"Equal", 1, 2, 2, 1, comparison<tn::Predicate::eq>, kOldBroadcast},
    {"Erf", 9, 1, 1, 1, unary<tn::ErfOp>},
    {"Exp", 1, 1, 1, 1, unary<tn::ExpOp>},
    {"Floor", 1, 1, 1, 1, unary<tn::FloorOp>},
    {"Greater", 1, 2, 2, 1, comparison<tn::Predicate::gt>, kOldBroadcast},
    {"GreaterOrEqual", 12, 2, 2, 1, comparison<tn::Predicate::ge>},
    {"Identity", 1, 1, 1, 1, identity, {}, "", 0, /*takesContainers=*/true},
    {"IsInf", 10, 1, 1, 1, isInf, {{"detect_negative", kInt}, {"detect_positive", kInt}}},
    {"IsNaN", 9, 1, 1, 1, isNan},
    {"Less", 1, 2, 2, 1, comparison<tn::Predicate::lt>, kOldBroadcast},
    {"LessOrEqual", 12, 2, 2, 1, comparison<tn::Predicate::le>},
    {"Log", 1, 1, 1, 1, unary<tn::LogOp>},
    {"Max", 1, 1, kMany, 1, variadic<tn::MaxOp>},
    {"Mean", 1, 1, kMany, 1, mean},
    {"Min", 1, 1, kMany, 1, variadic<tn::MinOp>},
    {"Mod", 10, 2, 2, 1, mod, {{"fmod", kInt}}},
    {"Mul", 1, 2, 2, 1, binary<tn::MulOp>, kOldBroadcast},
    {"Neg", 1, 1, 1, 1, unary<tn::NegOp>},
    {"Not", 1, 1, 1, 1, unary<tn::NotOp>},
    {"Or", 1, 2, 2, 1, binary<tn::OrOp>, kOldBroadcast},
    {"Pow", 1, 2, 2, 1, binary<tn::PowOp>, kOldBroadcast},
    {"Reciprocal", 1, 1, 1, 1, unary<tn::ReciprocalOp>},
    {"Round", 11, 1, 1, 1, unary<tn::RoundOp>},
    {"Sign", 9, 1, 1, 1, unary<tn::SignOp>},
    {"Sin", 7, 1, 1, 1, unary<tn::SinOp>},
    {"Sinh", 9, 1, 1, 1, unary<tn::SinhOp>},
    {"Sqrt", 1, 1, 1, 1, unary<tn::SqrtOp>},
    {"Sub", 1, 2, 2, 1, binary<tn::SubOp>, kOldBroadcast},
    {"Sum", 1, 1, kMany, 1, variadic<tn::AddOp>},
    {"Tan", 7, 1, 1, 1, unary<tn::TanOp>},
    {"Where", 9, 3, 3, 1, where},
    {"Xor", 1, 2, 2, 1, binary<tn::XorOp>, kOldBroadcast},
};

} // namespace

ArrayRef<OpRow> elementwiseRows() { return kElementwiseOpRows; }

} // namespace tenon::onnx
