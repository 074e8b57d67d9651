// RNN, GRU and LSTM over a sequence, one group of operations a step. Where a size decides the
// length, there are as many steps as it may have, and those behind it keep the state. Relies on the
// input's product with the weights being one matmul for all steps; only the recurrent product stays
// in them.
#include "compiler/frontend/onnx/NodeContext.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

constexpr int64_t kMaxSteps = 512;

enum class Cell : uint8_t { Rnn, Gru, Lstm };

int64_t gatesOf(Cell cell) { return cell == Cell::Rnn ? 1 : cell == Cell::Gru ? 3 : 4; }

/// One direction of the layer: its weights and what its steps share.
struct Layer {
  Cell cell = Cell::Rnn;
  int64_t hidden = 0;
  Value input;      ///< X Wᵀ + biases that may be added early: [seq, batch, gates * hidden]
  Value recurrence; ///< [gates * hidden, hidden]
  Value resetBias;  ///< GRU with linear_before_reset: the recurrent bias of the candidate
  Value peephole;   ///< LSTM: [3 * hidden]
  Value h;          ///< state: [batch, hidden]
  Value c;          ///< LSTM
  SmallVector<std::string> activations;
};

Value activate(NodeContext &n, StringRef name, Value x) {
  if (name.equals_insensitive("Sigmoid")) {
    return n.unary<tn::SigmoidOp>(x);
  }
  if (name.equals_insensitive("Tanh")) {
    return n.unary<tn::TanhOp>(x);
  }
  if (name.equals_insensitive("Relu")) {
    return n.unary<tn::ReluOp>(x);
  }
  if (name.equals_insensitive("Softsign")) {
    return n.div(x, n.add(n.unary<tn::AbsOp>(x), n.scalarLike(1, x)));
  }
  if (name.equals_insensitive("Softplus")) {
    return n.unary<tn::SoftplusOp>(x);
  }
  n.gap("activation " + name + " in a recurrent layer is not supported",
        "use Sigmoid, Tanh or Relu");
  return Value();
}

/// The g-th of the parts of width `hidden` along the last dim.
Value gate(NodeContext &n, const Layer &layer, Value x, int64_t g) {
  int64_t last = x ? cast<RankedTensorType>(x.getType()).getRank() - 1 : 0;
  return n.sliceAxis(x, last, n.constantSize(g * layer.hidden), n.constantSize(layer.hidden));
}

Value recurrentProduct(NodeContext &n, Value h, Value weights) {
  return n.make<tn::MatmulOp>(h, weights, false, true);
}

void stepRnn(NodeContext &n, Layer &layer, Value x) {
  layer.h =
      activate(n, layer.activations[0], n.add(x, recurrentProduct(n, layer.h, layer.recurrence)));
}

void stepGru(NodeContext &n, Layer &layer, Value x, bool linearBeforeReset) {
  int64_t width = layer.hidden;
  Value zrWeights = n.sliceAxis(layer.recurrence, 0, n.constantSize(0), n.constantSize(2 * width));
  Value hWeights =
      n.sliceAxis(layer.recurrence, 0, n.constantSize(2 * width), n.constantSize(width));
  Value zrInput = n.sliceAxis(x, 1, n.constantSize(0), n.constantSize(2 * width));
  Value zr =
      activate(n, layer.activations[0], n.add(zrInput, recurrentProduct(n, layer.h, zrWeights)));
  Value z = gate(n, layer, zr, 0);
  Value r = gate(n, layer, zr, 1);
  Value recurrent;
  if (linearBeforeReset) {
    Value product = recurrentProduct(n, layer.h, hWeights);
    recurrent = n.mul(r, layer.resetBias ? n.add(product, layer.resetBias) : product);
  } else {
    recurrent = recurrentProduct(n, n.mul(r, layer.h), hWeights);
  }
  Value candidate = activate(n, layer.activations[1], n.add(gate(n, layer, x, 2), recurrent));
  layer.h = n.add(n.mul(n.sub(n.scalarLike(1, z), z), candidate), n.mul(z, layer.h));
}

void stepLstm(NodeContext &n, Layer &layer, Value x) {
  Value sum = n.add(x, recurrentProduct(n, layer.h, layer.recurrence));
  auto peep = [&](int64_t g, int64_t part, Value cell) {
    Value own = gate(n, layer, sum, g);
    return layer.peephole ? n.add(own, n.mul(gate(n, layer, layer.peephole, part), cell)) : own;
  };
  // ONNX orders the gates input, output, forget, cell and the peepholes input, output, forget.
  Value input = activate(n, layer.activations[0], peep(0, 0, layer.c));
  Value forget = activate(n, layer.activations[0], peep(2, 2, layer.c));
  Value candidate = activate(n, layer.activations[1], gate(n, layer, sum, 3));
  layer.c = n.add(n.mul(forget, layer.c), n.mul(input, candidate));
  Value output = activate(n, layer.activations[0], peep(1, 1, layer.c));
  layer.h = n.mul(output, activate(n, layer.activations[2], layer.c));
}

/// Entry `direction` of the first dim.
Value pick(NodeContext &n, Value x, int64_t direction) {
  if (!x || n.failed()) {
    return Value();
  }
  tn::Dims dims = tn::getDims(x.getType());
  Value part = n.sliceAxis(x, 0, n.constantSize(direction), n.constantSize(1));
  dims.erase(dims.begin());
  return n.reshape(part, dims);
}

struct Recurrent {
  Cell cell = Cell::Rnn;
  int64_t hidden = 0;
  int64_t steps = 0; ///< most of them
  AffineExpr length;
  int64_t directions = 1;
  bool reversed = false; ///< the only direction runs backwards
  bool batchFirst = false;
  bool linearBeforeReset = false;
  Value x; ///< [seq, batch, input]
  AffineExpr batch;
};

/// Initial state [dirs, batch, hidden] of one direction; zeros without one.
Value initialState(NodeContext &n, const Recurrent &r, unsigned i, int64_t direction) {
  if (!n.has(i)) {
    return n.broadcast(n.scalarLike(0, r.x), {r.batch, n.constantSize(r.hidden)});
  }
  Value state = n.value(i);
  return pick(n, r.batchFirst ? n.transpose(state, {1, 0, 2}) : state, direction);
}

Layer makeLayer(NodeContext &n, const Recurrent &r, int64_t direction) {
  Layer layer;
  layer.cell = r.cell;
  layer.hidden = r.hidden;
  int64_t width = gatesOf(r.cell) * r.hidden;
  layer.input = n.make<tn::MatmulOp>(r.x, pick(n, n.value(1), direction), false, true);
  layer.recurrence = pick(n, n.value(2), direction);
  if (Value biases = pick(n, n.value(3), direction)) {
    Value own = n.sliceAxis(biases, 0, n.constantSize(0), n.constantSize(width));
    Value recurrent = n.sliceAxis(biases, 0, n.constantSize(width), n.constantSize(width));
    if (r.linearBeforeReset) {
      layer.resetBias = gate(n, layer, recurrent, 2);
      Value early = n.sliceAxis(recurrent, 0, n.constantSize(0), n.constantSize(2 * r.hidden));
      Value none = n.broadcast(n.scalarLike(0, r.x), {n.constantSize(r.hidden)});
      recurrent = n.concat({early, none}, 0);
    }
    layer.input = n.add(layer.input, n.add(own, recurrent));
  }
  layer.h = initialState(n, r, 5, direction);
  if (r.cell == Cell::Lstm) {
    layer.c = initialState(n, r, 6, direction);
    layer.peephole = pick(n, n.value(7), direction);
  }
  static const SmallVector<std::string> defaults[] = {
      {"Tanh"}, {"Sigmoid", "Tanh"}, {"Sigmoid", "Tanh", "Tanh"}};
  layer.activations = defaults[static_cast<size_t>(r.cell)];
  if (const Attribute *names = n.attribute("activations", AttributeType::Strings)) {
    size_t count = layer.activations.size();
    if (names->strings.size() < (direction + 1) * count) {
      n.error(ErrorId::OnnxBadAttribute, "attribute 'activations' has too few entries");
      count = 0;
    }
    for (size_t i = 0; i < count; ++i) {
      layer.activations[i] = std::string(names->strings[direction * count + i]);
    }
  }
  return layer;
}

/// One step of a direction.
struct Step {
  Value time; ///< its position in the sequence, a scalar; of a step that does not run a valid one
  Value running; ///< which rows of the batch it is for, [batch, 1] or a scalar; null if for all
};

Step stepAt(NodeContext &n, const Recurrent &r, int64_t i, bool backwards, Value lengths) {
  Type index = n.builder().getI64Type();
  bool isCertain = i < n.symbols().bounds(r.length).min;
  Value number = n.scalar(static_cast<double>(i), index);
  Value length = n.sizeValue(r.length, index);
  Value last = n.sub(length, n.scalar(1, index));
  Step step;
  if (tn::constantDim(r.length)) {
    step.time = n.scalar(static_cast<double>(backwards ? r.steps - 1 - i : i), index);
  } else if (backwards) {
    step.time = n.max(n.sub(last, number), n.scalar(0, index));
  } else {
    step.time = n.min(number, last);
  }
  Value isWithin = isCertain ? Value() : n.compare(number, tn::Predicate::lt, length);
  Value isOwn = lengths ? n.compare(step.time, tn::Predicate::lt, lengths) : Value();
  step.running = isWithin && isOwn ? n.make<tn::AndOp>(isWithin, isOwn)
                 : isWithin        ? isWithin
                                   : isOwn;
  return step;
}

void runStep(NodeContext &n, const Recurrent &r, Layer &layer, Value x) {
  switch (r.cell) {
  case Cell::Rnn:
    return stepRnn(n, layer, x);
  case Cell::Gru:
    return stepGru(n, layer, x, r.linearBeforeReset);
  case Cell::Lstm:
    return stepLstm(n, layer, x);
  }
}

/// The results of steps, which are in the order in which they ran, in order of time: [seq, 1,
/// batch, hidden].
Value inOrderOfTime(NodeContext &n, const Recurrent &r, MutableArrayRef<Value> outputs,
                    bool backwards) {
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

/// Runs the steps of one direction; their outputs as `inOrderOfTime` gives them.
Value runLayer(NodeContext &n, const Recurrent &r, Layer &layer, bool backwards) {
  SmallVector<Value> outputs;
  Value lengths = n.has(4) ? n.reshape(n.cast(n.value(4), n.builder().getI64Type()),
                                       {r.batch, n.constantSize(1)})
                           : Value();
  for (int64_t i = 0; i < r.steps && !n.failed(); ++i) {
    Step step = stepAt(n, r, i, backwards, lengths);
    Value oldH = layer.h;
    Value oldC = layer.c;
    runStep(n, r, layer,
            tn::constantDim(r.length) ? pick(n, layer.input, backwards ? r.steps - 1 - i : i)
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

std::optional<Recurrent> readRecurrent(NodeContext &n, Cell cell) {
  Recurrent r;
  r.cell = cell;
  std::string direction = n.choice("direction", {"forward", "reverse", "bidirectional"});
  r.directions = direction == "bidirectional" ? 2 : 1;
  r.reversed = direction == "reverse";
  r.batchFirst = n.integer("layout", 0) != 0;
  r.linearBeforeReset = cell == Cell::Gru && n.integer("linear_before_reset", 0) != 0;
  if (n.rank(0) != 3 || n.rank(1) != 3 || n.rank(2) != 3) {
    n.error(ErrorId::OnnxBadNode, "its first three inputs do not have three dimensions");
    return std::nullopt;
  }
  if (n.hasAttribute("clip") || n.integer("input_forget", 0) != 0) {
    n.gap("clip and input_forget are not supported", "export the layer without them");
    return std::nullopt;
  }
  std::optional<int64_t> hidden = tn::constantDim(n.dims(2)[2]);
  std::optional<int64_t> directions = tn::constantDim(n.dims(2)[0]);
  r.length = n.dims(0)[r.batchFirst ? 1 : 0];
  tn::SymbolList::Range steps = n.symbols().bounds(r.length);
  if (!hidden || steps.min < 1 || steps.max > kMaxSteps) {
    n.gap("the length of the sequence is not known to be from 1 to " + Twine(kMaxSteps),
          "declare its range with --shape");
    return std::nullopt;
  }
  if (directions != r.directions || tn::constantDim(n.dims(2)[1]) != gatesOf(cell) * *hidden) {
    n.error(ErrorId::OnnxBadNode, "its recurrent weights do not fit its direction or hidden size");
    return std::nullopt;
  }
  if (n.integer("hidden_size", *hidden) != *hidden) {
    n.error(ErrorId::OnnxBadAttribute, "attribute 'hidden_size' does not fit its weights");
  }
  // Parameters of activations that are gaps.
  n.ignore("activation_alpha");
  n.ignore("activation_beta");
  r.hidden = *hidden;
  r.steps = steps.max;
  r.x = r.batchFirst ? n.transpose(n.value(0), {1, 0, 2}) : n.value(0);
  r.batch = n.dims(0)[r.batchFirst ? 0 : 1];
  return r;
}

/// States of the directions as [dirs, batch, hidden], or [batch, dirs, hidden] if the batch is
/// first.
Value joinStates(NodeContext &n, const Recurrent &r, ArrayRef<Value> states) {
  SmallVector<Value> parts;
  for (Value state : states) {
    parts.push_back(n.reshape(state, {n.constantSize(1), r.batch, n.constantSize(r.hidden)}));
  }
  Value joined = n.concat(parts, 0);
  return joined && r.batchFirst ? n.transpose(joined, {1, 0, 2}) : joined;
}

template <Cell cell> void recurrent(NodeContext &n) {
  std::optional<Recurrent> r = readRecurrent(n, cell);
  if (!r) {
    return;
  }
  SmallVector<Value> sequences, hiddens, cells;
  for (int64_t direction = 0; direction < r->directions; ++direction) {
    Layer layer = makeLayer(n, *r, direction);
    sequences.push_back(runLayer(n, *r, layer, r->reversed || direction == 1));
    if (n.failed()) {
      return;
    }
    hiddens.push_back(layer.h);
    cells.push_back(layer.c);
  }
  Value all = n.concat(sequences, 1);
  n.setOutput(0, all && r->batchFirst ? n.transpose(all, {2, 0, 1, 3}) : all);
  n.setOutput(1, joinStates(n, *r, hiddens));
  if (cell == Cell::Lstm && n.wantsOutput(2)) {
    n.setOutput(2, joinStates(n, *r, cells));
  }
}

constexpr Attributes kGru = {{"activation_alpha", kFloats}, {"activation_beta", kFloats},
                             {"activations", kStrings},     {"clip", kFloat},
                             {"direction", kString},        {"hidden_size", kInt},
                             {"layout", kInt, 14},          {"linear_before_reset", kInt}};
constexpr Attributes kLstm = {{"activation_alpha", kFloats}, {"activation_beta", kFloats},
                              {"activations", kStrings},     {"clip", kFloat},
                              {"direction", kString},        {"hidden_size", kInt},
                              {"input_forget", kInt},        {"layout", kInt, 14}};
constexpr Attributes kRnn = {{"activation_alpha", kFloats}, {"activation_beta", kFloats},
                             {"activations", kStrings},     {"clip", kFloat},
                             {"direction", kString},        {"hidden_size", kInt},
                             {"layout", kInt, 14}};

constexpr OpRow kRows[] = {
    {"GRU", 7, 3, 6, 2, recurrent<Cell::Gru>, kGru},
    {"LSTM", 7, 3, 8, 3, recurrent<Cell::Lstm>, kLstm},
    {"RNN", 7, 3, 6, 2, recurrent<Cell::Rnn>, kRnn},
};

} // namespace

ArrayRef<OpRow> recurrentRows() { return kRows; }

} // namespace tenon::onnx
