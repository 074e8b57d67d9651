// Writes the graph as an ONNX ModelProto, for viewers that read ONNX. Field numbers are those of
// onnx.proto3; the few kinds of fields that it needs make a library unnecessary.

#include "tools/view/Escape.h"
#include "tools/view/Render.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <set>

namespace tenon::view {
namespace {

class Message {
public:
  Message &number(int field, int64_t value) {
    varint(static_cast<uint64_t>(field) << 3);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message &text(int field, std::string_view value) {
    varint(static_cast<uint64_t>(field) << 3 | 2);
    varint(value.size());
    bytes += value;
    return *this;
  }
  Message &message(int field, const Message &value) { return text(field, value.bytes); }
  std::string take() { return std::move(bytes); }

private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
      bytes += static_cast<char>(value | 0x80);
    }
    bytes += static_cast<char>(value);
  }

  std::string bytes;
};

/// TensorProto.DataType; 0 for a type that ONNX lacks.
int64_t typeNumber(const std::string &dtype) {
  static constexpr std::pair<std::string_view, int64_t> kNumbers[] = {
      {"f32", 1},       {"ui8", 2},         {"i8", 3},    {"ui16", 4},      {"i16", 5},
      {"i32", 6},       {"i64", 7},         {"i1", 9},    {"f16", 10},      {"f64", 11},
      {"ui32", 12},     {"ui64", 13},       {"bf16", 16}, {"f8E4M3FN", 17}, {"f8E4M3FNUZ", 18},
      {"f8E5M2", 19},   {"f8E5M2FNUZ", 20}, {"ui4", 21},  {"i4", 22},       {"f4E2M1FN", 23},
      {"f8E8M0FNU", 24}};
  for (const auto &[name, number] : kNumbers) {
    if (name == dtype) {
      return number;
    }
  }
  return 0;
}

std::optional<int64_t> sizeOf(const std::string &dim) {
  int64_t size = 0;
  auto [end, error] = std::from_chars(dim.data(), dim.data() + dim.size(), size);
  return error == std::errc() && end == dim.data() + dim.size() ? std::optional(size)
                                                                : std::nullopt;
}

Message valueInfo(const std::string &name, const Value &value) {
  Message tensor;
  tensor.number(1, typeNumber(value.dtype));
  if (value.shape) {
    Message shape;
    for (const std::string &dim : *value.shape) {
      std::optional<int64_t> size = sizeOf(dim);
      shape.message(1, size ? Message().number(1, *size) : Message().text(2, dim));
    }
    tensor.message(2, shape);
  }
  return Message().text(1, name).message(2, Message().message(1, tensor));
}

class Writer {
public:
  explicit Writer(const Graph &shown) : graph(shown), names(shown.values.size()) { nameValues(); }

  std::string run() {
    Message body;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      body.message(1, node(graph.nodes[i]));
    }
    for (const Port &output : aliases) {
      body.message(
          1, Message().text(1, nameOf(output.value)).text(2, output.name).text(4, "Identity"));
    }
    body.text(2, graph.title.empty() ? "graph" : graph.title);
    for (size_t i = 0; i < graph.values.size(); ++i) {
      const Value &value = graph.values[i];
      if (value.kind == "parameter" || value.kind == "constant") {
        body.message(5, parameter(names[i], value));
      } else if (value.kind == "node" && !isOutput[i]) {
        body.message(13, valueInfo(names[i], value));
      }
    }
    for (const Port &input : graph.inputs) {
      body.message(11, valueInfo(nameOf(input.value), graph.values[input.value]));
    }
    for (const Port &output : graph.outputs) {
      if (output.value >= 0) {
        body.message(12, valueInfo(output.name, graph.values[output.value]));
      }
    }
    Message opset = Message().text(1, "tenon").number(2, 1);
    return Message()
        .number(1, 10)
        .text(2, "tenon")
        .message(7, body)
        .message(8, Message().text(1, "").number(2, 21))
        .message(8, opset)
        .take();
  }

private:
  /// Inputs and outputs keep their names; what has none gets one that is free.
  void nameValues() {
    isOutput.resize(graph.values.size());
    std::set<std::string> taken = {""};
    for (const Port &input : graph.inputs) {
      names[input.value] = input.name;
      taken.insert(input.name);
    }
    for (const Port &output : graph.outputs) {
      taken.insert(output.name);
      if (output.value >= 0 && graph.values[output.value].kind == "node" &&
          !isOutput[output.value]) {
        names[output.value] = output.name;
        isOutput[output.value] = true;
      } else if (output.value >= 0) {
        aliases.push_back(output);
      }
    }
    for (size_t i = 0; i < names.size(); ++i) {
      if (!names[i].empty()) {
        continue;
      }
      const Value &value = graph.values[i];
      std::string wanted =
          value.kind == "parameter" ? value.name : fmt::format("{}_{}", value.kind, i);
      names[i] = taken.contains(wanted) ? fmt::format("{}#{}", wanted, i) : wanted;
      taken.insert(names[i]);
    }
  }

  std::string nameOf(int64_t value) const { return value < 0 ? "" : names[value]; }

  static Message attribute(const std::string &name, const std::string &text) {
    constexpr int64_t kString = 3;
    return Message().text(1, name).text(4, text).number(20, kString);
  }

  Message node(const Node &node) const {
    Message message;
    for (int64_t input : node.inputs) {
      message.text(1, nameOf(input));
    }
    for (int64_t output : node.outputs) {
      message.text(2, nameOf(output));
    }
    message.text(3, node.name).text(4, node.op).text(7, "tenon");
    for (const auto &[name, value] : node.attributes.items()) {
      message.message(
          5, attribute(name, value.is_string() ? value.get<std::string>() : dumpJson(value)));
    }
    message.message(5, attribute("flops", countText(node.flops)));
    message.message(5, attribute("bytes", countText(node.bytes)));
    if (node.region >= 0) {
      const Region &region = graph.regions[node.region];
      message.message(5, attribute("region", fmt::format("{}: {}", node.region, region.label)));
      message.message(5, attribute("strategy", region.strategy));
    }
    return message;
  }

  static Message parameter(const std::string &name, const Value &value) {
    Message tensor;
    for (const std::string &dim : value.shape.value_or(std::vector<std::string>())) {
      tensor.number(1, sizeOf(dim).value_or(0));
    }
    tensor.number(2, typeNumber(value.dtype)).text(8, name);
    return tensor.text(12, value.kind == "constant" ? value.name : "the data is left out");
  }

  const Graph &graph;
  std::vector<std::string> names; ///< by value
  std::vector<bool> isOutput;
  std::vector<Port> aliases; ///< outputs whose value has another name
};

} // namespace

std::string renderOnnx(const Graph &graph) { return Writer(graph).run(); }

} // namespace tenon::view
