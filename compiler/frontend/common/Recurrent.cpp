// The cells, and the order in which their steps run.
#include "compiler/frontend/common/Recurrent.h"

#include "compiler/frontend/common/Activations.h"
#include "compiler/graph/TnRare.h"
#include "mlir/IR/Builders.h"
#include "support/Check.h"

using namespace mlir;

namespace tenon::frontend {
namespace {

int64_t stepsOf(Emitter &n, const Sequence &r) { return n.symbols().bounds(r.length).max; }

/// The activation of a gate's sum.
Value gated(Emitter &n, const Sequence &r, const Activation &activation, Value sum) {
  if (r.clip) {
    sum = n.unary<tn::ClampOp>(sum, llvm::APFloat(-*r.clip), llvm::APFloat(*r.clip));
  }
  return activate(n, activation, sum);
}

Value recurrentProduct(Emitter &n, Value h, Value weights) {
  return n.make<tn::MatmulOp>(h, weights, false, true);
}

void stepRnn(Emitter &n, const Sequence &r, Direction &layer, Value x) {
  layer.h =
      gated(n, r, layer.activations[0], n.add(x, recurrentProduct(n, layer.h, layer.recurrence)));
}

void stepGru(Emitter &n, const Sequence &r, Direction &layer, Value x) {
  int64_t hidden = r.hidden, width = hidden;
  Value zrWeights = n.sliceAxis(layer.recurrence, 0, n.constantSize(0), n.constantSize(2 * width));
  Value hWeights =
      n.sliceAxis(layer.recurrence, 0, n.constantSize(2 * width), n.constantSize(width));
  Value zrInput = n.sliceAxis(x, 1, n.constantSize(0), n.constantSize(2 * width));
  Value zr =
      gated(n, r, layer.activations[0], n.add(zrInput, recurrentProduct(n, layer.h, zrWeights)));
  Value z = gate(n, zr, 0, hidden);
  Value reset = gate(n, zr, 1, hidden);
  Value recurrent;
  if (r.linearBeforeReset) {
    Value product = recurrentProduct(n, layer.h, hWeights);
    recurrent = n.mul(reset, layer.resetBias ? n.add(product, layer.resetBias) : product);
  } else {
    recurrent = recurrentProduct(n, n.mul(reset, layer.h), hWeights);
  }
  Value candidate = gated(n, r, layer.activations[1], n.add(gate(n, x, 2, hidden), recurrent));
  layer.h = n.add(n.mul(n.sub(n.scalarLike(1, z), z), candidate), n.mul(z, layer.h));
}

void stepLstm(Emitter &n, const Sequence &r, Direction &layer, Value x) {
  int64_t hidden = r.hidden;
  Value sum = n.add(x, recurrentProduct(n, layer.h, layer.recurrence));
  auto peep = [&](int64_t g, int64_t part, Value cell) {
    Value own = gate(n, sum, g, hidden);
    return layer.peephole ? n.add(own, n.mul(gate(n, layer.peephole, part, hidden), cell)) : own;
  };
  // ONNX orders the gates input, output, forget, cell and the peepholes input, output, forget.
  Value input = gated(n, r, layer.activations[0], peep(0, 0, layer.c));
  Value forget = r.inputForget ? n.sub(n.scalarLike(1, input), input)
                               : gated(n, r, layer.activations[0], peep(2, 2, layer.c));
  Value candidate = gated(n, r, layer.activations[1], gate(n, sum, 3, hidden));
  layer.c = n.add(n.mul(forget, layer.c), n.mul(input, candidate));
  Value output = gated(n, r, layer.activations[0], peep(1, 1, layer.c));
  layer.h = n.mul(output, activate(n, layer.activations[2], layer.c));
}

/// One step of a direction.
struct Step {
  Value time; ///< its position in the sequence, a scalar; of a step that does not run a valid one
  Value running; ///< which rows of the batch it is for, [batch, 1] or a scalar; null if for all
};

Step stepAt(Emitter &n, const Sequence &r, int64_t i, bool backwards) {
  Type index = n.builder().getI64Type();
  bool isCertain = i < n.symbols().bounds(r.length).min;
  Value number = n.scalar(static_cast<double>(i), index);
  Value length = n.sizeValue(r.length, index);
  Value last = n.sub(length, n.scalar(1, index));
  Step step;
  if (tn::constantDim(r.length)) {
    step.time = n.scalar(static_cast<double>(backwards ? stepsOf(n, r) - 1 - i : i), index);
  } else if (backwards) {
    step.time = n.max(n.sub(last, number), n.scalar(0, index));
  } else {
    step.time = n.min(number, last);
  }
  Value isWithin = isCertain ? Value() : n.compare(number, tn::Predicate::lt, length);
  Value isOwn = r.lengths ? n.compare(step.time, tn::Predicate::lt, r.lengths) : Value();
  step.running = isWithin && isOwn ? n.make<tn::AndOp>(isWithin, isOwn)
                 : isWithin        ? isWithin
                                   : isOwn;
  return step;
}

void runStep(Emitter &n, const Sequence &r, Direction &layer, Value x) {
  switch (r.cell) {
  case Cell::Rnn:
    return stepRnn(n, r, layer, x);
  case Cell::Gru:
    return stepGru(n, r, layer, x);
  case Cell::Lstm:
    return stepLstm(n, r, layer, x);
  }
}

/// The results of steps, which are in the order in which they ran, in order of time: [seq, 1,
/// batch, hidden].
Value inOrderOfTime(Emitter &n, const Sequence &r, MutableArrayRef<Value> outputs, bool backwards) {
  bool isConstant = tn::constantDim(r.length).has_value();
  if (backwards && isConstant) {
    std::reverse(outputs.begin(), outputs.end());
  }
  for (Value &output : outputs) {
    output = n.reshape(output,
                       {n.constantSize(1), n.constantSize(1), r.batch, n.constantSize(r.hidden)});
  }
  Value all = n.concat(outputs, 0);
  if (isConstant || n.failed()) {
    return all;
  }
  if (!backwards) {
    return n.sliceAxis(all, 0, n.constantSize(0), r.length);
  }
  Value last = n.sizeValue(addSizes(r.length, n.constantSize(-1)), n.builder().getI64Type());
  return n.make<tn::GatherOp>(all, n.sub(last, n.positions(r.length)), int64_t{0});
}

/// All steps as one operation with the loop inside.
Value runLoop(Emitter &n, const Sequence &r, Direction &layer, bool backwards) {
  Value weights = n.transpose(layer.recurrence, {1, 0});
  Value lengths = r.lengths ? n.reshape(r.lengths, {r.batch}) : Value();
  if (n.failed()) {
    return Value();
  }
  SmallVector<Attribute> names;
  SmallVector<double> parameters;
  for (const Activation &activation : layer.activations) {
    names.push_back(n.builder().getStringAttr(activation.name));
    parameters.append({activation.alpha, activation.beta});
  }
  if (llvm::all_of(parameters, [](double parameter) { return parameter == 0; })) {
    parameters.clear();
  }
  FloatAttr clip = r.clip ? n.builder().getF64FloatAttr(*r.clip) : FloatAttr();
  Type element = getElementTypeOrSelf(layer.input);
  AffineExpr hidden = n.constantSize(r.hidden);
  Type states = tn::makeTensor({r.length, r.batch, hidden}, element);
  Type last = tn::makeTensor({r.batch, hidden}, element);
  OperationState state(n.location(), tn::RecurrenceOp::getOperationName());
  StringRef cell = r.cell == Cell::Rnn ? "rnn" : r.cell == Cell::Gru ? "gru" : "lstm";
  tn::RecurrenceOp::build(n.builder(), state, states, last, layer.c ? last : Type(), layer.input,
                          weights, layer.h, layer.c, layer.resetBias, layer.peephole, lengths, cell,
                          backwards, r.linearBeforeReset, n.builder().getArrayAttr(names),
                          parameters, clip, r.inputForget);
  tn::RecurrenceOp op = dyn_cast_or_null<tn::RecurrenceOp>(n.finish(state));
  if (!op) {
    return Value();
  }
  layer.h = op.getLastH();
  layer.c = op.getLastC();
  return n.reshape(op.getStates(), {r.length, n.constantSize(1), r.batch, hidden});
}

} // namespace

int64_t gatesOf(Cell cell) { return cell == Cell::Rnn ? 1 : cell == Cell::Gru ? 3 : 4; }

SmallVector<Activation> defaultActivations(Cell cell) {
  static const SmallVector<Activation> defaults[] = {
      {{"tanh"}}, {{"sigmoid"}, {"tanh"}}, {{"sigmoid"}, {"tanh"}, {"tanh"}}};
  return defaults[static_cast<size_t>(cell)];
}

Value activate(Emitter &n, const Activation &activation, Value x) {
  StringRef name = activation.name;
  Value zero = n.scalarLike(0, x);
  llvm::APFloat alpha(activation.alpha);
  auto scaled = [&](double factor, Value y) { return n.mul(y, n.scalarLike(factor, y)); };
  if (name == "sigmoid") {
    return n.unary<tn::SigmoidOp>(x);
  }
  if (name == "tanh") {
    return n.unary<tn::TanhOp>(x);
  }
  if (name == "relu") {
    return n.unary<tn::ReluOp>(x);
  }
  if (name == "softsign") {
    return softsign(n, x);
  }
  if (name == "softplus") {
    return n.unary<tn::SoftplusOp>(x);
  }
  if (name == "elu") {
    return n.unary<tn::EluOp>(x, alpha);
  }
  if (name == "leakyrelu") {
    return n.unary<tn::LeakyReluOp>(x, alpha);
  }
  if (name == "thresholdedrelu") {
    Value isBelow = n.compare(x, tn::Predicate::le, n.scalarLike(activation.alpha, x));
    return n.select(isBelow, zero, x);
  }
  if (name == "hardsigmoid") {
    return hardSigmoid(n, x, activation.alpha, activation.beta);
  }
  if (name == "scaledtanh") {
    return scaled(activation.alpha, n.unary<tn::TanhOp>(scaled(activation.beta, x)));
  }
  TENON_CHECK(name == "affine", "an activation that tn.recurrence lacks");
  return n.add(scaled(activation.alpha, x), n.scalarLike(activation.beta, x));
}

Value gate(Emitter &n, Value x, int64_t g, int64_t hidden) {
  int64_t last = x ? cast<RankedTensorType>(x.getType()).getRank() - 1 : 0;
  return n.sliceAxis(x, last, n.constantSize(g * hidden), n.constantSize(hidden));
}

Value pick(Emitter &n, Value x, int64_t index) {
  if (!x || n.failed()) {
    return Value();
  }
  tn::Dims dims = tn::getDims(x.getType());
  Value part = n.sliceAxis(x, 0, n.constantSize(index), n.constantSize(1));
  dims.erase(dims.begin());
  return n.reshape(part, dims);
}

Value runSequence(Emitter &n, const Sequence &r, Direction &layer, bool backwards) {
  if (layer.activations.empty()) {
    layer.activations = defaultActivations(r.cell);
  }
  int64_t steps = stepsOf(n, r);
  if (steps > kMaxUnrolled) {
    return n.failed() ? Value() : runLoop(n, r, layer, backwards);
  }
  SmallVector<Value> outputs;
  for (int64_t i = 0; i < steps && !n.failed(); ++i) {
    Step step = stepAt(n, r, i, backwards);
    Value oldH = layer.h;
    Value oldC = layer.c;
    runStep(n, r, layer,
            tn::constantDim(r.length) ? pick(n, layer.input, backwards ? steps - 1 - i : i)
                                      : n.make<tn::GatherOp>(layer.input, step.time, int64_t{0}));
    outputs.push_back(layer.h);
    if (step.running) {
      outputs.back() = n.select(step.running, layer.h, n.scalarLike(0, layer.h));
      layer.h = n.select(step.running, layer.h, oldH);
      layer.c = layer.c ? n.select(step.running, layer.c, oldC) : Value();
    }
  }
  return n.failed() ? Value() : inOrderOfTime(n, r, outputs, backwards);
}

} // namespace tenon::frontend
