// LSTM, GRU and RNN layers. PyTorch orders gates otherwise than the steps of common/Recurrent.h, so
// weights are reordered, which constant folding does once.
#include "compiler/frontend/common/Recurrent.h"

#include "compiler/frontend/pt2/Call.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

using frontend::Cell;

/// For each gate of the steps, which one of PyTorch's it is. PyTorch: LSTM input, forget,
/// candidate, output; GRU reset, update, candidate.
ArrayRef<int64_t> gateOrder(Cell cell) {
  static constexpr int64_t kRnn[] = {0}, kGru[] = {1, 0, 2}, kLstm[] = {0, 3, 1, 2};
  return cell == Cell::Rnn   ? ArrayRef<int64_t>(kRnn)
         : cell == Cell::Gru ? ArrayRef<int64_t>(kGru)
                             : ArrayRef<int64_t>(kLstm);
}

mlir::Value reordered(Call &c, mlir::Value x, Cell cell, int64_t hidden) {
  SmallVector<mlir::Value> parts;
  for (int64_t gate : gateOrder(cell)) {
    parts.push_back(c.sliceAxis(x, 0, c.constantSize(gate * hidden), c.constantSize(hidden)));
  }
  return x && !c.failed() ? c.concat(parts, 0) : mlir::Value();
}

struct Layers {
  frontend::Sequence sequence;
  SmallVector<mlir::Value> weights; ///< in PyTorch's order: ih, hh, and biases where there are
  bool hasBiases = false;
  std::string activation; ///< of an RNN
  mlir::Value h, c;       ///< [layers * directions, batch, hidden]
  int64_t directions = 1;
};

/// The direction number `index` of all, whose input is x.
frontend::Direction directionOf(Call &c, const Layers &l, int64_t index, mlir::Value x) {
  size_t each = l.hasBiases ? 4 : 2, at = static_cast<size_t>(index) * each;
  Cell cell = l.sequence.cell;
  int64_t hidden = l.sequence.hidden;
  auto weight = [&](size_t i) { return reordered(c, l.weights[at + i], cell, hidden); };
  frontend::Direction direction;
  direction.input = c.make<tn::MatmulOp>(x, weight(0), false, true);
  direction.recurrence = weight(1);
  if (l.hasBiases) {
    mlir::Value own = weight(2), recurrent = weight(3);
    if (cell == Cell::Gru) {
      direction.resetBias =
          c.sliceAxis(recurrent, 0, c.constantSize(2 * hidden), c.constantSize(hidden));
      mlir::Value early = c.sliceAxis(recurrent, 0, c.constantSize(0), c.constantSize(2 * hidden));
      recurrent = c.concat({early, c.broadcast(c.scalarLike(0, x), {c.constantSize(hidden)})}, 0);
    }
    direction.input = c.add(direction.input, c.add(own, recurrent));
  }
  if (!l.activation.empty()) {
    direction.activations = {{l.activation}};
  }
  direction.h = frontend::pick(c, l.h, index);
  direction.c = frontend::pick(c, l.c, index);
  return direction;
}

/// [seq, 1, batch, hidden] of each direction as [seq, batch, directions * hidden].
mlir::Value joined(Call &c, const Layers &l, ArrayRef<mlir::Value> outputs) {
  SmallVector<mlir::Value> parts;
  for (mlir::Value output : outputs) {
    parts.push_back(c.reshape(
        output, {l.sequence.length, l.sequence.batch, c.constantSize(l.sequence.hidden)}));
  }
  return c.failed() ? mlir::Value() : c.concat(parts, 2);
}

mlir::Value stacked(Call &c, const Layers &l, ArrayRef<mlir::Value> states) {
  SmallVector<mlir::Value> parts;
  for (mlir::Value state : states) {
    parts.push_back(
        c.reshape(state, {c.constantSize(1), l.sequence.batch, c.constantSize(l.sequence.hidden)}));
  }
  return c.failed() ? mlir::Value() : c.concat(parts, 0);
}

/// The input [seq, batch, width] and the layers; null (after a failure) where they do not fit.
mlir::Value readLayers(Call &c, Cell cell, Layers &l) {
  mlir::Value x = c.value("input");
  l.weights = c.values("params");
  SmallVector<mlir::Value> states =
      cell == Cell::Lstm ? c.values("hx") : SmallVector<mlir::Value>{c.value("hx")};
  l.hasBiases = c.truth("has_biases", true);
  l.directions = c.truth("bidirectional", false) ? 2 : 1;
  bool batchFirst = c.truth("batch_first", false);
  c.ignore({"dropout"});
  if (c.truth("train", false)) {
    c.gap("a recurrent layer in training is not supported", "call model.eval() before the export");
  }
  size_t layers = static_cast<size_t>(c.integer("num_layers", 1) * l.directions);
  bool fits = x && !states.empty() && states[0] &&
              l.weights.size() == layers * (l.hasBiases ? 4 : 2) &&
              cast<RankedTensorType>(x.getType()).getRank() == 3;
  if (!fits || c.failed()) {
    c.gap("packed sequences, projections and layers without a batch are not supported",
          "give the layer a batch of padded sequences");
    return mlir::Value();
  }
  x = batchFirst ? c.transpose(x, {1, 0, 2}) : x;
  tn::Dims dims = tn::getDims(x.getType());
  std::optional<int64_t> hidden = tn::constantDim(tn::getDims(states[0].getType())[2]);
  tn::SymbolList::Range steps = c.symbols().bounds(dims[0]);
  if (!hidden || steps.min < 1 || steps.max > frontend::kMaxSteps) {
    c.gap("the length of the sequence is not known to be from 1 to " + Twine(frontend::kMaxSteps),
          "declare its range with --shape");
    return mlir::Value();
  }
  l.sequence.cell = cell;
  l.sequence.hidden = *hidden;
  l.sequence.length = dims[0];
  l.sequence.batch = dims[1];
  l.sequence.linearBeforeReset = cell == Cell::Gru;
  l.h = states[0];
  l.c = states.size() > 1 ? states[1] : mlir::Value();
  return x;
}

void recurrent(Call &c, Cell cell, std::string activation) {
  Layers l;
  l.activation = std::move(activation);
  mlir::Value x = readLayers(c, cell, l);
  bool batchFirst = c.truth("batch_first", false);
  SmallVector<mlir::Value> hiddens, cells;
  int64_t layers = c.integer("num_layers", 1);
  for (int64_t layer = 0; layer < layers && !c.failed(); ++layer) {
    SmallVector<mlir::Value> outputs;
    for (int64_t d = 0; d < l.directions && !c.failed(); ++d) {
      frontend::Direction direction = directionOf(c, l, layer * l.directions + d, x);
      outputs.push_back(frontend::runSequence(c, l.sequence, direction, d == 1));
      hiddens.push_back(direction.h);
      cells.push_back(direction.c);
    }
    x = joined(c, l, outputs);
  }
  if (c.failed()) {
    return;
  }
  c.setOutput(0, batchFirst ? c.transpose(x, {1, 0, 2}) : x);
  c.setOutput(1, stacked(c, l, hiddens));
  if (cell == Cell::Lstm) {
    c.setOutput(2, stacked(c, l, cells));
  }
}

void lstm(Call &c) { recurrent(c, Cell::Lstm, ""); }
void gru(Call &c) { recurrent(c, Cell::Gru, ""); }
void rnnTanh(Call &c) { recurrent(c, Cell::Rnn, "tanh"); }
void rnnRelu(Call &c) { recurrent(c, Cell::Rnn, "relu"); }

// With a symbolic batch PyTorch states the last states with a dim of 1 that they do not have.
constexpr OpRow kRecurrentOpRows[] = {
    {"aten.lstm", lstm, /*statesShapes=*/false},
    {"aten.gru", gru, /*statesShapes=*/false},
    {"aten.rnn_tanh", rnnTanh, /*statesShapes=*/false},
    {"aten.rnn_relu", rnnRelu, /*statesShapes=*/false},
};

} // namespace

ArrayRef<OpRow> recurrentRows() { return kRecurrentOpRows; }

} // namespace tenon::pt2
