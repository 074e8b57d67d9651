// Steps of training of ai.onnx.preview.training: Adagrad, Adam and Momentum. Relies on the tensors
// of an input coming one after the other, then those of the next.
#include "compiler/frontend/onnx/NodeContext.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

constexpr char kTraining[] = "ai.onnx.preview.training";

/// A step for each tensor: its inputs, of which there are `Count`, and its outputs, one fewer.
template <size_t Count> class Steps {
public:
  explicit Steps(NodeContext &context) : c(context), tensors((c.numInputs() - 2) / Count) {
    if (c.numInputs() != 2 + Count * tensors || c.numOutputs() != (Count - 1) * tensors) {
      c.error(ErrorId::OnnxBadArity,
              "it does not have the same number of inputs and outputs for each tensor");
    }
  }

  /// Calls `step` with the inputs of each tensor; it returns the outputs.
  template <typename Step> void run(const Step &step) {
    for (unsigned i = 0; i < tensors && !c.failed(); ++i) {
      std::array<Value, Count> inputs;
      for (unsigned j = 0; j < Count; ++j) {
        inputs[j] = c.value(2 + j * tensors + i);
      }
      std::array<Value, Count - 1> outputs = step(inputs);
      for (unsigned j = 0; j + 1 < Count; ++j) {
        c.setOutput(j * tensors + i, outputs[j]);
      }
    }
  }

  Value scaled(double by, Value x) { return c.mul(c.scalarLike(by, x), x); }
  /// The gradient with that of the regularization.
  Value regularized(Value gradient, Value x) {
    return c.add(scaled(c.real("norm_coefficient", 0), x), gradient);
  }
  Value rootOf(Value x) {
    return c.add(c.unary<tn::SqrtOp>(x), c.scalarLike(c.real("epsilon", 1e-6f), x));
  }
  Value rate(Value x) { return x ? c.cast(c.value(0), getElementTypeOrSelf(x)) : Value(); }
  Value time(Value x) { return x ? c.cast(c.value(1), getElementTypeOrSelf(x)) : Value(); }

private:
  NodeContext &c;
  unsigned tensors;
};

void adagrad(NodeContext &c) {
  Steps<3> steps(c);
  steps.run([&](ArrayRef<Value> in) -> std::array<Value, 2> {
    Value x = in[0], gradient = steps.regularized(in[1], x);
    Value decay = steps.scaled(c.real("decay_factor", 0), steps.time(x));
    Value rate = c.div(steps.rate(x), c.add(c.scalarLike(1, x), decay));
    Value squares = c.add(in[2], c.mul(gradient, gradient));
    return {c.sub(x, c.div(c.mul(rate, gradient), steps.rootOf(squares))), squares};
  });
}

void adam(NodeContext &c) {
  Steps<4> steps(c);
  double alpha = c.real("alpha", 0.9f), beta = c.real("beta", 0.999f);
  steps.run([&](ArrayRef<Value> in) -> std::array<Value, 3> {
    Value x = in[0], gradient = steps.regularized(in[1], x);
    Value mean = c.add(steps.scaled(alpha, in[2]), steps.scaled(1 - alpha, gradient));
    Value squares =
        c.add(steps.scaled(beta, in[3]), steps.scaled(1 - beta, c.mul(gradient, gradient)));
    Value one = c.scalarLike(1, x), time = steps.time(x), rate = steps.rate(x);
    auto left = [&](double base) {
      return c.sub(one, c.make<tn::PowOp>(c.scalarLike(base, x), time));
    };
    // The means start at 0, for which the first steps are corrected.
    Value corrected = c.div(c.mul(rate, c.unary<tn::SqrtOp>(left(beta))), left(alpha));
    rate = c.select(c.compare(time, tn::Predicate::gt, c.scalarLike(0, x)), corrected, rate);
    Value moved = c.sub(x, c.mul(rate, c.div(mean, steps.rootOf(squares))));
    return {steps.scaled(1 - c.real("norm_coefficient_post", 0), moved), mean, squares};
  });
}

void momentum(NodeContext &c) {
  Steps<3> steps(c);
  bool isNesterov = c.choice("mode", {"standard", "nesterov"}) == "nesterov";
  double alpha = c.real("alpha", 0), beta = c.real("beta", 0);
  steps.run([&](ArrayRef<Value> in) -> std::array<Value, 2> {
    Value x = in[0], gradient = steps.regularized(in[1], x);
    Value isLater = c.compare(steps.time(x), tn::Predicate::gt, c.scalarLike(0, x));
    Value part = c.select(isLater, c.scalarLike(beta, x), c.scalarLike(1, x));
    Value moment = c.add(steps.scaled(alpha, in[2]), c.mul(part, gradient));
    Value step = isNesterov ? c.add(gradient, steps.scaled(alpha, moment)) : moment;
    return {c.sub(x, c.mul(steps.rate(x), step)), moment};
  });
}

constexpr Attributes kAdagrad = {
    {"decay_factor", kFloat}, {"epsilon", kFloat}, {"norm_coefficient", kFloat}};
constexpr Attributes kAdam = {{"alpha", kFloat},
                              {"beta", kFloat},
                              {"epsilon", kFloat},
                              {"norm_coefficient", kFloat},
                              {"norm_coefficient_post", kFloat}};
constexpr Attributes kMomentum = {needs({"alpha", kFloat}), needs({"beta", kFloat}),
                                  needs({"mode", kString}), needs({"norm_coefficient", kFloat})};

constexpr OpRow kTrainingOpRows[] = {
    {"Adagrad", 1, 3, kMany, kMany, adagrad, kAdagrad, kTraining},
    {"Adam", 1, 3, kMany, kMany, adam, kAdam, kTraining},
    {"Momentum", 1, 3, kMany, kMany, momentum, kMomentum, kTraining},
};

} // namespace

ArrayRef<OpRow> trainingRows() { return kTrainingOpRows; }

} // namespace tenon::onnx
