// RNN, GRU and LSTM: their inputs and attributes as the layers of common/Recurrent.h. Relies on
// weights that are quantized being dequantized once, when constants are folded.
#include "compiler/frontend/common/Recurrent.h"

#include "compiler/frontend/onnx/NodeContext.h"
#include "compiler/frontend/onnx/StatedSizes.h"
#include "compiler/graph/TnRare.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

struct Recurrent {
  Sequence sequence;
  int64_t directions = 1;
  bool reversed = false; ///< the only direction runs backwards
  bool batchFirst = false;
  bool isQuantized = false;            ///< DynamicQuantizeLSTM
  SmallVector<Activation> activations; ///< of all directions
  Value x;                             ///< [seq, batch, input]
};

/// Initial state [dirs, batch, hidden] of one direction; zeros without one.
Value initialState(NodeContext &n, const Recurrent &r, unsigned i, int64_t direction) {
  if (!n.has(i)) {
    return n.broadcast(n.scalarLike(0, r.x), {r.sequence.batch, n.constantSize(r.sequence.hidden)});
  }
  Value state = n.value(i);
  return pick(n, r.batchFirst ? n.transpose(state, {1, 0, 2}) : state, direction);
}

/// Weights [dirs, gates * hidden, width] of input `i`. Quantized ones lie as [dirs, width, gates *
/// hidden], with a scale and a zero point for each direction or for each column.
Value weights(NodeContext &n, const Recurrent &r, unsigned i) {
  if (!r.isQuantized) {
    return n.value(i);
  }
  Type real = n.builder().getF32Type();
  unsigned scale = i == 1 ? 8 : 10;
  auto spread = [&](unsigned parameter) {
    tn::Dims dims = n.dims(parameter);
    dims.insert(dims.begin() + 1, 3 - dims.size(), n.constantSize(1));
    return n.reshape(n.cast(n.value(parameter), real), dims);
  };
  Value levels = n.sub(n.cast(n.value(i), real), spread(scale + 1));
  return n.transpose(n.mul(levels, spread(scale)), {0, 2, 1});
}

Direction makeDirection(NodeContext &n, const Recurrent &r, int64_t direction) {
  Direction layer;
  int64_t width = gatesOf(r.sequence.cell) * r.sequence.hidden;
  layer.input = n.make<tn::MatmulOp>(r.x, pick(n, weights(n, r, 1), direction), false, true);
  layer.recurrence = pick(n, weights(n, r, 2), direction);
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
  size_t count = r.activations.size() / static_cast<size_t>(r.directions);
  layer.activations.assign(r.activations.begin() + direction * count,
                           r.activations.begin() + (direction + 1) * count);
  return layer;
}

/// The activations of all directions. Those that have parameters take them in turn from
/// `activation_alpha` and `activation_beta`.
SmallVector<Activation> readActivations(NodeContext &n, Cell cell, int64_t directions) {
  n.ignore("activation_alpha");
  n.ignore("activation_beta");
  SmallVector<Activation> own = defaultActivations(cell), result;
  const Attribute *names = n.attribute("activations", AttributeType::Strings);
  size_t count = own.size() * static_cast<size_t>(directions);
  if (!names) {
    for (size_t i = 0; i < count; ++i) {
      result.push_back(own[i % own.size()]);
    }
    return result;
  }
  if (names->strings.size() < count) {
    n.error(ErrorId::OnnxBadAttribute, "attribute 'activations' has too few entries");
    return result;
  }
  using Parameter = tn::CellActivation::Parameter;
  auto reader = [&](StringRef list) {
    const Attribute *stated = n.attribute(list, AttributeType::Floats);
    ArrayRef<float> left = stated ? ArrayRef<float>(stated->floats) : ArrayRef<float>();
    return [&n, list, left](StringRef activation, Parameter parameter, double usual) mutable {
      if (parameter == Parameter::none) {
        return 0.0;
      }
      if (left.empty() && parameter == Parameter::stated) {
        n.gap("activation " + activation + " has no parameter in '" + list + "'",
              "state the parameters of all activations");
      }
      double value = left.empty() ? usual : left.front();
      left = left.drop_front(left.empty() ? 0 : 1);
      return value;
    };
  };
  auto nextAlpha = reader("activation_alpha"), nextBeta = reader("activation_beta");
  for (std::string_view name : ArrayRef(names->strings).take_front(count)) {
    std::string lower = StringRef(name).lower();
    const tn::CellActivation *known = tn::findCellActivation(lower);
    if (!known) {
      n.gap("activation " + StringRef(name) + " in a recurrent layer is not supported",
            "use one from the ONNX specification");
      return result;
    }
    result.push_back({lower, nextAlpha(name, known->alpha, known->usualAlpha),
                      nextBeta(name, known->beta, known->usualBeta)});
  }
  return result;
}

/// The lengths of the rows, [batch, 1]; a run with one that the sequence cannot have is an error.
Value readLengths(NodeContext &n, const Sequence &sequence) {
  Type index = n.builder().getI64Type();
  Value lengths = n.reshape(n.cast(n.value(4), index), {sequence.batch, n.constantSize(1)});
  return requireLengths(n, lengths, sequence.length,
                        "sequence_lens are from 0 to the length of the sequence");
}

std::optional<Recurrent> readRecurrent(NodeContext &n, Cell cell, bool isQuantized) {
  Recurrent r;
  r.isQuantized = isQuantized;
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
  sequence.inputForget = n.integer("input_forget", 0) != 0;
  if (double clip = n.real("clip", 0); clip > 0) {
    sequence.clip = clip;
  }
  int64_t column = r.isQuantized ? 1 : 2;
  std::optional<int64_t> hidden = tn::constantDim(n.dims(2)[column]);
  std::optional<int64_t> directions = tn::constantDim(n.dims(2)[0]);
  sequence.length = n.dims(0)[r.batchFirst ? 1 : 0];
  tn::SymbolList::Range steps = n.symbols().bounds(sequence.length);
  if (!hidden || steps.min < 1 || steps.max > kMaxSteps) {
    n.gap("the length of the sequence is not known to be from 1 to " + Twine(kMaxSteps),
          "declare its range with --shape");
    return std::nullopt;
  }
  if (directions != r.directions ||
      tn::constantDim(n.dims(2)[3 - column]) != gatesOf(cell) * *hidden) {
    n.error(ErrorId::OnnxBadNode, "its recurrent weights do not fit its direction or hidden size");
    return std::nullopt;
  }
  if (n.integer("hidden_size", *hidden) != *hidden) {
    n.error(ErrorId::OnnxBadAttribute, "attribute 'hidden_size' does not fit its weights");
  }
  for (unsigned i = 8; r.isQuantized && i < 12; ++i) {
    if (n.rank(i) != 1 && n.rank(i) != 2) {
      n.error(ErrorId::OnnxBadNode, "a scale or zero point has neither one nor two dimensions");
      return std::nullopt;
    }
  }
  r.activations = readActivations(n, cell, r.directions);
  if (n.failed()) {
    return std::nullopt;
  }
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

/// With `isQuantized` as ONNX Runtime's DynamicQuantizeLSTM, but X and H are not rounded to 8 bits
/// on the way into products: its weights are those numbers exactly, and sums are closer to the
/// layer before it was quantized.
template <Cell cell, bool isQuantized = false> void recurrent(NodeContext &n) {
  std::optional<Recurrent> r = readRecurrent(n, cell, isQuantized);
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

constexpr Attributes kQuantized = {{"activation_alpha", kFloats}, {"activation_beta", kFloats},
                                   {"activations", kStrings},     {"clip", kFloat},
                                   {"direction", kString},        {"hidden_size", kInt},
                                   {"input_forget", kInt}};
constexpr uint16_t kAfterWeights = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7;

constexpr OpRow kRecurrentOpRows[] = {
    {"DynamicQuantizeLSTM", 1, 12, 12, 3, recurrent<Cell::Lstm, true>, kQuantized, kMicrosoft,
     kAfterWeights},
    {"GRU", 7, 3, 6, 2, recurrent<Cell::Gru>, kGru},
    {"LSTM", 7, 3, 8, 3, recurrent<Cell::Lstm>, kLstm},
    {"RNN", 7, 3, 6, 2, recurrent<Cell::Rnn>, kRnn},
};

} // namespace

ArrayRef<OpRow> recurrentRows() { return kRecurrentOpRows; }

} // namespace tenon::onnx
