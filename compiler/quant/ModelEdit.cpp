// What is to change, until ModelWriter writes it.
#include "compiler/quant/ModelEdit.h"

#include "compiler/frontend/onnx/wire/Pieces.h"
#include "compiler/quant/ModelFields.h"
#include "support/text/Text.h"

#include <algorithm>

namespace tenon::quant {

using onnx::Message;
using std::string_view;

ModelEdit::ModelEdit(Bytes bytes, const onnx::Model &model, const Graph &graph)
    : file(reinterpret_cast<const char *>(bytes.data()), bytes.size()), model(model), graph(graph),
      names(std::make_shared<std::set<std::string, std::less<>>>()) {
  avoidNames(model.graph);
}

/// Also of what nobody reads, and of graphs inside of nodes: their names hide those around them.
void ModelEdit::avoidNames(const onnx::Graph &own) {
  for (const onnx::Tensor &tensor : own.initializers) {
    names->emplace(tensor.name);
  }
  for (const onnx::SparseTensor &tensor : own.sparseInitializers) {
    names->emplace(tensor.values.name);
  }
  for (const std::vector<onnx::ValueInfo> *infos : {&own.inputs, &own.outputs, &own.values}) {
    for (const onnx::ValueInfo &info : *infos) {
      names->emplace(info.name);
    }
  }
  for (const onnx::Node &node : own.nodes) {
    names->insert(node.inputs.begin(), node.inputs.end());
    names->insert(node.outputs.begin(), node.outputs.end());
    names->emplace(node.name);
    for (const onnx::Attribute &attribute : node.attributes) {
      if (attribute.graph) {
        avoidNames(*attribute.graph);
      }
    }
  }
}

std::string ModelEdit::freshName(string_view base) {
  std::string name(base);
  for (int i = 1; !names->insert(name).second; ++i) {
    name = strCat(base, "_", i);
  }
  return name;
}

void ModelEdit::addConstant(const std::string &name, onnx::DataType type,
                            std::span<const int64_t> dims, string_view bytes) {
  constants.push_back(onnx::rawTensor(name, static_cast<int32_t>(type), dims, bytes));
}

std::string ModelEdit::addShared(string_view base, onnx::DataType type,
                                 std::span<const int64_t> dims, string_view bytes) {
  if (outer && !isClosed) {
    return outer->share(base, type, dims, bytes);
  }
  std::string name = freshName(base);
  addConstant(name, type, dims, bytes);
  return name;
}

std::string ModelEdit::share(string_view base, onnx::DataType type, std::span<const int64_t> dims,
                             string_view bytes) {
  if (outer && !isClosed) {
    return outer->share(base, type, dims, bytes);
  }
  auto &alike = shared[std::hash<string_view>()(bytes)];
  for (const auto &[name, index] : alike) {
    onnx::Message same = onnx::rawTensor(name, static_cast<int32_t>(type), dims, bytes);
    if (constants[index].str() == same.str()) {
      return name;
    }
  }
  std::string name = freshName(base);
  alike.emplace_back(name, constants.size());
  addConstant(name, type, dims, bytes);
  return name;
}

void ModelEdit::addScalar(const std::string &name, float value) {
  addConstant(name, onnx::DataType::Float, {},
              string_view(reinterpret_cast<const char *>(&value), sizeof(value)));
}

void ModelEdit::setOperand(Use use, const std::string &value) {
  operands[use.node][use.operand] = value;
}
void ModelEdit::addOperand(size_t node, const std::string &value) {
  moreOperands[node].push_back(value);
}
void ModelEdit::setInteger(size_t node, string_view attribute, int64_t value) {
  dropAttribute(node, attribute);
  addInteger(attributes[node], attribute, value);
}
void ModelEdit::setText(size_t node, string_view attribute, string_view value) {
  dropAttribute(node, attribute);
  addText(attributes[node], attribute, value);
}
void ModelEdit::setIntegers(size_t node, string_view attribute, std::span<const int64_t> values) {
  dropAttribute(node, attribute);
  addIntegers(attributes[node], attribute, values);
}
void ModelEdit::setGraph(size_t node, string_view attribute, const onnx::Graph &changed) {
  std::set<string_view> reads;
  collectReads(changed, reads);
  innerReads[{node, std::string(attribute)}] = {reads.begin(), reads.end()};
  dropAttribute(node, attribute);
  attributes[node].add(kNodeAttribute, Message()
                                           .text(kAttributeName, attribute)
                                           .text(kAttributeGraph, changed.bytes)
                                           .varint(kAttributeType, kGraphType));
}
void ModelEdit::setResult(size_t node, string_view value) { results[node] = value; }
void ModelEdit::drop(size_t node) { dropped.insert(node); }
void ModelEdit::insertBefore(size_t node, Message added) {
  before[node].push_back(std::move(added));
}
void ModelEdit::insertAfter(size_t node, Message added) { after[node].push_back(std::move(added)); }
void ModelEdit::insertFirst(Message added) { first.push_back(std::move(added)); }
void ModelEdit::setDomain(Message &node, string_view domain) {
  node.text(kNodeDomain, domain);
  importDomain(domain);
}
void ModelEdit::importDomain(string_view domain) {
  if (outer) {
    outer->importDomain(domain);
    return;
  }
  bool isImported = std::any_of(model.opsets.begin(), model.opsets.end(),
                                [&](const onnx::OpsetImport &own) { return own.domain == domain; });
  if (!isImported) {
    domains.emplace(domain);
  }
}
void ModelEdit::addMetadata(string_view key, string_view value) {
  metadata.push_back(Message().text(1, key).text(2, value));
}

void addText(Message &node, string_view attribute, string_view value) {
  node.add(kNodeAttribute, Message()
                               .text(kAttributeName, attribute)
                               .text(kAttributeText, value)
                               .varint(kAttributeType, kTextType));
}

void addInteger(Message &node, string_view attribute, int64_t value) {
  Message integer;
  integer.text(kAttributeName, attribute)
      .varint(kAttributeInteger, static_cast<uint64_t>(value))
      .varint(kAttributeType, kIntegerType);
  node.add(kNodeAttribute, integer);
}

void addReal(Message &node, string_view attribute, float value) {
  node.add(kNodeAttribute, Message()
                               .text(kAttributeName, attribute)
                               .real(kAttributeReal, value)
                               .varint(kAttributeType, kRealType));
}

void addIntegers(Message &node, string_view attribute, std::span<const int64_t> values) {
  Message integers;
  integers.text(kAttributeName, attribute);
  for (int64_t value : values) {
    integers.varint(kAttributeIntegers, static_cast<uint64_t>(value));
  }
  node.add(kNodeAttribute, integers.varint(kAttributeType, kIntegersType));
}

onnx::Message nodeMessage(string_view op, const std::string &name,
                          std::span<const std::string> inputs,
                          std::span<const std::string> outputs) {
  Message message;
  for (const std::string &input : inputs) {
    message.text(kNodeInput, input);
  }
  for (const std::string &output : outputs) {
    message.text(kNodeOutput, output);
  }
  return message.text(kNodeName, name).text(kNodeOp, op);
}

onnx::Message nodeMessage(string_view op, const std::string &name,
                          std::span<const std::string> inputs, const std::string &output) {
  return nodeMessage(op, name, inputs, std::span(&output, 1));
}

onnx::Message nodeMessage(string_view op, const std::string &name,
                          std::span<const std::string> inputs, const std::string &output,
                          string_view attribute, int64_t value) {
  Message node = nodeMessage(op, name, inputs, output);
  addInteger(node, attribute, value);
  return node;
}

} // namespace tenon::quant
