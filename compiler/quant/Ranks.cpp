// Ranks of values by the operators that make them, for models that say no shapes: exporters of old
// opsets wrote none. Operators that are not named here have results of an unknown rank.
#include "compiler/quant/Graph.h"

#include <algorithm>

namespace tenon::quant {
namespace {

using std::string_view;

constexpr string_view kAlike[] = {"Abs",
                                  "BatchNormalization",
                                  "Cast",
                                  "Ceil",
                                  "Clip",
                                  "CumSum",
                                  "Dropout",
                                  "Elu",
                                  "Erf",
                                  "Exp",
                                  "Floor",
                                  "HardSigmoid",
                                  "Identity",
                                  "LeakyRelu",
                                  "Log",
                                  "LogSoftmax",
                                  "Neg",
                                  "Not",
                                  "Pad",
                                  "PRelu",
                                  "Reciprocal",
                                  "Relu",
                                  "Resize",
                                  "Round",
                                  "Selu",
                                  "Sigmoid",
                                  "Slice",
                                  "Softmax",
                                  "Softplus",
                                  "Sqrt",
                                  "Tanh",
                                  "Tile",
                                  "Upsample",
                                  "MaxPool",
                                  "Conv",
                                  "AveragePool",
                                  "LRN",
                                  "GlobalAveragePool",
                                  "GlobalMaxPool",
                                  "Hardmax",
                                  "Concat",
                                  "Split",
                                  "ConvTranspose",
                                  "InstanceNormalization",
                                  "LpNormalization",
                                  "GatherElements",
                                  "ScatterElements",
                                  "ScatterND",
                                  "DepthToSpace",
                                  "SpaceToDepth",
                                  "ThresholdedRelu"};
constexpr string_view kBroadcast[] = {"Add", "Sub",     "Mul",  "Div", "Pow", "Where", "And",
                                      "Or",  "Greater", "Less", "Min", "Max", "Equal", "Sum"};
constexpr string_view kReductions[] = {"ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum",
                                       "ReduceProd", "ReduceL2",  "ArgMax",    "ArgMin"};

/// The number of elements of a shape that is put together of single sizes.
std::optional<size_t> partsOf(const Graph &graph, string_view shape) {
  if (const onnx::Tensor *constant = graph.constant(shape)) {
    return constant->dims.size() == 1 ? std::optional(size_t(constant->dims[0])) : std::nullopt;
  }
  std::optional<size_t> producer = graph.producer(shape);
  if (producer && graph.isOp(*producer, "Cast")) {
    return partsOf(graph, graph.node(*producer).inputs.front());
  }
  if (producer && graph.isOp(*producer, "Shape")) {
    return graph.rankOf(graph.node(*producer).inputs.front());
  }
  if (!producer || !graph.isOp(*producer, "Concat")) {
    return std::nullopt;
  }
  size_t sum = 0;
  for (string_view part : graph.node(*producer).inputs) {
    std::optional<size_t> maker = graph.producer(part);
    std::optional<size_t> own =
        maker && graph.isOp(*maker, "Unsqueeze") ? std::optional(size_t{1}) : partsOf(graph, part);
    if (!own) {
      return std::nullopt;
    }
    sum += *own;
  }
  return sum;
}

/// Of the list of axes, as an attribute or an operand.
std::optional<size_t> axesOf(const Graph &graph, size_t index) {
  const onnx::Node &node = graph.node(index);
  if (const onnx::Attribute *axes = attributeOf(node, "axes")) {
    return axes->ints.size();
  }
  return node.inputs.size() > 1 ? partsOf(graph, node.inputs[1]) : std::nullopt;
}

} // namespace

std::optional<size_t> Graph::rankOf(string_view value) const {
  auto found = ranks.find(value);
  return found != ranks.end() ? std::optional(found->second)
         : isOuter(value)     ? outer->rankOf(value)
                              : std::nullopt;
}

std::optional<size_t> Graph::rankOfResult(size_t index) const {
  const onnx::Node &node = nodes[index];
  const std::vector<string_view> &inputs = node.inputs;
  std::optional<size_t> first = inputs.empty() ? std::nullopt : rankOf(inputs.front());
  if (isOp(index, "Gemm") || isOp(index, "Flatten")) {
    return 2;
  }
  if (isOp(index, "Reshape") || isOp(index, "Expand")) {
    return inputs.size() < 2 ? std::nullopt : partsOf(*this, inputs[1]);
  }
  if (isOp(index, "Shape")) {
    return 1;
  }
  if (isOneOf(index, kAlike)) {
    return first;
  }
  if (isOp(index, "Transpose")) {
    const onnx::Attribute *order = attributeOf(node, "perm");
    return order ? std::optional(order->ints.size()) : first;
  }
  if (isOneOf(index, kBroadcast) || isOp(index, "MatMul")) {
    size_t most = 0;
    for (string_view input : inputs) {
      std::optional<size_t> own = rankOf(input);
      if (!own || (isOp(index, "MatMul") && *own < 2)) {
        return std::nullopt;
      }
      most = std::max(most, *own);
    }
    return most;
  }
  if (isOneOf(index, kReductions)) {
    bool keeps = integerOf(node, "keepdims", 1) != 0;
    std::optional<size_t> gone = isOp(index, "ArgMax") || isOp(index, "ArgMin")
                                     ? std::optional(size_t{1})
                                     : axesOf(*this, index);
    return !first || keeps ? first : gone ? std::optional(*first - *gone) : std::nullopt;
  }
  if (isOp(index, "Unsqueeze") || isOp(index, "Squeeze")) {
    std::optional<size_t> axes = axesOf(*this, index);
    bool isMore = isOp(index, "Unsqueeze");
    return first && axes ? std::optional(isMore ? *first + *axes : *first - *axes) : std::nullopt;
  }
  if (isOp(index, "Gather")) {
    std::optional<size_t> indices = rankOf(inputs[1]);
    return first && indices && *first > 0 ? std::optional(*first + *indices - 1) : std::nullopt;
  }
  return std::nullopt;
}

} // namespace tenon::quant
