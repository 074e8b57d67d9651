// The message parser of the model reader: checked access to fields, one function a message.
// Internal to wire/; ModelReader.h is the interface.
#pragma once

#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "compiler/frontend/onnx/wire/Wire.h"
#include "support/text/Text.h"

#include <cstring>

namespace tenon::onnx {

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

  Status sparseTensor(std::string_view body, SparseTensor &sparse);
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
  Status checkRank(std::string_view name, size_t rank) const;
  Status tooMany(std::string_view what) const;

  std::string_view file;
  const Limits &limits;
  unsigned depth = 0;
  uint64_t nodeCount = 0;
  uint64_t values = 0;
};

} // namespace tenon::onnx
