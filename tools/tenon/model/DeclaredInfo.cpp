// Implements the reading; types are ONNX's own, since Tenon may have none for them.

#include "tools/tenon/model/DeclaredInfo.h"

#include "compiler/frontend/onnx/wire/TensorData.h"
#include "support/Shape.h"
#include "support/text/Text.h"

#include <set>

namespace tenon::tool {
namespace {

using onnx::ValueInfo;

std::string_view nameOfKind(ValueInfo::Kind kind) {
  switch (kind) {
  case ValueInfo::Kind::Tensor:
    return "tensor";
  case ValueInfo::Kind::Sequence:
    return "sequence";
  case ValueInfo::Kind::Optional:
    return "optional";
  case ValueInfo::Kind::Map:
    return "map";
  case ValueInfo::Kind::Sparse:
    return "sparse tensor";
  case ValueInfo::Kind::Opaque:
    return "opaque";
  case ValueInfo::Kind::Missing:
    break;
  }
  return "of undeclared type";
}

std::string typeText(const ValueInfo &info) {
  if (info.kind != ValueInfo::Kind::Tensor) {
    return std::string(nameOfKind(info.kind));
  }
  std::string text(onnx::nameOf(info.type));
  if (!info.hasShape) {
    return text + " of any rank";
  }
  text += " [";
  for (const onnx::Dimension &dim : info.dims) {
    text += text.back() == '[' ? "" : ", ";
    text += dim.kind == onnx::Dimension::Kind::Value       ? std::to_string(dim.value)
            : dim.kind == onnx::Dimension::Kind::Parameter ? std::string(dim.parameter)
                                                           : "?";
  }
  return text + "]";
}

/// `x:?x3x48x?`; empty for an input without free sizes.
std::string freeShape(const ValueInfo &info) {
  std::string text = strCat(info.name, ':');
  bool isFree = false;
  for (const onnx::Dimension &dim : info.dims) {
    bool isKnown = dim.kind == onnx::Dimension::Kind::Value && dim.value > 0;
    isFree |= !isKnown;
    text += strCat(text.back() == ':' ? "" : "x", isKnown ? std::to_string(dim.value) : "?");
  }
  return isFree ? text : "";
}

uint64_t bytesOf(const onnx::Tensor &tensor) {
  std::optional<DType> type = onnx::toDType(tensor.type);
  std::optional<int64_t> bytes = type ? byteSize(*type, tensor.dims) : std::nullopt;
  return static_cast<uint64_t>(bytes.value_or(0));
}

/// Notes nodes, and by which of them or which input each value is made.
class NodeLister {
public:
  explicit NodeLister(const onnx::Graph &source) : graph(source) {
    for (const std::vector<ValueInfo> *list : {&graph.values, &graph.outputs}) {
      for (const ValueInfo &info : *list) {
        types[info.name] = typeText(info);
      }
    }
  }

  void addInput(std::string_view name, size_t index) {
    producers[name] = -1 - static_cast<int64_t>(index);
  }

  void addNode(const onnx::Node &node, ModelInfo &info) {
    std::string op =
        node.domain.empty() ? std::string(node.opType) : strCat(node.domain, '.', node.opType);
    std::string_view result = node.outputs.empty() ? std::string_view() : node.outputs[0];
    ModelNode entry{op, std::string(node.name.empty() ? result : node.name), types[result], {}};
    for (std::string_view input : node.inputs) {
      if (auto found = producers.find(input); found != producers.end()) {
        entry.producers.push_back(found->second);
      }
    }
    for (std::string_view output : node.outputs) {
      producers[output] = static_cast<int64_t>(info.nodes.size());
    }
    ++info.opCounts[op];
    info.nodes.push_back(std::move(entry));
  }

private:
  const onnx::Graph &graph;
  std::map<std::string_view, std::string> types;
  std::map<std::string_view, int64_t> producers;
};

} // namespace

std::vector<ModelOpset> opsetsOf(const onnx::Model &model) {
  std::vector<ModelOpset> opsets;
  for (const onnx::OpsetImport &import : model.opsets) {
    opsets.push_back({std::string(import.domain), import.version});
  }
  return opsets;
}

ModelInfo declaredInfo(const onnx::Model &model) {
  ModelInfo info;
  const onnx::Graph &graph = model.graph;
  std::set<std::string_view> weights;
  for (const onnx::Tensor &tensor : graph.initializers) {
    weights.insert(tensor.name);
    ++info.weightCount;
    info.weightBytes += bytesOf(tensor);
  }
  NodeLister lister(graph);
  for (const ValueInfo &input : graph.inputs) {
    if (!weights.contains(input.name)) {
      lister.addInput(input.name, info.inputs.size());
      info.inputs.push_back({std::string(input.name), typeText(input)});
      if (std::string shape = freeShape(input); !shape.empty()) {
        info.freeShapes.push_back(std::move(shape));
      }
    } else if (model.irVersion >= 4) { // before it each weight is listed as an input
      info.overridable.push_back({std::string(input.name), typeText(input)});
    }
  }
  for (const ValueInfo &output : graph.outputs) {
    info.outputs.push_back({std::string(output.name), typeText(output)});
  }
  for (const onnx::Node &node : graph.nodes) {
    lister.addNode(node, info);
  }
  return info;
}

} // namespace tenon::tool
