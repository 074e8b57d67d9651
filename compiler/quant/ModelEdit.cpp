// Walks the fields of the file once more and copies them, but for those that changed. Relies on the
// order of nodes and initializers in Model being that of their fields.
#include "compiler/quant/ModelEdit.h"

#include "compiler/frontend/onnx/wire/Pieces.h"
#include "compiler/frontend/onnx/wire/Wire.h"
#include "support/text/Text.h"

#include <algorithm>

namespace tenon::quant {
namespace {

using onnx::Field;
using onnx::Message;
using onnx::WireReader;
using std::string_view;

// Field numbers of onnx.proto.
constexpr unsigned kModelIr = 1, kModelGraph = 7, kModelOpset = 8, kModelMetadata = 14;
constexpr unsigned kOpsetDomain = 1, kOpsetVersion = 2;
constexpr unsigned kGraphNode = 1, kGraphInitializer = 5, kGraphInput = 11, kGraphValue = 13,
                   kGraphSparse = 15;
constexpr unsigned kNodeInput = 1, kNodeOutput = 2, kNodeName = 3, kNodeOp = 4, kNodeAttribute = 5,
                   kNodeDomain = 7;
constexpr unsigned kAttributeName = 1, kAttributeReal = 2, kAttributeInteger = 3,
                   kAttributeText = 4, kAttributeGraph = 6, kAttributeIntegers = 8,
                   kAttributeType = 20;
constexpr unsigned kRealType = 1, kIntegerType = 2, kTextType = 3, kGraphType = 5,
                   kIntegersType = 7;
/// From this version on initializers need not be inputs too.
constexpr int64_t kIrOfFreeInitializers = 4;

/// Calls `visit` with each field and its bytes, tag and all. The message was read before, so that
/// it is sound.
template <typename Visit> Status forEachField(string_view message, const Visit &visit) {
  Field field;
  for (WireReader reader(message, message);;) {
    uint64_t begin = reader.offset();
    TENON_ASSIGN(bool more, reader.next(field));
    if (!more) {
      return Status::ok();
    }
    TENON_TRY(visit(field, message.substr(begin, reader.offset() - begin)));
  }
}

} // namespace

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

/// By graphs inside of nodes as they are now.
std::set<string_view> ModelEdit::readInside() const {
  std::set<string_view> result;
  for (size_t i = 0; i < graph.all().size(); ++i) {
    for (const onnx::Attribute &attribute : graph.node(i).attributes) {
      auto changed = innerReads.find({i, std::string(attribute.name)});
      if (changed != innerReads.end()) {
        result.insert(changed->second.begin(), changed->second.end());
      } else if (attribute.graph) {
        collectReads(*attribute.graph, result);
      }
    }
  }
  return result;
}

/// Constants whose readers all read something else now, or are gone.
std::set<string_view> ModelEdit::unread() const {
  std::set<string_view> result = leftOut;
  auto isRead = [&](const Use &use) {
    auto changed = operands.find(use.node);
    bool isReplaced = changed != operands.end() && changed->second.contains(use.operand);
    return !dropped.contains(use.node) && !isReplaced;
  };
  std::set<string_view> inside = readInside();
  auto look = [&](string_view name) {
    const std::vector<Use> &uses = graph.uses(name);
    // What nobody read from the beginning is the model's own affair.
    bool wasRead = !uses.empty() || graph.isKept(name);
    bool isKept = wanted.contains(name) || graph.isOutput(name) || inside.contains(name);
    if (wasRead && !isKept && std::none_of(uses.begin(), uses.end(), isRead)) {
      result.insert(name);
    }
  };
  for (const onnx::Tensor &tensor : model.graph.initializers) {
    look(tensor.name);
  }
  for (size_t i = 0; i < graph.all().size(); ++i) {
    if (graph.isOp(i, "Constant")) {
      look(graph.node(i).outputs.front());
    }
  }
  return result;
}

std::string ModelEdit::nodeMessage(size_t index, string_view old) const {
  auto renamed = operands.find(index);
  auto result = results.find(index);
  auto added = moreOperands.find(index);
  auto without = withoutAttributes.find(index);
  if (renamed == operands.end() && result == results.end() && added == moreOperands.end() &&
      without == withoutAttributes.end()) {
    return std::string(old);
  }
  Message message;
  size_t operand = 0, output = 0, attribute = 0;
  // Operands first: those that are added come behind the node's own.
  for (string_view name : graph.node(index).inputs) {
    bool changes = renamed != operands.end() && renamed->second.contains(operand);
    message.text(kNodeInput, changes ? string_view(renamed->second.at(operand)) : name);
    ++operand;
  }
  if (added != moreOperands.end()) {
    for (const std::string &name : added->second) {
      message.text(kNodeInput, name);
    }
  }
  for (string_view name : graph.node(index).outputs) {
    message.text(kNodeOutput, result != results.end() && output == 0 ? result->second : name);
    ++output;
  }
  Status status = forEachField(old, [&](const Field &field, string_view whole) {
    bool isGone = field.number == kNodeInput || field.number == kNodeOutput;
    if (field.number == kNodeAttribute) {
      const onnx::Attribute &own = graph.node(index).attributes[attribute++];
      isGone = without != withoutAttributes.end() && without->second.contains(own.name);
    }
    if (!isGone) {
      message.raw(whole);
    }
    return Status::ok();
  });
  if (auto given = attributes.find(index); given != attributes.end()) {
    message.raw(given->second.str());
  }
  return status ? message.str() : std::string(old);
}

Result<Message> ModelEdit::graphMessage(string_view old, onnx::ExternalFiles &files) const {
  std::set<string_view> gone = unread();
  // Values that only a dropped node, or one with another result, gave.
  std::set<string_view> stale = gone;
  stale.insert(shapeless.begin(), shapeless.end());
  for (const auto &[node, name] : results) {
    stale.insert(graph.node(node).outputs.front());
  }
  size_t node = 0, initializer = 0, sparse = 0, input = 0, value = 0;
  Message message;
  for (const Message &added : first) {
    message.add(kGraphNode, added);
  }
  auto addAll = [&](const std::map<size_t, std::vector<Message>> &lists) {
    auto found = lists.find(node);
    for (size_t i = 0; found != lists.end() && i < found->second.size(); ++i) {
      message.add(kGraphNode, found->second[i]);
    }
  };
  TENON_TRY(forEachField(old, [&](const Field &field, string_view whole) -> Status {
    if (field.number == kGraphNode) {
      addAll(before);
      const onnx::Node &own = graph.node(node);
      bool isUnread = graph.isOp(node, "Constant") && gone.contains(own.outputs.front());
      if (!dropped.contains(node) && !isUnread) {
        message.text(kGraphNode, nodeMessage(node, field.bytes));
      }
      addAll(after);
      ++node;
    } else if (field.number == kGraphInitializer) {
      if (!gone.contains(model.graph.initializers[initializer++].name)) {
        if (keepsExternal) {
          message.raw(whole);
          return Status::ok();
        }
        TENON_ASSIGN(std::string bytes, onnx::embedded(field.bytes, files));
        message.text(kGraphInitializer, bytes);
      }
    } else if (field.number == kGraphSparse) {
      if (!leftOut.contains(model.graph.sparseInitializers[sparse++].values.name)) {
        message.raw(whole);
      }
    } else if (field.number == kGraphInput) {
      // Old models list their constants as inputs too.
      if (!gone.contains(model.graph.inputs[input++].name)) {
        message.raw(whole);
      }
    } else if (field.number == kGraphValue) {
      if (!stale.contains(model.graph.values[value++].name)) {
        message.raw(whole);
      }
    } else {
      message.raw(whole);
    }
    return Status::ok();
  }));
  for (const Message &constant : constants) {
    message.add(kGraphInitializer, constant);
  }
  return message;
}

Result<std::string> ModelEdit::write(onnx::ExternalFiles &files, string_view remedy,
                                     size_t maxBytes) const {
  Message message;
  size_t opset = 0;
  TENON_TRY(forEachField(file, [&](const Field &field, string_view whole) -> Status {
    if (field.number == kModelOpset && opsetVersion) {
      const onnx::OpsetImport &own = model.opsets[opset++];
      own.domain.empty()
          ? message.add(kModelOpset,
                        Message().varint(kOpsetVersion, static_cast<uint64_t>(*opsetVersion)))
          : message.raw(whole);
      return Status::ok();
    }
    if (field.number == kModelIr) {
      // What is added is an initializer and no input.
      int64_t ir = std::max(irVersion.value_or(model.irVersion), kIrOfFreeInitializers);
      message.varint(kModelIr, static_cast<uint64_t>(ir));
      return Status::ok();
    }
    if (field.number != kModelGraph) {
      message.raw(whole);
      return Status::ok();
    }
    TENON_ASSIGN(Message changed, graphMessage(field.bytes, files));
    message.add(kModelGraph, changed);
    return Status::ok();
  }));
  for (const std::string &domain : domains) {
    message.add(kModelOpset, Message().text(kOpsetDomain, domain).varint(kOpsetVersion, 1));
  }
  for (const Message &entry : metadata) {
    message.add(kModelMetadata, entry);
  }
  if (message.str().size() > maxBytes) {
    return Status::error(ErrorId::OnnxTooLarge,
                         strCat("the model would have ", message.str().size() >> 20,
                                " MiB, and an ONNX file has less than 2 GiB"),
                         std::string(remedy));
  }
  return message.str();
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
