// Activation functions: those that `tn` names, and the rarer ones as chains of elementwise
// operations. Relies on defaults of attributes being ONNX's.
#include "compiler/frontend/common/Activations.h"
#include "compiler/frontend/onnx/NodeContext.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

template <typename Op> void unary(NodeContext &c) { c.setOutput(0, c.unary<Op>(c.value(0))); }

void elu(NodeContext &c) {
  c.setOutput(0, frontend::scaledElu(c, c.value(0), c.real("alpha", 1), 1, 1));
}

void leakyRelu(NodeContext &c) {
  c.setOutput(0, c.unary<tn::LeakyReluOp>(c.value(0), llvm::APFloat(c.real("alpha", 0.01f))));
}

void selu(NodeContext &c) {
  double alpha = c.real("alpha", 1.67326319217681884765625);
  double gamma = c.real("gamma", 1.05070102214813232421875);
  c.setOutput(0, frontend::scaledElu(c, c.value(0), alpha, gamma, 1));
}

void celu(NodeContext &c) { c.setOutput(0, frontend::celu(c, c.value(0), c.real("alpha", 1))); }

void hardSigmoid(NodeContext &c) {
  c.setOutput(0, frontend::hardSigmoid(c, c.value(0), c.real("alpha", 0.2f), c.real("beta", 0.5)));
}

void hardSwish(NodeContext &c) { c.setOutput(0, frontend::hardSwish(c, c.value(0))); }

void gelu(NodeContext &c) {
  c.setOutput(0,
              c.unary<tn::GeluOp>(c.value(0), c.choice("approximate", {"none", "tanh"}) == "tanh"));
}

void softsign(NodeContext &c) { c.setOutput(0, frontend::softsign(c, c.value(0))); }

void thresholdedRelu(NodeContext &c) {
  Value x = c.value(0);
  // NaN is not above, and becomes 0.
  Value above = c.compare(x, tn::Predicate::gt, c.scalarLike(c.real("alpha", 1), x));
  c.setOutput(0, c.select(above, x, c.scalarLike(0, x)));
}

void mish(NodeContext &c) { c.setOutput(0, frontend::mish(c, c.value(0))); }

void swish(NodeContext &c) { c.setOutput(0, frontend::swish(c, c.value(0), c.real("alpha", 1))); }

void shrink(NodeContext &c) {
  Value x = c.value(0);
  double lambda = c.real("lambd", 0.5);
  Value bias = c.scalarLike(c.real("bias", 0), x);
  Value below = c.compare(x, tn::Predicate::lt, c.scalarLike(-lambda, x));
  Value above = c.compare(x, tn::Predicate::gt, c.scalarLike(lambda, x));
  Value high = c.select(above, c.sub(x, bias), c.scalarLike(0, x));
  c.setOutput(0, c.select(below, c.add(x, bias), high));
}

void prelu(NodeContext &c) {
  Value x = c.value(0);
  // Before opset 7 a list of slopes lies along the channels.
  bool channels = c.opset < 7 && c.rank(1) == 1 && c.rank(0) > 1;
  Value slope = channels ? c.alongAxis(c.value(1), 1, c.rank(0)) : c.value(1);
  Value negative = c.compare(x, tn::Predicate::lt, c.scalarLike(0, x));
  c.setOutput(0, c.select(negative, c.mul(x, slope), x));
}

constexpr OpRow kActivationOpRows[] = {
    {"Celu", 12, 1, 1, 1, celu, {{"alpha", kFloat}}},
    {"Elu", 1, 1, 1, 1, elu, {{"alpha", kFloat}}},
    {"Gelu", 20, 1, 1, 1, gelu, {{"approximate", kString}}},
    {"HardSigmoid", 1, 1, 1, 1, hardSigmoid, {{"alpha", kFloat}, {"beta", kFloat}}},
    {"HardSwish", 14, 1, 1, 1, hardSwish},
    {"LeakyRelu", 1, 1, 1, 1, leakyRelu, {{"alpha", kFloat}}},
    {"Mish", 18, 1, 1, 1, mish},
    {"PRelu", 1, 2, 2, 1, prelu},
    {"Relu", 1, 1, 1, 1, unary<tn::ReluOp>},
    {"Selu", 1, 1, 1, 1, selu, {{"alpha", kFloat}, {"gamma", kFloat}}},
    {"Shrink", 9, 1, 1, 1, shrink, {{"bias", kFloat}, {"lambd", kFloat}}},
    {"Sigmoid", 1, 1, 1, 1, unary<tn::SigmoidOp>},
    {"Softplus", 1, 1, 1, 1, unary<tn::SoftplusOp>},
    {"Softsign", 1, 1, 1, 1, softsign},
    {"Swish", 24, 1, 1, 1, swish, {{"alpha", kFloat}}},
    {"Tanh", 1, 1, 1, 1, unary<tn::TanhOp>},
    {"ThresholdedRelu", 10, 1, 1, 1, thresholdedRelu, {{"alpha", kFloat}}},
};

} // namespace

ArrayRef<OpRow> activationRows() { return kActivationOpRows; }

} // namespace tenon::onnx
