// Writes ONNX models byte by byte for tests, valid or not. Relies on the field numbers of
// onnx.proto.
#pragma once

#include "compiler/frontend/onnx/wire/Message.h"

#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tenon::onnx::test {

using onnx::Message;

inline constexpr int kFloat = 1, kUInt8 = 2, kInt32 = 6, kInt64 = 7, kString = 8, kBool = 9,
                     kInt4 = 22;

/// A dimension: a constant, or a parameter's name ("" for an unknown one).
using Dim = std::variant<int64_t, std::string>;

inline Message valueInfo(std::string_view name, int type, const std::vector<Dim> &dims) {
  Message shape;
  for (const Dim &dim : dims) {
    Message entry;
    if (const int64_t *size = std::get_if<int64_t>(&dim)) {
      entry.varint(1, static_cast<uint64_t>(*size));
    } else if (!std::get<std::string>(dim).empty()) {
      entry.text(2, std::get<std::string>(dim));
    }
    shape.add(1, entry);
  }
  Message tensor = Message().varint(1, type).add(2, shape);
  return Message().text(1, name).add(2, Message().add(1, tensor));
}

/// A tensor with raw data.
inline Message rawTensor(std::string_view name, int type, const std::vector<int64_t> &dims,
                         std::string_view data) {
  Message tensor;
  for (int64_t dim : dims) {
    tensor.varint(1, static_cast<uint64_t>(dim));
  }
  return tensor.varint(2, type).text(8, name).text(9, data);
}

template <typename T> std::string bytesOf(const std::vector<T> &values) {
  return std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T));
}

inline Message int64s(std::string_view name, const std::vector<int64_t> &values) {
  return rawTensor(name, kInt64, {static_cast<int64_t>(values.size())}, bytesOf(values));
}

inline Message floats(std::string_view name, const std::vector<int64_t> &dims,
                      const std::vector<float> &values) {
  return rawTensor(name, kFloat, dims, bytesOf(values));
}

inline Message attrInt(std::string_view name, int64_t value) {
  return Message().text(1, name).varint(3, static_cast<uint64_t>(value)).varint(20, 2);
}
inline Message attrFloat(std::string_view name, float value) {
  return Message().text(1, name).real(2, value).varint(20, 1);
}
inline Message attrText(std::string_view name, std::string_view value) {
  return Message().text(1, name).text(4, value).varint(20, 3);
}
inline Message attrTensor(std::string_view name, const Message &value) {
  return Message().text(1, name).add(5, value).varint(20, 4);
}
inline Message attrGraph(std::string_view name, const Message &value) {
  return Message().text(1, name).add(6, value).varint(20, 5);
}
inline Message attrInts(std::string_view name, const std::vector<int64_t> &values) {
  Message attribute;
  attribute.text(1, name);
  for (int64_t value : values) {
    attribute.varint(8, static_cast<uint64_t>(value));
  }
  return attribute.varint(20, 7);
}

inline Message node(std::string_view op, const std::vector<std::string> &inputs,
                    const std::vector<std::string> &outputs,
                    const std::vector<Message> &attributes = {}, std::string_view domain = "") {
  Message result;
  for (const std::string &name : inputs) {
    result.text(1, name);
  }
  for (const std::string &name : outputs) {
    result.text(2, name);
  }
  result.text(3, "n_" + (outputs.empty() ? std::string(op) : outputs[0])).text(4, op);
  for (const Message &attribute : attributes) {
    result.add(5, attribute);
  }
  return domain.empty() ? result : result.text(7, domain);
}

struct GraphParts {
  std::vector<Message> nodes;
  std::vector<Message> inputs;
  std::vector<Message> outputs;
  std::vector<Message> initializers;
};

inline Message graph(const GraphParts &parts) {
  Message result;
  for (const Message &part : parts.nodes) {
    result.add(1, part);
  }
  result.text(2, "g");
  for (const Message &part : parts.initializers) {
    result.add(5, part);
  }
  for (const Message &part : parts.inputs) {
    result.add(11, part);
  }
  for (const Message &part : parts.outputs) {
    result.add(12, part);
  }
  return result;
}

inline Message opset(int64_t version, std::string_view domain = "") {
  return Message().text(1, domain).varint(2, static_cast<uint64_t>(version));
}

inline std::string model(const Message &graph, int64_t version = 17) {
  return Message().varint(1, 8).add(7, graph).add(8, opset(version)).str();
}

/// The model of one node between inputs and one output `y`.
inline std::string oneNode(const Message &node, const std::vector<Message> &inputs,
                           int64_t version = 17, const std::vector<Message> &initializers = {}) {
  return model(graph({{node}, inputs, {Message().text(1, "y")}, initializers}), version);
}

} // namespace tenon::onnx::test
