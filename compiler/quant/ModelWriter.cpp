// Walks the fields of the file once more and copies them, but for those that changed. Relies on the
// order of nodes and initializers in Model being that of their fields.
#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "compiler/frontend/onnx/wire/Pieces.h"
#include "compiler/frontend/onnx/wire/TensorData.h"
#include "compiler/frontend/onnx/wire/Wire.h"
#include "compiler/quant/ModelEdit.h"
#include "compiler/quant/ModelFields.h"
#include "support/text/Text.h"

#include <algorithm>

namespace tenon::quant {

using onnx::Field;
using onnx::Message;
using onnx::WireReader;
using std::string_view;

namespace {

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

/// A constant whose elements are beside the file, unless it is small or of a type that is not read.
Result<std::string> outside(string_view bytes, onnx::ExternalFiles &files, ConstantSink &sink) {
  constexpr uint64_t kSmall = 1024, kAlignment = 4096;
  constexpr unsigned kDims = 1, kType = 2, kName = 8, kEntry = 13, kLocation = 14;
  TENON_ASSIGN(onnx::Tensor tensor, onnx::readTensor(std::as_bytes(std::span(bytes))));
  if (!onnx::toDType(tensor.type)) {
    return onnx::embedded(bytes, files);
  }
  TENON_ASSIGN(onnx::TensorData data, onnx::loadTensor(tensor, files));
  if (data.seeded || data.view.size() < kSmall) {
    return onnx::embedded(bytes, files);
  }
  std::vector<std::byte> padding((kAlignment - sink.size() % kAlignment) % kAlignment);
  TENON_TRY(sink.append(padding));
  Message message;
  for (int64_t dim : tensor.dims) {
    message.varint(kDims, static_cast<uint64_t>(dim));
  }
  message.varint(kType, static_cast<uint64_t>(tensor.type)).text(kName, tensor.name);
  std::pair<string_view, std::string> entries[] = {{"location", sink.location()},
                                                   {"offset", strCat(sink.size())},
                                                   {"length", strCat(data.view.size())}};
  for (const auto &[key, value] : entries) {
    message.add(kEntry, Message().text(1, key).text(2, value));
  }
  TENON_TRY(sink.append(data.view));
  return message.varint(kLocation, 1).str();
}

} // namespace

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

/// Of the file as it would be with all constants in it.
Result<uint64_t> ModelEdit::sizeWithConstants(onnx::ExternalFiles &files) const {
  std::set<string_view> gone = unread();
  uint64_t size = file.size();
  for (const onnx::Tensor &tensor : model.graph.initializers) {
    if (gone.contains(tensor.name)) {
      size -= tensor.raw.size();
    } else if (tensor.external && !keepsExternal && onnx::toDType(tensor.type)) {
      TENON_ASSIGN(onnx::TensorData data, onnx::loadTensor(tensor, files));
      size += data.view.size();
    }
  }
  for (const Message &constant : constants) {
    size += constant.str().size();
  }
  return size;
}

Result<Message> ModelEdit::graphMessage(string_view old, onnx::ExternalFiles &files,
                                        ConstantSink *sink) const {
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
        TENON_ASSIGN(std::string bytes, sink ? outside(field.bytes, files, *sink)
                                             : onnx::embedded(field.bytes, files));
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
    if (!sink) {
      message.add(kGraphInitializer, constant);
      continue;
    }
    TENON_ASSIGN(std::string bytes, outside(constant.str(), files, *sink));
    message.text(kGraphInitializer, bytes);
  }
  return message;
}

Result<std::string> ModelEdit::write(onnx::ExternalFiles &files, string_view remedy,
                                     ConstantSink *sink, size_t maxBytes) const {
  auto tooLarge = [&](uint64_t size) {
    return Status::error(ErrorId::OnnxTooLarge,
                         strCat("the model would have ", size >> 20,
                                " MiB, but an ONNX file must be smaller than 2 GiB"),
                         std::string(remedy));
  };
  TENON_ASSIGN(uint64_t size, sizeWithConstants(files));
  bool isSplit = size > maxBytes;
  if (isSplit && !sink) {
    return tooLarge(size);
  }
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
    TENON_ASSIGN(Message changed, graphMessage(field.bytes, files, isSplit ? sink : nullptr));
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
    return tooLarge(message.str().size());
  }
  return message.str();
}

} // namespace tenon::quant
