// Indexes the nodes of the main graph. Graphs inside of nodes stay as they are, so that what they
// read has to keep its name.
#include "compiler/quant/Graph.h"

#include <algorithm>

namespace tenon::quant {

Graph::Graph(const onnx::Model &model) : nodes(model.graph.nodes) {
  for (const onnx::Tensor &tensor : model.graph.initializers) {
    constants[tensor.name] = &tensor;
  }
  for (const onnx::ValueInfo &input : model.graph.inputs) {
    if (!constants.contains(input.name)) {
      inputs.insert(input.name);
    }
  }
  for (const onnx::ValueInfo &output : model.graph.outputs) {
    kept.insert(output.name);
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (std::string_view output : nodes[i].outputs) {
      producers[output] = i;
    }
    for (size_t operand = 0; operand < nodes[i].inputs.size(); ++operand) {
      readers[nodes[i].inputs[operand]].push_back({i, operand});
    }
    if (const onnx::Attribute *value = attributeOf(nodes[i], "value");
        value && value->tensor && isOp(i, "Constant")) {
      constants[nodes[i].outputs.front()] = value->tensor.get();
    }
    for (const onnx::Attribute &attribute : nodes[i].attributes) {
      if (attribute.graph) {
        keepReads(*attribute.graph);
      }
    }
  }
}

void Graph::keepReads(const onnx::Graph &inner) {
  for (const onnx::Node &node : inner.nodes) {
    kept.insert(node.inputs.begin(), node.inputs.end());
    for (const onnx::Attribute &attribute : node.attributes) {
      if (attribute.graph) {
        keepReads(*attribute.graph);
      }
    }
  }
  for (const onnx::ValueInfo &output : inner.outputs) {
    kept.insert(output.name);
  }
}

bool Graph::isOp(size_t index, std::string_view op) const {
  std::string_view domain = nodes[index].domain;
  return nodes[index].opType == op && (domain.empty() || domain == "ai.onnx");
}

bool Graph::isOneOf(size_t index, std::span<const std::string_view> ops) const {
  return std::any_of(ops.begin(), ops.end(), [&](std::string_view op) { return isOp(index, op); });
}

std::optional<size_t> Graph::producer(std::string_view value) const {
  auto found = producers.find(value);
  return found == producers.end() || value.empty() ? std::nullopt : std::optional(found->second);
}

const std::vector<Use> &Graph::uses(std::string_view value) const {
  static const std::vector<Use> none;
  auto found = readers.find(value);
  return found == readers.end() ? none : found->second;
}

const onnx::Tensor *Graph::constant(std::string_view value) const {
  auto found = constants.find(value);
  return found == constants.end() ? nullptr : found->second;
}

std::optional<size_t> Graph::onlyReader(std::string_view value) const {
  const std::vector<Use> &all = uses(value);
  return all.size() == 1 && !isKept(value) ? std::optional(all.front().node) : std::nullopt;
}

std::string_view nameOf(const onnx::Node &node) {
  return node.name.empty() && !node.outputs.empty() ? node.outputs.front() : node.name;
}

const onnx::Attribute *attributeOf(const onnx::Node &node, std::string_view name) {
  for (const onnx::Attribute &attribute : node.attributes) {
    if (attribute.name == name) {
      return &attribute;
    }
  }
  return nullptr;
}

int64_t integerOf(const onnx::Node &node, std::string_view name, int64_t fallback) {
  const onnx::Attribute *attribute = attributeOf(node, name);
  return attribute ? attribute->i : fallback;
}

float realOf(const onnx::Node &node, std::string_view name, float fallback) {
  const onnx::Attribute *attribute = attributeOf(node, name);
  return attribute ? attribute->f : fallback;
}

} // namespace tenon::quant
