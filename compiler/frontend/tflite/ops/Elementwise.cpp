// Functions of elements: arithmetic with broadcast, activations, comparisons, and conversions.
#include "compiler/frontend/tflite/Node.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::tflite {
namespace {

const fb::ArithmeticOptions *arithmetic(Node &c) {
  const fb::ArithmeticOptions *found = c.op.options_as_Add();
  found = found ? found : c.op.options_as_Mul();
  found = found ? found : c.op.options_as_Sub();
  return c.options(found ? found : c.op.options_as_Div());
}

template <typename Op> void withActivation(Node &c) {
  mlir::Value y = c.make<Op>(c.value(0), c.value(1));
  if (const fb::ArithmeticOptions *options = arithmetic(c)) {
    c.setOutput(c.activated(y, options->activation()));
  }
}

template <typename Op> void binary(Node &c) { c.setOutput(c.make<Op>(c.value(0), c.value(1))); }
template <typename Op> void unary(Node &c) { c.setOutput(c.unary<Op>(c.value(0))); }
template <tn::Predicate predicate> void compare(Node &c) {
  c.setOutput(c.compare(c.value(0), predicate, c.value(1)));
}
template <fb::Activation which> void activation(Node &c) {
  c.setOutput(c.activated(c.value(0), which));
}

void squaredDifference(Node &c) {
  mlir::Value difference = c.sub(c.value(0), c.value(1));
  c.setOutput(c.mul(difference, difference));
}

void square(Node &c) { c.setOutput(c.mul(c.value(0), c.value(0))); }

void leakyRelu(Node &c) {
  if (const fb::LeakyReluOptions *options = c.options(c.op.options_as_LeakyReluOptions())) {
    c.setOutput(c.unary<tn::LeakyReluOp>(c.value(0), llvm::APFloat(double{options->alpha()})));
  }
}

void prelu(Node &c) {
  mlir::Value x = c.value(0);
  mlir::Value zero = c.scalarLike(0, x);
  c.setOutput(c.add(c.max(x, zero), c.mul(c.value(1), c.min(x, zero))));
}

void elu(Node &c) { c.setOutput(c.unary<tn::EluOp>(c.value(0), llvm::APFloat(1.0))); }

void relu0To1(Node &c) {
  c.setOutput(c.unary<tn::ClampOp>(c.value(0), llvm::APFloat(0.0), llvm::APFloat(1.0)));
}

void hardSwish(Node &c) {
  mlir::Value x = c.value(0);
  mlir::Value gate =
      c.unary<tn::ClampOp>(c.add(x, c.scalarLike(3, x)), llvm::APFloat(0.0), llvm::APFloat(6.0));
  c.setOutput(c.mul(c.mul(x, gate), c.scalarLike(1.0 / 6, x)));
}

void gelu(Node &c) {
  if (const fb::GeluOptions *options = c.options(c.op.options_as_GeluOptions())) {
    mlir::Value x = c.value(0);
    c.setOutput(x ? c.makeTyped<tn::GeluOp>(x.getType(), x, options->approximate()) : x);
  }
}

/// Another scale, another type, or numbers from and to real ones.
void convert(Node &c) {
  mlir::Value x = c.value(0);
  if (x && !isQuantized(c.output(0))) {
    std::optional<DType> type = typeOf(c.output(0));
    x = type ? c.cast(x, c.importer().elementType(*type)) : x;
  }
  c.setOutput(x);
}

} // namespace

llvm::ArrayRef<OpRow> elementwiseRows() {
  using fb::Activation;
  static constexpr OpRow kRows[] = {
      {"ABS", 1, unary<tn::AbsOp>},
      {"ADD", 2, withActivation<tn::AddOp>},
      {"CAST", 1, convert},
      {"CEIL", 1, unary<tn::CeilOp>},
      {"COS", 1, unary<tn::CosOp>},
      {"DEQUANTIZE", 1, convert},
      {"DIV", 2, withActivation<tn::DivOp>},
      {"ELU", 1, elu},
      {"EQUAL", 2, compare<tn::Predicate::eq>},
      {"EXP", 1, unary<tn::ExpOp>},
      {"FLOOR", 1, unary<tn::FloorOp>},
      {"GELU", 1, gelu},
      {"GREATER", 2, compare<tn::Predicate::gt>},
      {"GREATER_EQUAL", 2, compare<tn::Predicate::ge>},
      {"HARD_SWISH", 1, hardSwish},
      {"LEAKY_RELU", 1, leakyRelu},
      {"LESS", 2, compare<tn::Predicate::lt>},
      {"LESS_EQUAL", 2, compare<tn::Predicate::le>},
      {"LOG", 1, unary<tn::LogOp>},
      {"LOGISTIC", 1, unary<tn::SigmoidOp>},
      {"MAXIMUM", 2, binary<tn::MaxOp>},
      {"MINIMUM", 2, binary<tn::MinOp>},
      {"MUL", 2, withActivation<tn::MulOp>},
      {"NEG", 1, unary<tn::NegOp>},
      {"NOT_EQUAL", 2, compare<tn::Predicate::ne>},
      {"POW", 2, binary<tn::PowOp>},
      {"PRELU", 2, prelu},
      {"QUANTIZE", 1, convert},
      {"RELU", 1, activation<Activation::Relu>},
      {"RELU6", 1, activation<Activation::Relu6>},
      {"RELU_0_TO_1", 1, relu0To1},
      {"RELU_N1_TO_1", 1, activation<Activation::ReluN1To1>},
      {"ROUND", 1, unary<tn::RoundOp>},
      {"RSQRT", 1, unary<tn::RsqrtOp>},
      {"SIN", 1, unary<tn::SinOp>},
      {"SQRT", 1, unary<tn::SqrtOp>},
      {"SQUARE", 1, square},
      {"SQUARED_DIFFERENCE", 2, squaredDifference},
      {"SUB", 2, withActivation<tn::SubOp>},
      {"TANH", 1, unary<tn::TanhOp>},
  };
  return kRows;
}

} // namespace tenon::tflite
