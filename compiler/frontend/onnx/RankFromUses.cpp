// Follows a value through nodes that keep its shape to one that takes a single rank.
// Relies on nodes being sorted: what a node reads is defined before it.
#include "compiler/frontend/onnx/RankFromUses.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <unordered_set>

using namespace llvm;

namespace tenon::onnx {
namespace {

/// Their first output has the shape of their first input.
constexpr StringRef kKeepShape[] = {"Abs",
                                    "BatchNormalization",
                                    "Cast",
                                    "Ceil",
                                    "Clip",
                                    "DequantizeLinear",
                                    "Dropout",
                                    "Elu",
                                    "Erf",
                                    "Exp",
                                    "Floor",
                                    "Gelu",
                                    "HardSigmoid",
                                    "HardSwish",
                                    "Hardmax",
                                    "Identity",
                                    "IsNaN",
                                    "LeakyRelu",
                                    "Log",
                                    "LogSoftmax",
                                    "LRN",
                                    "Mish",
                                    "Neg",
                                    "Not",
                                    "PRelu",
                                    "Reciprocal",
                                    "Relu",
                                    "Round",
                                    "Selu",
                                    "Sigmoid",
                                    "Sign",
                                    "Softmax",
                                    "Softplus",
                                    "Softsign",
                                    "Sqrt",
                                    "Tanh",
                                    "ThresholdedRelu",
                                    "QuantizeLinear",
                                    "InstanceNormalization",
                                    "LayerNormalization"};

const Attribute *attributeOf(const Node &node, StringRef name) {
  auto found =
      find_if(node.attributes, [&](const Attribute &a) { return StringRef(a.name) == name; });
  return found == node.attributes.end() ? nullptr : &*found;
}

/// The dims of a constant, an initializer or a node's.
const std::vector<int64_t> *constantDims(const Graph &graph, std::string_view name) {
  for (const Tensor &tensor : graph.initializers) {
    if (tensor.name == name) {
      return &tensor.dims;
    }
  }
  for (const Node &node : graph.nodes) {
    const Attribute *value = node.opType == "Constant" && is_contained(node.outputs, name)
                                 ? attributeOf(node, "value")
                                 : nullptr;
    if (value && value->tensor) {
      return &value->tensor->dims;
    }
  }
  return nullptr;
}

/// The rank that the node takes for its input `i`; none if it takes several.
std::optional<size_t> rankTaken(const Graph &graph, const Node &node, size_t i) {
  StringRef op = node.opType;
  if (op == "Gemm" && i < 2) {
    return 2;
  }
  if (i != 0) {
    return std::nullopt;
  }
  if (op == "DepthToSpace" || op == "SpaceToDepth") {
    return 4;
  }
  if (op == "LSTM" || op == "GRU" || op == "RNN") {
    return 3;
  }
  if (const Attribute *order = attributeOf(node, "perm"); order && op == "Transpose") {
    return order->ints.size();
  }
  bool isWindow = is_contained(
      {"Conv", "ConvInteger", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"}, op);
  if (const Attribute *kernel = attributeOf(node, "kernel_shape"); kernel && isWindow) {
    return kernel->ints.size() + 2;
  }
  if (isWindow && node.inputs.size() > 1) {
    const std::vector<int64_t> *weight = constantDims(graph, node.inputs[1]);
    return weight ? std::optional(weight->size()) : std::nullopt;
  }
  if ((op == "Tile" || op == "Pad") && node.inputs.size() > 1) {
    const std::vector<int64_t> *list = constantDims(graph, node.inputs[1]);
    bool isWhole = list && list->size() == 1 && (op == "Tile" || node.inputs.size() < 4);
    return isWhole ? std::optional<size_t>((*list)[0] / (op == "Pad" ? 2 : 1)) : std::nullopt;
  }
  return std::nullopt;
}

} // namespace

std::optional<size_t> rankFromUses(const Graph &graph, std::string_view name) {
  std::unordered_set<std::string_view> same = {name};
  for (const Node &node : graph.nodes) {
    if (!node.domain.empty()) {
      continue;
    }
    for (auto [i, input] : enumerate(node.inputs)) {
      if (!same.count(input)) {
        continue;
      }
      if (std::optional<size_t> rank = rankTaken(graph, node, i)) {
        return rank;
      }
      if (i == 0 && !node.outputs.empty() && is_contained(kKeepShape, StringRef(node.opType))) {
        same.insert(node.outputs[0]);
      }
    }
  }
  for (const std::vector<ValueInfo> *list : {&graph.values, &graph.outputs}) {
    for (const ValueInfo &info : *list) {
      if (info.hasShape && same.count(info.name)) {
        return info.dims.size();
      }
    }
  }
  return std::nullopt;
}

} // namespace tenon::onnx
