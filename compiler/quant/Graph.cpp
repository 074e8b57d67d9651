// Indexes the nodes of the main graph. Graphs inside of nodes stay as they are, so that what they
// read has to keep its name.
#include "compiler/quant/Graph.h"

#include "support/text/Text.h"

#include <algorithm>

namespace tenon::quant {
namespace {

using onnx::DataType;
using std::string_view;

bool isOwn(const onnx::Node &node) { return node.domain.empty() || node.domain == "ai.onnx"; }

bool isAmong(string_view op, std::span<const string_view> ops) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

/// Operands that quantization reads without a look at their number.
size_t leastOperands(string_view op) {
  constexpr string_view none[] = {"Constant",      "RandomNormal", "RandomUniform",
                                  "SequenceEmpty", "Optional",     "OptionalHasElement",
                                  "Loop"};
  constexpr string_view two[] = {"Conv", "ConvTranspose", "Gemm", "MatMul", "Gather",
                                 "Add",  "Sub",           "Mul",  "Div"};
  return isAmong(op, none) ? 0 : isAmong(op, two) ? 2 : op == "Where" ? 3 : 1;
}

} // namespace

Status checkNodes(const std::vector<onnx::Node> &nodes) {
  std::unordered_map<string_view, size_t> makers;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (string_view output : nodes[i].outputs) {
      makers[output] = i;
    }
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    const onnx::Node &node = nodes[i];
    std::string what = strCat(node.opType, " '", nameOf(node), "'");
    if (isOwn(node) && (node.inputs.size() < leastOperands(node.opType) || node.outputs.empty())) {
      return Status::error(ErrorId::OnnxBadArity,
                           strCat(what, " has ", node.inputs.size(), " inputs and ",
                                  node.outputs.size(), " outputs"),
                           "export the model again; onnx.checker reports what else is wrong");
    }
    for (string_view input : node.inputs) {
      auto maker = makers.find(input);
      if (!input.empty() && maker != makers.end() && maker->second >= i) {
        return Status::error(ErrorId::OnnxNotSorted,
                             strCat(what, " reads '", input, "', which is defined later"),
                             "export the model again; onnx.checker reports what else is wrong");
      }
    }
  }
  return Status::ok();
}

Graph::Graph(const onnx::Model &model, const Graph *outer, size_t node)
    : nodes(model.graph.nodes), outer(outer), holder(node) {
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
    outputs.insert(output.name);
    results.push_back(output.name);
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
        collectReads(*attribute.graph, kept);
      }
      if (attribute.graph && isOp(i, "Scan")) {
        collectReads(*attribute.graph, scanned);
      }
    }
  }
  setTypes(model.graph);
}

/// What a node's results are by its operator; those of unknown operators are like its first
/// operand.
DataType Graph::typeOfResult(size_t index) const {
  constexpr string_view integers[] = {"Shape",  "Size",    "ArgMax",
                                      "ArgMin", "NonZero", "NonMaxSuppression"};
  constexpr string_view truths[] = {
      "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or",
      "Xor",   "Not",     "IsNaN",          "IsInf"};
  constexpr string_view chosen[] = {"Cast", "RandomNormal", "RandomUniform", "EyeLike"};
  constexpr string_view second[] = {"Where", "CastLike"};
  constexpr string_view unknown[] = {"If", "Loop", "Scan", "Constant", "SequenceAt"};
  const onnx::Node &node = nodes[index];
  if (isOneOf(index, chosen)) {
    int64_t type = integerOf(node, isOp(index, "Cast") ? "to" : "dtype", int64_t(DataType::Float));
    return static_cast<DataType>(type);
  }
  if (isOp(index, "ConstantOfShape")) {
    const onnx::Attribute *value = attributeOf(node, "value");
    return value && value->tensor ? value->tensor->type : DataType::Float;
  }
  size_t operand = isOneOf(index, second) ? 1 : isOp(index, "OneHot") ? 2 : 0;
  return isOneOf(index, integers)                                   ? DataType::Int64
         : isOneOf(index, truths)                                   ? DataType::Bool
         : isOneOf(index, unknown) || operand >= node.inputs.size() ? DataType::Undefined
                                                                    : typeOf(node.inputs[operand]);
}

void Graph::setTypes(const onnx::Graph &main) {
  for (const std::vector<onnx::ValueInfo> *infos : {&main.inputs, &main.outputs, &main.values}) {
    for (const onnx::ValueInfo &info : *infos) {
      if (info.type != DataType::Undefined) {
        types.emplace(info.name, info.type);
      }
      if (info.hasShape) {
        ranks.emplace(info.name, info.dims.size());
      }
    }
  }
  for (const auto &[name, tensor] : constants) {
    types[name] = tensor->type;
    ranks[name] = tensor->dims.size();
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    DataType type = typeOfResult(i);
    for (string_view output : nodes[i].outputs) {
      types.emplace(output, type);
    }
    if (std::optional<size_t> rank = rankOfResult(i)) {
      ranks.emplace(nodes[i].outputs.front(), *rank);
    }
  }
}

DataType Graph::typeOf(string_view value) const {
  auto found = types.find(value);
  return found != types.end() ? found->second
         : isOuter(value)     ? outer->typeOf(value)
                              : DataType::Undefined;
}

void collectReads(const onnx::Graph &inner, std::set<string_view> &read) {
  for (const onnx::Node &node : inner.nodes) {
    read.insert(node.inputs.begin(), node.inputs.end());
    for (const onnx::Attribute &attribute : node.attributes) {
      if (attribute.graph) {
        collectReads(*attribute.graph, read);
      }
    }
  }
  for (const onnx::ValueInfo &output : inner.outputs) {
    read.insert(output.name);
  }
}

bool Graph::isOp(size_t index, std::string_view op) const {
  return nodes[index].opType == op && isOwn(nodes[index]);
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
  return found != constants.end() ? found->second
         : isOuter(value)         ? outer->constant(value)
                                  : nullptr;
}

bool Graph::isOuter(string_view value) const {
  return outer && !producers.contains(value) && !inputs.contains(value);
}

bool Graph::isModelOutput(string_view value) const {
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i] != value) {
      continue;
    }
    // Loop and Scan give back what they carry first; a condition of Loop is no result.
    const std::vector<string_view> *made = outer ? &outer->node(holder).outputs : nullptr;
    size_t at = made && outer->isOp(holder, "Loop") ? i - 1 : i;
    if (!made || (at < made->size() && outer->isModelOutput((*made)[at]))) {
      return true;
    }
  }
  return false;
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
