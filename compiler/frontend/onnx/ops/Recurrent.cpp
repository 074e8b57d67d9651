// RNN, GRU and LSTM: their inputs and attributes as the layers of common/Recurrent.h.
#include "compiler/frontend/common/Recurrent.h"

#include "compiler/frontend/onnx/NodeContext.h"
#include "compiler/frontend/onnx/StatedSizes.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

struct Recurrent {
  Sequence sequence;
  int64_t directions = 1;
  bool reversed = false; ///< the only direction runs backwards
  bool batchFirst = false;
  Value x; ///< [seq, batch, input]
};

/// Initial state [dirs, batch, hidden] of one direction; zeros without one.
Value initialState(NodeContext &n, const Recurrent &r, unsigned i, int64_t direction) {
  if (!n.has(i)) {
    return n.broadcast(n.scalarLike(0, r.x), {r.sequence.batch, n.constantSize(r.sequence.hidden)});
  }
  Value state = n.value(i);
  return pick(n, r.batchFirst ? n.transpose(state, {1, 0, 2}) : state, direction);
}

Direction makeDirection(NodeContext &n, const Recurrent &r, int64_t direction) {
  Direction layer;
  int64_t width = gatesOf(r.sequence.cell) * r.sequence.hidden;
  layer.input = n.make<tn::MatmulOp>(r.x, pick(n, n.value(1), direction), false, true);
  layer.recurrence = pick(n, n.value(2), direction);
  if (Value biases = pick(n, n.value(3), direction)) {
    Value own = n.sliceAxis(biases, 0, n.constantSize(0), n.constantSize(width));
    Value recurrent = n.sliceAxis(biases, 0, n.constantSize(width), n.constantSize(width));
    if (r.sequence.linearBeforeReset) {
      layer.resetBias = gate(n, recurrent, 2, r.sequence.hidden);
      Value early =
          n.sliceAxis(recurrent, 0, n.constantSize(0), n.constantSize(2 * r.sequence.hidden));
      Value none = n.broadcast(n.scalarLike(0, r.x), {n.constantSize(r.sequence.hidden)});
      recurrent = n.concat({early, none}, 0);
    }
    layer.input = n.add(layer.input, n.add(own, recurrent));
  }
  layer.h = initialState(n, r, 5, direction);
  if (r.sequence.cell == Cell::Lstm) {
    layer.c = initialState(n, r, 6, direction);
    layer.peephole = pick(n, n.value(7), direction);
  }
  layer.activations = defaultActivations(r.sequence.cell);
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

/// The lengths of the rows, [batch, 1]; a run with one that the sequence cannot have is an error.
Value readLengths(NodeContext &n, const Sequence &sequence) {
  Type index = n.builder().getI64Type();
  Value lengths = n.reshape(n.cast(n.value(4), index), {sequence.batch, n.constantSize(1)});
  return requireLengths(n, lengths, sequence.length,
                        "sequence_lens are from 0 to the length of the sequence");
}

std::optional<Recurrent> readRecurrent(NodeContext &n, Cell cell) {
  Recurrent r;
  Sequence &sequence = r.sequence;
  sequence.cell = cell;
  std::string direction = n.choice("direction", {"forward", "reverse", "bidirectional"});
  r.directions = direction == "bidirectional" ? 2 : 1;
  r.reversed = direction == "reverse";
  r.batchFirst = n.integer("layout", 0) != 0;
  sequence.linearBeforeReset = cell == Cell::Gru && n.integer("linear_before_reset", 0) != 0;
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
  sequence.length = n.dims(0)[r.batchFirst ? 1 : 0];
  tn::SymbolList::Range steps = n.symbols().bounds(sequence.length);
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
  sequence.hidden = *hidden;
  r.x = r.batchFirst ? n.transpose(n.value(0), {1, 0, 2}) : n.value(0);
  sequence.batch = n.dims(0)[r.batchFirst ? 0 : 1];
  if (n.has(4)) {
    sequence.lengths = readLengths(n, sequence);
  }
  return r;
}

/// States of the directions as [dirs, batch, hidden], or [batch, dirs, hidden] if the batch is
/// first.
Value joinStates(NodeContext &n, const Recurrent &r, ArrayRef<Value> states) {
  SmallVector<Value> parts;
  for (Value state : states) {
    parts.push_back(
        n.reshape(state, {n.constantSize(1), r.sequence.batch, n.constantSize(r.sequence.hidden)}));
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
    Direction layer = makeDirection(n, *r, direction);
    bool backwards = r->reversed || direction == 1;
    sequences.push_back(runSequence(n, r->sequence, layer, backwards));
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
