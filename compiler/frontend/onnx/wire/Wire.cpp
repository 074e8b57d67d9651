// Decodes tags, varints and lengths with protozero and turns what it throws into a Status.
// Relies on checking every length here first, since protozero truncates lengths to 32 bits.
#include "compiler/frontend/onnx/wire/Wire.h"

#include "support/text/Text.h"

#include <protozero/varint.hpp>

namespace tenon::onnx {
namespace {

constexpr uint64_t kLongestVarint = 10;

/// Advances `position` past one varint; None when it is well formed.
ErrorId decode(const char *&position, const char *end, uint64_t &value) {
  const char *start = position;
  try {
    value = protozero::decode_varint(&position, end);
  } catch (const protozero::end_of_buffer_exception &) {
    return ErrorId::OnnxTruncated;
  } catch (const protozero::exception &) {
    return ErrorId::OnnxBadVarint;
  }
  bool overflow = position - start == kLongestVarint && position[-1] > 1;
  return overflow ? ErrorId::OnnxBadVarint : ErrorId::None;
}

Status wireError(ErrorId id, uint64_t offset) {
  return Status::error(id, strCat(titleOf(id), ", at byte ", offset),
                       "export the model again, or copy the file again if it was cut short");
}

} // namespace

Status WireReader::readVarint(uint64_t &value) {
  uint64_t where = offset();
  ErrorId id = decode(position, end, value);
  return id == ErrorId::None ? Status::ok() : wireError(id, where);
}

Status WireReader::take(uint64_t size, std::string_view &bytes) {
  if (size > static_cast<uint64_t>(end - position)) {
    return wireError(ErrorId::OnnxTruncated, offset());
  }
  bytes = std::string_view(position, size);
  position += size;
  return Status::ok();
}

Result<bool> WireReader::next(Field &field) {
  if (position == end) {
    return false;
  }
  uint64_t where = offset();
  uint64_t tag = 0;
  TENON_TRY(readVarint(tag));
  uint64_t number = tag >> 3;
  if (number == 0 || number > 0x1FFFFFFF || (number >= 19000 && number <= 19999)) {
    return wireError(ErrorId::OnnxBadTag, where);
  }
  field.number = static_cast<uint32_t>(number);
  switch (tag & 7) {
  case 0: {
    field.type = WireType::Varint;
    const char *start = position;
    TENON_TRY(readVarint(field.varint));
    field.bytes = std::string_view(start, static_cast<size_t>(position - start));
    return true;
  }
  case 1:
    field.type = WireType::Fixed64;
    TENON_TRY(take(8, field.bytes));
    return true;
  case 2: {
    field.type = WireType::Bytes;
    uint64_t size = 0;
    TENON_TRY(readVarint(size));
    TENON_TRY(take(size, field.bytes));
    return true;
  }
  case 5:
    field.type = WireType::Fixed32;
    TENON_TRY(take(4, field.bytes));
    return true;
  case 3:
  case 4:
    return wireError(ErrorId::OnnxGroup, where);
  default:
    return wireError(ErrorId::OnnxBadTag, where);
  }
}

Status appendVarints(std::string_view packed, std::vector<int64_t> &values) {
  const char *position = packed.data();
  const char *end = position + packed.size();
  while (position != end) {
    uint64_t value = 0;
    ErrorId id = decode(position, end, value);
    if (id != ErrorId::None) {
      return Status::error(id, strCat(titleOf(id), ", in a list of integers"),
                           "export the model again");
    }
    values.push_back(static_cast<int64_t>(value));
  }
  return Status::ok();
}

} // namespace tenon::onnx
