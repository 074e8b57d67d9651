// Relies on ModelReader for what nodes read and define, and on the order of nodes and initializers
// being that of their fields.
#include "compiler/frontend/onnx/wire/Pieces.h"

#include "compiler/frontend/onnx/wire/Message.h"
#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "compiler/frontend/onnx/wire/TensorData.h"
#include "compiler/frontend/onnx/wire/Wire.h"
#include "support/text/Text.h"

#include <algorithm>
#include <set>

namespace tenon::onnx {
namespace {

// Field numbers of onnx.proto.
constexpr unsigned kModelGraph = 7;
constexpr unsigned kGraphNode = 1, kGraphName = 2, kGraphInitializer = 5, kGraphInput = 11,
                   kGraphOutput = 12;
constexpr unsigned kTensorDims = 1, kTensorType = 2, kTensorName = 8, kTensorRaw = 9;

/// What a node reads; of the graphs inside of it, what they do not define themselves.
void collectReads(const onnx::Node &node, std::set<std::string_view> &reads) {
  for (std::string_view name : node.inputs) {
    if (!name.empty()) {
      reads.insert(name);
    }
  }
  for (const Attribute &attribute : node.attributes) {
    if (!attribute.graph) {
      continue;
    }
    std::set<std::string_view> inner;
    for (const onnx::Node &child : attribute.graph->nodes) {
      collectReads(child, inner);
    }
    for (const ValueInfo &output : attribute.graph->outputs) {
      inner.insert(output.name);
    }
    for (const onnx::Node &child : attribute.graph->nodes) {
      for (std::string_view name : child.outputs) {
        inner.erase(name);
      }
    }
    for (const ValueInfo &input : attribute.graph->inputs) {
      inner.erase(input.name);
    }
    for (const Tensor &initializer : attribute.graph->initializers) {
      inner.erase(initializer.name);
    }
    reads.merge(inner);
  }
}

Result<int32_t> typeNumber(DType type) {
  for (int32_t number = 1; number <= kLastDataType; ++number) {
    if (toDType(static_cast<DataType>(number)) == type && bitWidth(type) >= 8) {
      return number;
    }
  }
  return Status::error(ErrorId::OnnxTensorType,
                       strCat("ONNX files hold no whole elements of ", nameOf(type)));
}

Result<Message> valueInfo(const Port &port) {
  TENON_ASSIGN(int32_t type, typeNumber(port.type));
  Message shape;
  for (const std::variant<int64_t, std::string> &dim : port.dims) {
    const int64_t *size = std::get_if<int64_t>(&dim);
    shape.add(1, size ? Message().varint(1, static_cast<uint64_t>(*size))
                      : Message().text(2, std::get<std::string>(dim)));
  }
  Message tensor = Message().varint(1, static_cast<uint64_t>(type)).add(2, shape);
  return Message().text(1, port.name).add(2, Message().add(1, tensor));
}

} // namespace

Message rawTensor(std::string_view name, int32_t type, std::span<const int64_t> dims,
                  std::string_view bytes) {
  Message tensor;
  for (int64_t dim : dims) {
    tensor.varint(kTensorDims, static_cast<uint64_t>(dim));
  }
  return tensor.varint(kTensorType, static_cast<uint64_t>(type))
      .text(kTensorName, name)
      .text(kTensorRaw, bytes);
}

Result<std::string> embedded(std::string_view bytes, ExternalFiles &files) {
  TENON_ASSIGN(Tensor tensor, readTensor(std::as_bytes(std::span(bytes))));
  if (!tensor.external) {
    return std::string(bytes);
  }
  TENON_ASSIGN(TensorData data, loadTensor(tensor, files));
  if (data.seeded) {
    return std::string(bytes);
  }
  std::string_view elements(reinterpret_cast<const char *>(data.view.data()), data.view.size());
  return rawTensor(tensor.name, static_cast<int32_t>(tensor.type), tensor.dims, elements).str();
}

Result<Pieces> Pieces::read(Bytes file) {
  TENON_ASSIGN(Model model, readModel(file));
  Pieces pieces;
  std::string_view text(reinterpret_cast<const char *>(file.data()), file.size());
  Field field;
  Message around;
  for (WireReader reader(text, text);;) {
    uint64_t begin = reader.offset();
    TENON_ASSIGN(bool more, reader.next(field));
    if (!more) {
      break;
    }
    if (field.number == kModelGraph) {
      pieces.graph = field.bytes;
    } else {
      around.raw(text.substr(begin, reader.offset() - begin));
    }
  }
  pieces.around = around.str();
  for (WireReader reader(pieces.graph, text);;) {
    TENON_ASSIGN(bool more, reader.next(field));
    if (!more) {
      break;
    }
    if (field.number == kGraphNode) {
      const onnx::Node &node = model.graph.nodes[pieces.list.size()];
      std::set<std::string_view> reads;
      collectReads(node, reads);
      Node piece{node.name, node.opType, {reads.begin(), reads.end()}, {}, field.bytes};
      std::copy_if(node.outputs.begin(), node.outputs.end(), std::back_inserter(piece.results),
                   [](std::string_view name) { return !name.empty(); });
      piece.name = node.name.empty() && !piece.results.empty() ? piece.results.front() : node.name;
      pieces.list.push_back(std::move(piece));
    } else if (field.number == kGraphInitializer) {
      pieces.initializers.push_back(
          {model.graph.initializers[pieces.initializers.size()].name, field.bytes});
    }
  }
  for (const ValueInfo &output : model.graph.outputs) {
    pieces.outputNames.push_back(output.name);
  }
  return pieces;
}

bool Pieces::isInitializer(std::string_view name) const {
  return std::any_of(initializers.begin(), initializers.end(),
                     [&](const Initializer &initializer) { return initializer.name == name; });
}

std::string Pieces::withOutputs(std::span<const std::string> names) const {
  Message whole;
  whole.raw(graph);
  for (const std::string &name : names) {
    whole.add(kGraphOutput, Message().text(1, name));
  }
  return Message().raw(around).add(kModelGraph, whole).str();
}

Result<std::string> Pieces::assemble(const Part &part, ExternalFiles &files) const {
  Message whole;
  std::set<std::string_view> reads;
  for (size_t index : part.nodes) {
    whole.text(kGraphNode, list[index].bytes);
    reads.insert(list[index].reads.begin(), list[index].reads.end());
  }
  whole.text(kGraphName, "part");
  for (const Initializer &initializer : initializers) {
    if (reads.contains(initializer.name)) {
      TENON_ASSIGN(std::string bytes, embedded(initializer.bytes, files));
      whole.text(kGraphInitializer, bytes);
    }
  }
  for (const Literal &literal : part.literals) {
    TENON_ASSIGN(int32_t type, typeNumber(literal.type));
    whole.add(kGraphInitializer, rawTensor(literal.name, type, literal.dims, literal.bytes));
  }
  for (const Port &input : part.inputs) {
    TENON_ASSIGN(Message info, valueInfo(input));
    whole.add(kGraphInput, info);
  }
  for (const Port &output : part.outputs) {
    TENON_ASSIGN(Message info, valueInfo(output));
    whole.add(kGraphOutput, info);
  }
  return Message().raw(around).add(kModelGraph, whole).str();
}

} // namespace tenon::onnx
