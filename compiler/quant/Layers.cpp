// The rules are of the kind that other quantizers follow; a search that measures accuracy and time
// may overrule them (Overrides).
#include "compiler/quant/Layers.h"

#include "support/text/Text.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace tenon::quant {
namespace {

using std::string_view;

/// Fewer channels do not fill the words and tiles of 8-bit kernels.
constexpr int64_t kFewChannels = 16;

constexpr string_view kMovements[] = {
    "MaxPool", "Reshape", "Transpose", "Flatten",      "Squeeze",      "Unsqueeze", "Concat",
    "Slice",   "Split",   "Identity",  "DepthToSpace", "SpaceToDepth", "Expand",    "Tile"};
/// What may stand between the last layer and an output.
constexpr string_view kEnds[] = {
    "Softmax", "LogSoftmax", "Sigmoid", "Tanh",    "Relu",    "Clip",      "Add",      "Sub",
    "Mul",     "Div",        "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Cast",
    "ArgMax",  "Transpose",  "Slice",   "Exp",     "TopK",    "Concat",    "Split"};
/// What may stand between a pooling to one place and a product.
constexpr string_view kUnary[] = {"Relu",    "Clip",      "Sigmoid", "HardSigmoid", "HardSwish",
                                  "Reshape", "Flatten",   "Squeeze", "Unsqueeze",   "Identity",
                                  "Dropout", "LeakyRelu", "Cast",    "Transpose"};
constexpr string_view kPoolings[] = {"GlobalAveragePool", "GlobalMaxPool", "ReduceMean"};

class LayerFinder {
public:
  LayerFinder(const Graph &graph, const Overrides &overrides)
      : graph(graph), overrides(overrides), below(graph.all().size()), above(below), pooled(below),
        probable(below), ending(below) {}

  std::vector<Layer> run();

private:
  bool isLayer(size_t node) const {
    constexpr string_view kinds[] = {"Conv", "ConvTranspose", "Gemm", "MatMul"};
    return graph.isOneOf(node, kinds);
  }
  void markDepths();
  Layer describe(size_t node);
  void markOrigins();
  void markEnds();
  bool canRead(size_t node, size_t transpose) const;
  std::optional<Weight> weightOf(size_t node) const;
  std::optional<size_t> normBehind(size_t node, int64_t channels) const;
  std::string whyWide(const Layer &layer) const;
  std::string whyNever(const Layer &layer) const;
  bool isPooled(string_view value) const { return isMarked(pooled, value); }
  bool comesFromSoftmax(string_view value) const { return isMarked(probable, value); }
  bool isMarked(const std::vector<bool> &nodes, string_view value) const {
    std::optional<size_t> producer = graph.producer(value);
    return producer && nodes[*producer];
  }
  bool leadsToSoftmax(string_view value) const;
  bool endsAtOutput(string_view value) const;
  bool readsInput(string_view value) const;

  const Graph &graph;
  const Overrides &overrides;
  std::vector<bool> below; ///< whether a layer reads the node's results, near or far
  std::vector<bool> above; ///< whether a layer makes what the node reads
  /// Whether the result is one place of each channel, behind a pooling over all places; is one of
  /// a softmax; has nothing but activations and shapes before an output.
  std::vector<bool> pooled, probable, ending;
};

void LayerFinder::markDepths() {
  size_t count = graph.all().size();
  for (size_t i = 0; i < count; ++i) {
    for (string_view input : graph.node(i).inputs) {
      std::optional<size_t> producer = graph.producer(input);
      above[i] = above[i] || (producer && (isLayer(*producer) || above[*producer]));
    }
  }
  for (size_t i = count; i-- > 0;) {
    for (string_view output : graph.node(i).outputs) {
      for (const Use &use : graph.uses(output)) {
        below[i] = below[i] || isLayer(use.node) || below[use.node];
      }
    }
  }
}

/// Whether scales along one axis of a constant fit a layer behind its Transpose. Kernels of
/// convolutions are read as they are stored, and who shares a Transpose gets one that reverses.
bool LayerFinder::canRead(size_t node, size_t transpose) const {
  const onnx::Attribute *order = attributeOf(graph.node(transpose), "perm");
  bool reverses = !order || std::is_sorted(order->ints.rbegin(), order->ints.rend());
  bool isAlone = graph.onlyReader(graph.node(transpose).outputs.front()).has_value();
  bool isProduct = graph.isOp(node, "MatMul") || graph.isOp(node, "Gemm");
  return isProduct && (isAlone || reverses);
}

/// A constant, or a transposed one, and the axis of its output channels.
std::optional<Weight> LayerFinder::weightOf(size_t node) const {
  string_view value = graph.node(node).inputs.size() > 1 ? graph.node(node).inputs[1] : "";
  Weight weight;
  weight.use = {node, 1};
  std::optional<size_t> producer = graph.producer(value);
  bool isTransposed = producer && graph.isOp(*producer, "Transpose");
  if (isTransposed) {
    if (!canRead(node, *producer)) {
      return std::nullopt;
    }
    value = graph.node(*producer).inputs.front();
    weight.use = {*producer, 0};
  }
  weight.name = value;
  weight.tensor = graph.constant(value);
  if (!weight.tensor) {
    return std::nullopt;
  }
  int64_t rank = static_cast<int64_t>(weight.tensor->dims.size());
  int64_t axis = graph.isOp(node, "Conv")                                               ? 0
                 : graph.isOp(node, "ConvTranspose")                                    ? 1
                 : graph.isOp(node, "Gemm") && integerOf(graph.node(node), "transB", 0) ? 0
                                                                                        : rank - 1;
  if (isTransposed) {
    const onnx::Attribute *order = attributeOf(graph.node(*producer), "perm");
    bool isWhole = order && static_cast<int64_t>(order->ints.size()) == rank;
    axis = isWhole ? order->ints[static_cast<size_t>(axis)] : rank - 1 - axis;
  }
  weight.axis = std::clamp<int64_t>(axis, 0, std::max<int64_t>(rank - 1, 0));
  return weight;
}

/// The BatchNormalization of constants that alone reads a convolution.
std::optional<size_t> LayerFinder::normBehind(size_t node, int64_t channels) const {
  std::optional<size_t> reader = graph.onlyReader(graph.node(node).outputs.front());
  if (!reader || !graph.isOp(*reader, "BatchNormalization") ||
      integerOf(graph.node(*reader), "training_mode", 0) != 0) {
    return std::nullopt;
  }
  const onnx::Node &norm = graph.node(*reader);
  auto isFloat = [&](string_view name) {
    const onnx::Tensor *tensor = graph.constant(name);
    return tensor && tensor->type == onnx::DataType::Float;
  };
  auto isParameter = [&](string_view name) {
    return isFloat(name) && graph.constant(name)->dims == std::vector{channels};
  };
  bool isConstant = norm.inputs.size() == 5 &&
                    std::all_of(norm.inputs.begin() + 1, norm.inputs.end(), isParameter);
  bool isRead = graph.node(node).inputs.size() < 3 || graph.node(node).inputs[2].empty() ||
                isFloat(graph.node(node).inputs[2]);
  return isConstant && isRead ? reader : std::nullopt;
}

void LayerFinder::markOrigins() {
  constexpr string_view passed[] = {"Dropout", "Cast", "Identity", "Reshape", "Transpose"};
  for (size_t i = 0; i < graph.all().size(); ++i) {
    const std::vector<string_view> &inputs = graph.node(i).inputs;
    if (graph.isOneOf(i, kPoolings)) {
      pooled[i] = true;
    } else if (graph.isOp(i, "Mul") || graph.isOp(i, "Add")) {
      pooled[i] = std::all_of(inputs.begin(), inputs.end(), [&](string_view input) {
        return graph.constant(input) || isPooled(input);
      });
    } else if (graph.isOneOf(i, kUnary) || (isLayer(i) && weightOf(i))) {
      pooled[i] = isPooled(inputs.front());
    }
    if (graph.isOp(i, "Where")) {
      probable[i] = comesFromSoftmax(inputs[1]) || comesFromSoftmax(inputs[2]);
    } else {
      probable[i] = graph.isOp(i, "Softmax") ||
                    (graph.isOneOf(i, passed) && comesFromSoftmax(inputs.front()));
    }
  }
}

void LayerFinder::markEnds() {
  for (size_t i = graph.all().size(); i-- > 0;) {
    const std::vector<string_view> &outputs = graph.node(i).outputs;
    ending[i] = std::any_of(outputs.begin(), outputs.end(),
                            [&](string_view output) { return endsAtOutput(output); });
  }
}

/// Whether it is scaled, masked and normalized only.
bool LayerFinder::leadsToSoftmax(string_view value) const {
  constexpr string_view passed[] = {"Mul",  "Div",      "Add",     "Sub",       "Where",
                                    "Cast", "Identity", "Reshape", "Transpose", "Clip"};
  const std::vector<Use> &uses = graph.uses(value);
  return uses.size() == 1 && (graph.isOp(uses[0].node, "Softmax") ||
                              (graph.isOneOf(uses[0].node, passed) &&
                               leadsToSoftmax(graph.node(uses[0].node).outputs.front())));
}

/// Whether nothing but activations and shapes stands between a value and an output.
bool LayerFinder::endsAtOutput(string_view value) const {
  if (graph.isOutput(value) ? graph.isModelOutput(value) : graph.isKept(value)) {
    return true;
  }
  for (const Use &use : graph.uses(value)) {
    if (!graph.isOneOf(use.node, kEnds)) {
      continue;
    }
    // A residual is no head: what it adds comes from other layers.
    const std::vector<string_view> &inputs = graph.node(use.node).inputs;
    bool joins = std::any_of(inputs.begin(), inputs.end(), [&](string_view input) {
      std::optional<size_t> producer = graph.producer(input);
      return input != value && !graph.constant(input) && producer && above[*producer];
    });
    if (!joins && ending[use.node]) {
      return true;
    }
  }
  return false;
}

/// Whether the first operand is an input of floats, but for what moves or scales it.
bool LayerFinder::readsInput(string_view value) const {
  if (graph.isInput(value)) {
    return !graph.isInner();
  }
  constexpr string_view passed[] = {
      "Cast",      "Sub",       "Div",     "Mul",      "Add",
      "Pad",       "Slice",     "Concat",  "Reshape",  "Flatten",
      "Transpose", "Unsqueeze", "Squeeze", "Identity", "BatchNormalization"};
  std::optional<size_t> producer = graph.producer(value);
  return producer && graph.isOneOf(*producer, passed) &&
         readsInput(graph.node(*producer).inputs.front());
}

/// What keeps a layer wide whatever is asked for; else empty.
std::string LayerFinder::whyNever(const Layer &layer) const {
  const std::vector<string_view> &inputs = graph.node(layer.node).inputs;
  if (layer.weight) {
    const onnx::Tensor &tensor = *layer.weight->tensor;
    bool isEmpty = std::find(tensor.dims.begin(), tensor.dims.end(), 0) != tensor.dims.end();
    return tensor.type != onnx::DataType::Float ? strCat("its weights are ", nameOf(tensor.type))
           : tensor.dims.size() < 2 || isEmpty  ? "its weights are no matrix"
                                                : "";
  }
  std::optional<size_t> producer = graph.producer(inputs[1]);
  if (producer && graph.isOp(*producer, "Transpose") &&
      graph.constant(graph.node(*producer).inputs.front())) {
    return "its weights stand behind a Transpose";
  }
  for (size_t operand : {size_t{0}, size_t{1}}) {
    onnx::DataType type = graph.typeOf(inputs[operand]);
    if (type != onnx::DataType::Float) {
      return type == onnx::DataType::Undefined
                 ? strCat("the type of '", inputs[operand], "' is not known")
                 : strCat("it multiplies ", nameOf(type));
    }
  }
  return "";
}

/// The first guess; empty for a layer that is to be narrow.
std::string LayerFinder::whyWide(const Layer &layer) const {
  const onnx::Node &node = graph.node(layer.node);
  if (!layer.weight) {
    bool isProduct = graph.isOp(layer.node, "MatMul");
    if (!isProduct || graph.constant(node.inputs[0])) {
      return isProduct ? "its left operand is constant" : "its weights are computed";
    }
    // One kernel computes scores, softmax and their product with the values.
    return comesFromSoftmax(node.inputs[0]) ? "softmax by values"
           : leadsToSoftmax(layer.output)   ? "scores of attention"
                                            : "";
  }
  if (!above[layer.node] && readsInput(node.inputs[0])) {
    return "first layer";
  }
  if (!below[layer.node] && endsAtOutput(layer.output)) {
    return "last layer";
  }
  if (isPooled(node.inputs[0])) {
    return graph.isOp(layer.node, "Conv") ? "gate behind a pooling" : "one row: a GEMV";
  }
  const std::vector<int64_t> &dims = layer.weight->tensor->dims;
  bool isConv = graph.isOp(layer.node, "Conv") || graph.isOp(layer.node, "ConvTranspose");
  int64_t group = isConv ? integerOf(node, "group", 1) : 1;
  size_t outer = isConv ? 0 : dims.size() - 2, inner = isConv ? 1 : dims.size() - 1;
  if (std::min(dims[outer], dims[inner] * group) < kFewChannels) {
    return strCat("fewer than ", kFewChannels, " channels");
  }
  return "";
}

Layer LayerFinder::describe(size_t index) {
  const onnx::Node &node = graph.node(index);
  Layer layer;
  layer.node = index;
  layer.weight = weightOf(index);
  layer.output = node.outputs.front();
  if (!graph.isOp(index, "MatMul") && node.inputs.size() > 2) {
    layer.bias = node.inputs[2];
  }
  layer.reason = whyNever(layer);
  if (!layer.reason.empty()) {
    layer.treatment = Treatment::Wide;
    return layer;
  }
  layer.reason = whyWide(layer);
  layer.treatment = layer.reason.empty() ? Treatment::Narrow : Treatment::Wide;
  auto decided = overrides.find(nameOf(node));
  if (decided != overrides.end()) {
    layer.treatment = decided->second.first;
    layer.reason = decided->second.second;
  }
  int64_t size = layer.weight ? std::accumulate(layer.weight->tensor->dims.begin(),
                                                layer.weight->tensor->dims.end(), int64_t{1},
                                                std::multiplies<int64_t>())
                              : 0;
  if (layer.treatment == Treatment::Wide && decided == overrides.end() && size >= kSmallWeight) {
    layer.treatment = Treatment::WeightsOnly;
  }
  if (layer.treatment != Treatment::Wide && layer.weight && graph.isOp(index, "Conv")) {
    layer.norm = normBehind(index, layer.weight->tensor->dims[0]);
    layer.output = layer.norm ? graph.node(*layer.norm).outputs.front() : layer.output;
  }
  return layer;
}

std::vector<Layer> LayerFinder::run() {
  markDepths();
  markOrigins();
  markEnds();
  std::vector<Layer> layers;
  for (size_t i = 0; i < graph.all().size(); ++i) {
    if (isLayer(i)) {
      layers.push_back(describe(i));
    }
  }
  return layers;
}

} // namespace

bool isMovement(const Graph &graph, size_t node) { return graph.isOneOf(node, kMovements); }

std::vector<Layer> findLayers(const Graph &graph, const Overrides &overrides) {
  return LayerFinder(graph, overrides).run();
}

} // namespace tenon::quant
