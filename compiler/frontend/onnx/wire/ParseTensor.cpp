// Parses tensors, types and value infos, and checks names.
// Relies on Wire.h for the encoding; onnx.proto (IR version 13) gives the field numbers.
#include "compiler/frontend/onnx/wire/Parser.h"

namespace tenon::onnx {

Status Parser::tooMany(std::string_view what) const {
  return Status::error(ErrorId::OnnxTooMany, strCat("the model has too many ", what),
                       "split the model into several");
}

Status Parser::checkName(std::string_view name) const {
  if (name.size() > limits.nameBytes || name.find('\0') != std::string_view::npos) {
    return Status::error(ErrorId::OnnxBadName,
                         strCat("the name that starts with '", name.substr(0, 40),
                                "' is longer than 64 KiB or contains a zero byte"),
                         "rename the value and export again");
  }
  return Status::ok();
}

Status Parser::checkRank(std::string_view name, size_t rank) const {
  return rank <= limits.rank
             ? Status::ok()
             : Status::error(ErrorId::OnnxRank,
                             strCat("tensor '", name, "' has ", rank, " dimensions"),
                             strCat("at most ", limits.rank, " are supported"));
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
  TENON_TRY(checkRank(tensor.name, tensor.dims.size()));
  tensor.type = static_cast<DataType>(type);
  tensor.external = location != 0;
  return Status::ok();
}

Status Parser::sparseTensor(std::string_view body, SparseTensor &sparse) {
  TENON_TRY(message("SparseTensorProto", body, [&](Cursor &cursor) -> Status {
    std::string_view inner;
    switch (cursor.field.number) {
    case 1:
      TENON_TRY(cursor.single(inner));
      return tensor(inner, sparse.values);
    case 2:
      TENON_TRY(cursor.single(inner));
      return tensor(inner, sparse.indices);
    case 3:
      return cursor.repeatedIntegers(sparse.dims);
    default:
      return Status::ok();
    }
  }));
  return checkRank(sparse.values.name, sparse.dims.size());
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

} // namespace tenon::onnx
