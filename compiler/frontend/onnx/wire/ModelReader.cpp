// One function a protobuf message: fields by number, wire types checked, singular fields only once.
// Relies on Wire.h for the encoding; onnx.proto (IR version 13) gives the numbers.
#include "compiler/frontend/onnx/wire/ModelReader.h"

#include "compiler/frontend/onnx/wire/Wire.h"
#include "support/Text.h"

#include <cstring>

namespace tenon::onnx {

Attribute::Attribute() = default;
Attribute::~Attribute() = default;
Attribute::Attribute(Attribute &&) noexcept = default;
Attribute &Attribute::operator=(Attribute &&) noexcept = default;

namespace {

/// The current field of a message, with checked access to its value.
class Cursor {
public:
  Cursor(const char *messageName, uint64_t where) : message(messageName), offset(where) {}

  Field field;

  Status text(std::string_view &out) {
    TENON_TRY(expect(WireType::Bytes));
    TENON_TRY(once());
    out = field.bytes;
    return Status::ok();
  }
  Status integer(int64_t &out) {
    TENON_TRY(expect(WireType::Varint));
    TENON_TRY(once());
    out = static_cast<int64_t>(field.varint);
    return Status::ok();
  }
  Status real(float &out) {
    TENON_TRY(expect(WireType::Fixed32));
    TENON_TRY(once());
    std::memcpy(&out, field.bytes.data(), sizeof(out));
    return Status::ok();
  }
  /// An embedded message that may occur once.
  Status single(std::string_view &out) { return text(out); }
  /// One element of a repeated string, bytes or message field.
  Status element(std::string_view &out) {
    TENON_TRY(expect(WireType::Bytes));
    out = field.bytes;
    return Status::ok();
  }
  Status repeatedText(std::vector<std::string_view> &out) {
    TENON_TRY(expect(WireType::Bytes));
    out.push_back(field.bytes);
    return Status::ok();
  }
  Status repeatedIntegers(std::vector<int64_t> &out) {
    if (field.type != WireType::Varint) {
      TENON_TRY(expect(WireType::Bytes));
    }
    return appendVarints(field.bytes, out);
  }
  /// Packed or single elements of `type`, left encoded.
  Status encoded(WireType type, std::vector<std::string_view> &out) {
    if (field.type != type) {
      TENON_TRY(expect(WireType::Bytes));
    }
    size_t width = type == WireType::Fixed32 ? 4 : type == WireType::Fixed64 ? 8 : 1;
    if (field.bytes.size() % width != 0) {
      return fail(ErrorId::OnnxTruncated, "holds a part of an element");
    }
    if (!field.bytes.empty()) {
      out.push_back(field.bytes);
    }
    return Status::ok();
  }
  Status skipOnce() { return once(); }

  Status fail(ErrorId id, std::string_view what) const {
    return Status::error(
        id, strCat("field ", field.number, " of ", message, " at byte ", offset, " ", what),
        "export the model again; onnx.checker names the place too");
  }

  void startAt(uint64_t where) { offset = where; }

private:
  Status expect(WireType type) const {
    return field.type == type
               ? Status::ok()
               : fail(ErrorId::OnnxWireType, "has another wire type than ONNX declares");
  }
  Status once() {
    uint64_t bit = uint64_t{1} << (field.number & 63);
    if (seen & bit) {
      return fail(ErrorId::OnnxDuplicateField, "occurs twice");
    }
    seen |= bit;
    return Status::ok();
  }

  const char *message;
  uint64_t offset;
  uint64_t seen = 0;
};

class Parser {
public:
  Parser(std::string_view fileBytes, const Limits &given) : file(fileBytes), limits(given) {}

  Status model(std::string_view body, Model &model);
  Status tensor(std::string_view body, Tensor &tensor);

private:
  template <typename OnField>
  Status message(const char *name, std::string_view body, const OnField &onField) {
    WireReader reader(body, file);
    Cursor cursor(name, reader.offset());
    while (true) {
      cursor.startAt(reader.offset());
      TENON_ASSIGN(bool more, reader.next(cursor.field));
      if (!more) {
        return Status::ok();
      }
      TENON_TRY(onField(cursor));
    }
  }

  /// Parses one element of a repeated message field into a new entry of `list`.
  template <typename T>
  Status append(Cursor &cursor, std::vector<T> &list,
                Status (Parser::*parse)(std::string_view, T &)) {
    std::string_view body;
    TENON_TRY(cursor.element(body));
    if (++values > limits.values) {
      return tooMany("values");
    }
    list.emplace_back();
    return (this->*parse)(body, list.back());
  }

  Status graph(std::string_view body, Graph &graph);
  Status node(std::string_view body, Node &node);
  Status attribute(std::string_view body, Attribute &attribute);
  Status attributeField(Cursor &cursor, Attribute &attribute);
  Status valueInfo(std::string_view body, ValueInfo &info);
  Status type(std::string_view body, ValueInfo &info);
  Status tensorType(std::string_view body, ValueInfo &info);
  Status dimension(std::string_view body, Dimension &dimension);
  Status function(std::string_view body, Function &function);
  Status opset(std::string_view body, OpsetImport &opset);
  Status keyValue(std::string_view body, KeyValue &entry);
  Status checkName(std::string_view name) const;
  Status tooMany(std::string_view what) const;

  std::string_view file;
  const Limits &limits;
  unsigned depth = 0;
  uint64_t nodeCount = 0;
  uint64_t values = 0;
};

Status Parser::tooMany(std::string_view what) const {
  return Status::error(ErrorId::OnnxTooMany, strCat("the model holds too many ", what),
                       "split the model into several");
}

Status Parser::checkName(std::string_view name) const {
  if (name.size() > limits.nameBytes || name.find('\0') != std::string_view::npos) {
    return Status::error(ErrorId::OnnxBadName,
                         strCat("the name that starts with '", name.substr(0, 40),
                                "' is longer than 64 KiB or holds a zero byte"),
                         "rename the value and export again");
  }
  return Status::ok();
}

Status Parser::keyValue(std::string_view body, KeyValue &entry) {
  return message("StringStringEntryProto", body, [&](Cursor &cursor) -> Status {
    switch (cursor.field.number) {
    case 1:
      return cursor.text(entry.key);
    case 2:
      return cursor.text(entry.value);
    default:
      return Status::ok();
    }
  });
}

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

Status Parser::tensor(std::string_view body, Tensor &tensor) {
  int64_t type = 0;
  int64_t location = 0;
  TENON_TRY(message("TensorProto", body, [&](Cursor &cursor) -> Status {
    switch (cursor.field.number) {
    case 1:
      return cursor.repeatedIntegers(tensor.dims);
    case 2:
      return cursor.integer(type);
    case 3:
      tensor.segmented = true;
      return cursor.skipOnce();
    case 4:
      return cursor.encoded(WireType::Fixed32, tensor.floats);
    case 5:
      return cursor.encoded(WireType::Varint, tensor.int32s);
    case 6:
      return cursor.repeatedText(tensor.strings);
    case 7:
      return cursor.encoded(WireType::Varint, tensor.int64s);
    case 8:
      return cursor.text(tensor.name);
    case 9:
      tensor.hasRaw = true;
      return cursor.text(tensor.raw);
    case 10:
      return cursor.encoded(WireType::Fixed64, tensor.doubles);
    case 11:
      return cursor.encoded(WireType::Varint, tensor.uint64s);
    case 13:
      return append(cursor, tensor.externalData, &Parser::keyValue);
    case 14:
      return cursor.integer(location);
    default:
      return Status::ok();
    }
  }));
  TENON_TRY(checkName(tensor.name));
  if (type <= 0 || type > kLastDataType) {
    return Status::error(ErrorId::OnnxTensorType,
                         strCat("tensor '", tensor.name, "' has the unknown data type ", type),
                         "export the model again with a supported type");
  }
  if (tensor.dims.size() > limits.rank) {
    return Status::error(
        ErrorId::OnnxRank,
        strCat("tensor '", tensor.name, "' has ", tensor.dims.size(), " dimensions"),
        strCat("at most ", limits.rank, " are supported"));
  }
  tensor.type = static_cast<DataType>(type);
  tensor.external = location != 0;
  return Status::ok();
}

Status Parser::dimension(std::string_view body, Dimension &dimension) {
  return message("TensorShapeProto.Dimension", body, [&](Cursor &cursor) -> Status {
    switch (cursor.field.number) {
    case 1:
      dimension.kind = Dimension::Kind::Value;
      return cursor.integer(dimension.value);
    case 2:
      TENON_TRY(cursor.text(dimension.parameter));
      dimension.kind =
          dimension.parameter.empty() ? Dimension::Kind::Unknown : Dimension::Kind::Parameter;
      return checkName(dimension.parameter);
    default:
      return Status::ok();
    }
  });
}

Status Parser::tensorType(std::string_view body, ValueInfo &info) {
  return message("TypeProto.Tensor", body, [&](Cursor &cursor) -> Status {
    switch (cursor.field.number) {
    case 1: {
      int64_t type = 0;
      TENON_TRY(cursor.integer(type));
      if (type < 0 || type > kLastDataType) {
        return cursor.fail(ErrorId::OnnxTensorType, "is not a known data type");
      }
      info.type = static_cast<DataType>(type);
      return Status::ok();
    }
    case 2: {
      std::string_view shape;
      TENON_TRY(cursor.single(shape));
      info.hasShape = true;
      return message("TensorShapeProto", shape, [&](Cursor &inner) -> Status {
        if (inner.field.number != 1) {
          return Status::ok();
        }
        if (info.dims.size() == limits.rank) {
          return inner.fail(ErrorId::OnnxRank, "adds more dimensions than are supported");
        }
        return append(inner, info.dims, &Parser::dimension);
      });
    }
    default:
      return Status::ok();
    }
  });
}

Status Parser::type(std::string_view body, ValueInfo &info) {
  return message("TypeProto", body, [&](Cursor &cursor) -> Status {
    std::string_view inner;
    switch (cursor.field.number) {
    case 1:
      info.kind = ValueInfo::Kind::Tensor;
      TENON_TRY(cursor.single(inner));
      return tensorType(inner, info);
    case 4:
      info.kind = ValueInfo::Kind::Sequence;
      return cursor.single(inner);
    case 5:
      info.kind = ValueInfo::Kind::Map;
      return cursor.single(inner);
    case 7:
      info.kind = ValueInfo::Kind::Opaque;
      return cursor.single(inner);
    case 8:
      info.kind = ValueInfo::Kind::Sparse;
      return cursor.single(inner);
    case 9:
      info.kind = ValueInfo::Kind::Optional;
      return cursor.single(inner);
    default:
      return Status::ok();
    }
  });
}

Status Parser::valueInfo(std::string_view body, ValueInfo &info) {
  TENON_TRY(message("ValueInfoProto", body, [&](Cursor &cursor) -> Status {
    std::string_view inner;
    switch (cursor.field.number) {
    case 1:
      return cursor.text(info.name);
    case 2:
      TENON_TRY(cursor.single(inner));
      return type(inner, info);
    default:
      return Status::ok();
    }
  }));
  return checkName(info.name);
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
  default:
    return Status::ok();
  }
}

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
    default:
      return Status::ok();
    }
  }));
  if (node.opType.empty()) {
    return Status::error(ErrorId::OnnxBadName, strCat("node '", node.name, "' names no operator"),
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
      ++graph.sparseInitializers;
      return Status::ok();
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
    case 25:
      return append(cursor, model.functions, &Parser::function);
    default:
      return Status::ok();
    }
  });
}

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
