// Evaluates recurrent layers step by step, in double.
// Relies on Evaluation.h for operands; lengths beyond the sequence count as all of it.
#include "compiler/graph/TnRare.h"
#include "compiler/reference/Evaluation.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

using namespace mlir;

namespace tenon::reference {
namespace {

double activate(llvm::StringRef name, double alpha, double beta, double x) {
  if (name == "tanh") {
    return std::tanh(x);
  }
  if (name == "relu") {
    return x < 0 ? 0 : x;
  }
  if (name == "softsign") {
    return x / (1 + std::fabs(x));
  }
  if (name == "elu") {
    return x < 0 ? alpha * std::expm1(x) : x;
  }
  if (name == "leakyrelu") {
    return x < 0 ? alpha * x : x;
  }
  if (name == "thresholdedrelu") {
    return x <= alpha ? 0 : x;
  }
  if (name == "hardsigmoid") {
    return std::clamp(alpha * x + beta, 0.0, 1.0);
  }
  if (name == "scaledtanh") {
    return alpha * std::tanh(beta * x);
  }
  if (name == "affine") {
    return alpha * x + beta;
  }
  return name == "softplus" ? std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)))
                            : 1 / (1 + std::exp(-x));
}

/// One row of the batch between two steps.
struct State {
  std::vector<double> h, c;
};

struct Layer {
  mutable tn::RecurrenceOp op; ///< a handle, whose accessors are not const
  int64_t hidden = 0, width = 0;
  const double *weights = nullptr, *resetBias = nullptr, *peephole = nullptr;

  double act(size_t number, double x) const {
    llvm::ArrayRef<double> parameters = op.getParameters();
    return activate(cast<StringAttr>(op.getActivations()[number]).getValue(),
                    parameters.empty() ? 0 : parameters[2 * number],
                    parameters.empty() ? 0 : parameters[2 * number + 1], x);
  }
  /// The activation of a gate's sum.
  double gate(size_t number, double sum) const {
    double most = op.getClip() ? op.getClip()->convertToDouble() : HUGE_VAL;
    return act(number, std::clamp(sum, -most, most));
  }
  double product(const std::vector<double> &h, int64_t column) const {
    double sum = 0;
    for (int64_t k = 0; k < hidden; ++k) {
      sum += h[k] * weights[k * width + column];
    }
    return sum;
  }
  void step(const double *x, State &state) const;
};

void stepGru(const Layer &l, const double *x, const State &before, State &state) {
  std::vector<double> update(l.hidden), reset(l.hidden), kept(l.hidden);
  for (int64_t j = 0; j < l.hidden; ++j) {
    update[j] = l.gate(0, x[j] + l.product(before.h, j));
    reset[j] = l.gate(0, x[l.hidden + j] + l.product(before.h, l.hidden + j));
    kept[j] = reset[j] * before.h[j];
  }
  for (int64_t j = 0; j < l.hidden; ++j) {
    int64_t column = 2 * l.hidden + j;
    double recurrent = l.product(kept, column);
    if (l.op.getLinearBeforeReset()) {
      double bias = l.resetBias ? l.resetBias[j] : 0;
      recurrent = reset[j] * (l.product(before.h, column) + bias);
    }
    state.h[j] = (1 - update[j]) * l.gate(1, x[column] + recurrent) + update[j] * before.h[j];
  }
}

void stepLstm(const Layer &l, const double *x, const State &before, State &state) {
  for (int64_t j = 0; j < l.hidden; ++j) {
    auto sum = [&](int64_t gate, double cell) {
      double peep = l.peephole && gate < 3 ? l.peephole[gate * l.hidden + j] * cell : 0;
      return x[gate * l.hidden + j] + l.product(before.h, gate * l.hidden + j) + peep;
    };
    double cell = before.c[j];
    double input = l.gate(0, sum(0, cell));
    double forget = l.op.getInputForget() ? 1 - input : l.gate(0, sum(2, cell));
    state.c[j] = forget * cell + input * l.gate(1, sum(3, 0));
    state.h[j] = l.gate(0, sum(1, state.c[j])) * l.act(2, state.c[j]);
  }
}

void Layer::step(const double *x, State &state) const {
  State before = state;
  if (op.getCell() == "lstm") {
    return stepLstm(*this, x, before, state);
  }
  if (op.getCell() == "gru") {
    return stepGru(*this, x, before, state);
  }
  for (int64_t j = 0; j < hidden; ++j) {
    state.h[j] = gate(0, x[j] + product(before.h, j));
  }
}

Status evaluateRecurrence(Evaluation &evaluation) {
  tn::RecurrenceOp op = cast<tn::RecurrenceOp>(evaluation.op);
  auto wide = [&](Value operand) -> Result<Tensor> {
    return operand ? convert(evaluation.get(operand), DType::F64) : Tensor::create(DType::F64, {0});
  };
  TENON_ASSIGN(Tensor x, wide(op.getInput()));
  TENON_ASSIGN(Tensor weights, wide(op.getWeights()));
  TENON_ASSIGN(Tensor h, wide(op.getFirstH()));
  TENON_ASSIGN(Tensor c, wide(op.getFirstC()));
  TENON_ASSIGN(Tensor bias, wide(op.getResetBias()));
  TENON_ASSIGN(Tensor peephole, wide(op.getPeephole()));
  int64_t steps = x.dims()[0], batch = x.dims()[1], hidden = h.dims()[1], width = x.dims()[2];
  Layer layer = {op,
                 hidden,
                 width,
                 weights.as<double>(),
                 op.getResetBias() ? bias.as<double>() : nullptr,
                 op.getPeephole() ? peephole.as<double>() : nullptr};
  const Tensor *lengths = op.getLengths() ? evaluation.find(op.getLengths()) : nullptr;
  TENON_ASSIGN(Tensor states, Tensor::create(DType::F64, {steps, batch, hidden}));
  TENON_ASSIGN(Tensor lastH, Tensor::create(DType::F64, h.dims()));
  TENON_ASSIGN(Tensor lastC, Tensor::create(DType::F64, c.dims()));
  for (int64_t row = 0; row < batch; ++row) {
    const double *firstH = std::as_const(h).as<double>() + row * hidden;
    State state = {{firstH, firstH + hidden}, {}};
    if (op.getFirstC()) {
      const double *firstC = std::as_const(c).as<double>() + row * hidden;
      state.c.assign(firstC, firstC + hidden);
    }
    int64_t stated = lengths ? lengths->as<int64_t>()[row] : steps;
    int64_t length = std::clamp<int64_t>(stated, 0, steps);
    for (int64_t i = 0; i < length; ++i) {
      int64_t place = (op.getReverse() ? length - 1 - i : i) * batch + row;
      layer.step(x.as<double>() + place * width, state);
      std::copy(state.h.begin(), state.h.end(), states.as<double>() + place * hidden);
    }
    std::copy(state.h.begin(), state.h.end(), lastH.as<double>() + row * hidden);
    std::copy(state.c.begin(), state.c.end(), lastC.as<double>() + row * hidden);
  }
  DType dtype = evaluation.get(op.getInput()).dtype();
  for (Tensor *result : {&states, &lastH, op.getLastC() ? &lastC : nullptr}) {
    if (result) {
      TENON_ASSIGN(Tensor stored, convert(*result, dtype));
      TENON_TRY(evaluation.finish(std::move(stored)));
    }
  }
  return Status::ok();
}

constexpr OpRow kRecurrentOpRows[] = {
    {"tn.recurrence", evaluateRecurrence},
};

} // namespace

llvm::ArrayRef<OpRow> recurrentOps() { return kRecurrentOpRows; }

} // namespace tenon::reference
