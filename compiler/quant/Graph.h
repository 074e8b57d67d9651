// An ONNX model as quantization looks at it: who makes a value, who reads it, and what is constant.
// Relies on the model's views staying valid.
#pragma once

#include "compiler/frontend/onnx/wire/Model.h"
#include "support/Result.h"

#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tenon::quant {

/// A node that reads a value, and as which of its operands.
struct Use {
  size_t node = 0;
  size_t operand = 0;
};

class Graph {
public:
  explicit Graph(const onnx::Model &model) : Graph(model, nullptr, 0) {}
  /// Of a graph inside of a node of another, whose values it may read. The other one outlives it.
  Graph(const onnx::Model &model, const Graph *outer, size_t node);

  const onnx::Node &node(size_t index) const { return nodes[index]; }
  std::span<const onnx::Node> all() const { return nodes; }
  /// Of ONNX's own domain.
  bool isOp(size_t index, std::string_view op) const;
  bool isOneOf(size_t index, std::span<const std::string_view> ops) const;

  /// None for inputs, initializers and what is not there.
  std::optional<size_t> producer(std::string_view value) const;
  const std::vector<Use> &uses(std::string_view value) const;
  /// An initializer or the tensor of a Constant; null if the value is computed.
  const onnx::Tensor *constant(std::string_view value) const;
  bool isOwnConstant(std::string_view value) const { return constants.contains(value); }
  bool isInner() const { return outer != nullptr; }
  /// Whether it is inside of a Scan: OpenVINO's reads nothing computed from around it.
  bool isClosed() const { return outer && (outer->isOp(holder, "Scan") || outer->isClosed()); }
  bool isReadByScan(std::string_view value) const { return scanned.contains(value); }
  /// The graph that all others are inside of.
  const Graph &outermost() const { return outer ? outer->outermost() : *this; }
  /// Whether a value is an output of the model, or becomes one of the node that the graph is inside
  /// of.
  bool isModelOutput(std::string_view value) const;
  /// As far as it follows from what the model says; else Undefined.
  onnx::DataType typeOf(std::string_view value) const;
  /// As far as it follows from what the model says.
  std::optional<size_t> rankOf(std::string_view value) const;
  bool isInput(std::string_view value) const { return inputs.contains(value); }
  /// An output of the model, or read by a graph inside of a node: its name has to stay.
  bool isKept(std::string_view value) const { return kept.contains(value); }
  bool isOutput(std::string_view value) const { return outputs.contains(value); }
  /// The only reader of a value that nothing else needs.
  std::optional<size_t> onlyReader(std::string_view value) const;

private:
  void setTypes(const onnx::Graph &main);
  onnx::DataType typeOfResult(size_t index) const;
  std::optional<size_t> rankOfResult(size_t index) const;

  /// Whether the value may be one of the graph around.
  bool isOuter(std::string_view value) const;

  const std::vector<onnx::Node> &nodes;
  const Graph *outer;
  size_t holder;                         ///< the node of `outer`
  std::vector<std::string_view> results; ///< outputs in order
  std::unordered_map<std::string_view, size_t> producers;
  std::unordered_map<std::string_view, std::vector<Use>> readers;
  std::unordered_map<std::string_view, const onnx::Tensor *> constants;
  std::unordered_map<std::string_view, onnx::DataType> types;
  std::unordered_map<std::string_view, size_t> ranks;
  std::set<std::string_view> inputs, outputs, kept, scanned;
};

/// An error for nodes that lack an operand or result that quantization looks at, and for nodes that
/// are not sorted. Before a Graph is made of them.
Status checkNodes(const std::vector<onnx::Node> &nodes);

/// What a graph inside of a node reads, those inside of it too; its own values among it.
void collectReads(const onnx::Graph &inner, std::set<std::string_view> &read);

/// The name of a node, or of its first result where it has none.
std::string_view nameOf(const onnx::Node &node);
const onnx::Attribute *attributeOf(const onnx::Node &node, std::string_view name);
int64_t integerOf(const onnx::Node &node, std::string_view name, int64_t fallback);
float realOf(const onnx::Node &node, std::string_view name, float fallback);

} // namespace tenon::quant
