// Parses models, graphs, nodes and attributes; limits on size, depth and counts are checked here.
// Relies on Parser.h and, for tensors and types, on ParseTensor.cpp.
#include "compiler/frontend/onnx/wire/Parser.h"

namespace tenon::onnx {

Attribute::Attribute() = default;
Attribute::~Attribute() = default;
Attribute::Attribute(Attribute &&) noexcept = default;
Attribute &Attribute::operator=(Attribute &&) noexcept = default;

Status Parser::opset(std::string_view body, OpsetImport &opset) {
  TENON_TRY(message("OperatorSetIdProto", body, [&](Cursor &cursor) -> Status {
    switch (cursor.field.number) {
    case 1:
      return cursor.text(opset.domain);
    case 2:
      return cursor.integer(opset.version);
    default:
      return Status::ok();
    }
  }));
  if (opset.domain == "ai.onnx") {
    opset.domain = "";
  }
  return checkName(opset.domain);
}

Status Parser::attributeField(Cursor &cursor, Attribute &attribute) {
  std::string_view inner;
  switch (cursor.field.number) {
  case 1:
    return cursor.text(attribute.name);
  case 2:
    return cursor.real(attribute.f);
  case 3:
    return cursor.integer(attribute.i);
  case 4:
    return cursor.text(attribute.s);
  case 5:
    TENON_TRY(cursor.single(inner));
    attribute.tensor = std::make_unique<Tensor>();
    return tensor(inner, *attribute.tensor);
  case 6:
    TENON_TRY(cursor.single(inner));
    attribute.graph = std::make_unique<Graph>();
    return graph(inner, *attribute.graph);
  case 7: {
    std::vector<std::string_view> runs;
    TENON_TRY(cursor.encoded(WireType::Fixed32, runs));
    for (std::string_view run : runs) {
      size_t before = attribute.floats.size();
      attribute.floats.resize(before + run.size() / 4);
      std::memcpy(attribute.floats.data() + before, run.data(), run.size());
    }
    return Status::ok();
  }
  case 8:
    return cursor.repeatedIntegers(attribute.ints);
  case 9:
    return cursor.repeatedText(attribute.strings);
  case 21:
    return cursor.text(attribute.reference);
  case 22:
    TENON_TRY(cursor.single(inner));
    attribute.sparse = std::make_unique<SparseTensor>();
    return sparseTensor(inner, *attribute.sparse);
  default:
    return Status::ok();
  }
}

namespace {

/// Models of before IR version 2 leave the type out; then it follows from the field that is set.
AttributeType guessType(const Attribute &attribute, bool hasFloat, bool hasInt, bool hasString) {
  if (hasFloat) {
    return AttributeType::Float;
  }
  if (hasInt) {
    return AttributeType::Int;
  }
  if (hasString) {
    return AttributeType::String;
  }
  if (attribute.sparse) {
    return AttributeType::SparseTensor;
  }
  if (attribute.tensor) {
    return AttributeType::Tensor;
  }
  if (attribute.graph) {
    return AttributeType::Graph;
  }
  if (!attribute.floats.empty()) {
    return AttributeType::Floats;
  }
  if (!attribute.strings.empty()) {
    return AttributeType::Strings;
  }
  return AttributeType::Ints;
}

} // namespace

Status Parser::attribute(std::string_view body, Attribute &attribute) {
  int64_t type = 0;
  bool hasFloat = false;
  bool hasInt = false;
  bool hasString = false;
  TENON_TRY(message("AttributeProto", body, [&](Cursor &cursor) -> Status {
    hasFloat |= cursor.field.number == 2;
    hasInt |= cursor.field.number == 3;
    hasString |= cursor.field.number == 4;
    return cursor.field.number == 20 ? cursor.integer(type) : attributeField(cursor, attribute);
  }));
  TENON_TRY(checkName(attribute.name));
  if (type < 0 || type > static_cast<int64_t>(AttributeType::Types)) {
    return Status::error(ErrorId::OnnxBadAttribute,
                         strCat("attribute '", attribute.name, "' has the unknown type ", type),
                         "export the model again");
  }
  attribute.type = static_cast<AttributeType>(type);
  if (type == 0 && attribute.reference.empty()) {
    attribute.type = guessType(attribute, hasFloat, hasInt, hasString);
  }
  return Status::ok();
}

Status Parser::node(std::string_view body, Node &node) {
  if (++nodeCount > limits.nodes) {
    return tooMany("nodes");
  }
  TENON_TRY(message("NodeProto", body, [&](Cursor &cursor) -> Status {
    switch (cursor.field.number) {
    case 1:
      return cursor.repeatedText(node.inputs);
    case 2:
      return cursor.repeatedText(node.outputs);
    case 3:
      return cursor.text(node.name);
    case 4:
      return cursor.text(node.opType);
    case 5:
      return append(cursor, node.attributes, &Parser::attribute);
    case 7:
      return cursor.text(node.domain);
    case 8:
      return cursor.text(node.overload);
    case 9: {
      std::vector<KeyValue> entries;
      TENON_TRY(append(cursor, entries, &Parser::keyValue));
      for (const KeyValue &entry : entries) {
        node.scopes = entry.key == "pkg.torch.onnx.name_scopes" ? entry.value : node.scopes;
      }
      return Status::ok();
    }
    default:
      return Status::ok();
    }
  }));
  if (node.opType.empty()) {
    return Status::error(ErrorId::OnnxBadName,
                         strCat("node '", node.name, "' does not name an operator"),
                         "export the model again");
  }
  if (node.domain == "ai.onnx") {
    node.domain = "";
  }
  TENON_TRY(checkName(node.name));
  TENON_TRY(checkName(node.opType));
  TENON_TRY(checkName(node.domain));
  for (std::string_view name : node.inputs) {
    TENON_TRY(checkName(name));
  }
  for (std::string_view name : node.outputs) {
    TENON_TRY(checkName(name));
  }
  return Status::ok();
}

Status Parser::graph(std::string_view body, Graph &graph) {
  if (++depth > limits.depth) {
    return Status::error(ErrorId::OnnxTooDeep,
                         strCat("graphs are nested deeper than ", limits.depth, " levels"),
                         "export the model with fewer nested If and Loop bodies");
  }
  graph.bytes = body;
  TENON_TRY(message("GraphProto", body, [&](Cursor &cursor) -> Status {
    switch (cursor.field.number) {
    case 1:
      return append(cursor, graph.nodes, &Parser::node);
    case 2:
      return cursor.text(graph.name);
    case 5:
      return append(cursor, graph.initializers, &Parser::tensor);
    case 11:
      return append(cursor, graph.inputs, &Parser::valueInfo);
    case 12:
      return append(cursor, graph.outputs, &Parser::valueInfo);
    case 13:
      return append(cursor, graph.values, &Parser::valueInfo);
    case 15:
      return append(cursor, graph.sparseInitializers, &Parser::sparseTensor);
    default:
      return Status::ok();
    }
  }));
  --depth;
  return Status::ok();
}

Status Parser::function(std::string_view body, Function &function) {
  TENON_TRY(message("FunctionProto", body, [&](Cursor &cursor) -> Status {
    switch (cursor.field.number) {
    case 1:
      return cursor.text(function.name);
    case 4:
      return cursor.repeatedText(function.inputs);
    case 5:
      return cursor.repeatedText(function.outputs);
    case 6:
      return cursor.repeatedText(function.attributes);
    case 7:
      return append(cursor, function.nodes, &Parser::node);
    case 9:
      return append(cursor, function.opsets, &Parser::opset);
    case 10:
      return cursor.text(function.domain);
    case 11:
      return append(cursor, function.defaults, &Parser::attribute);
    case 13:
      return cursor.text(function.overload);
    default:
      return Status::ok();
    }
  }));
  if (function.domain == "ai.onnx") {
    function.domain = "";
  }
  return checkName(function.name);
}

Status Parser::model(std::string_view body, Model &model) {
  return message("ModelProto", body, [&](Cursor &cursor) -> Status {
    std::string_view inner;
    switch (cursor.field.number) {
    case 1:
      return cursor.integer(model.irVersion);
    case 2:
      return cursor.text(model.producer);
    case 7:
      TENON_TRY(cursor.single(inner));
      model.hasGraph = true;
      return graph(inner, model.graph);
    case 8:
      return append(cursor, model.opsets, &Parser::opset);
    case 14:
      return append(cursor, model.metadata, &Parser::keyValue);
    case 25:
      return append(cursor, model.functions, &Parser::function);
    default:
      return Status::ok();
    }
  });
}

namespace {

std::string_view textOf(Bytes bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

Status checkSize(Bytes file, const Limits &limits) {
  if (file.empty()) {
    return Status::error(ErrorId::OnnxEmpty, "the model file is empty",
                         "check that the export or the download finished");
  }
  if (file.size() >= limits.fileBytes) {
    return Status::error(ErrorId::OnnxTooLarge,
                         strCat("the model file has ", file.size(), " bytes"),
                         "ONNX allows less than 2 GiB: save the weights as external data");
  }
  return Status::ok();
}

} // namespace

Result<Model> readModel(Bytes file, const Limits &limits) {
  TENON_TRY(checkSize(file, limits));
  Model model;
  std::string_view text = textOf(file);
  TENON_TRY(Parser(text, limits).model(text, model));
  if (!model.hasGraph || model.irVersion <= 0) {
    return Status::error(ErrorId::OnnxNotAModel,
                         "the file is a protobuf message without an ONNX graph or IR version",
                         "pass a file that was saved with onnx.save or an exporter");
  }
  return model;
}

Result<Tensor> readTensor(Bytes file, const Limits &limits) {
  TENON_TRY(checkSize(file, limits));
  Tensor tensor;
  std::string_view text = textOf(file);
  TENON_TRY(Parser(text, limits).tensor(text, tensor));
  return tensor;
}

} // namespace tenon::onnx
