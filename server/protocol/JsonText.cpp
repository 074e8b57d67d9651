// Numbers by std::to_chars: the shortest text that reads back to the same value. NaN and infinite
// values are the words that Triton and Python write, which JSON itself lacks.

#include "server/protocol/JsonText.h"

#include "server/protocol/DataType.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <span>
#include <type_traits>

namespace tenon::server {
namespace {

/// Bytes of the UTF-8 sequence at the front of `text`; 0 where there is none.
size_t sequenceLength(std::string_view text) {
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  auto continues = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  unsigned first = byte(0);
  if (first < 0x80) {
    return 1;
  }
  if (first >= 0xc2 && first < 0xe0) {
    return continues(1) ? 2 : 0;
  }
  if (first >= 0xe0 && first < 0xf0) {
    bool isShortest = first != 0xe0 || byte(1) >= 0xa0;
    bool isNoSurrogate = first != 0xed || byte(1) < 0xa0;
    return continues(1) && continues(2) && isShortest && isNoSurrogate ? 3 : 0;
  }
  if (first >= 0xf0 && first < 0xf5) {
    bool isInRange = (first != 0xf0 || byte(1) >= 0x90) && (first != 0xf4 || byte(1) < 0x90);
    return continues(1) && continues(2) && continues(3) && isInRange ? 4 : 0;
  }
  return 0;
}

/// `room` is where the text may lie.
template <typename T> std::string_view numberText(T value, std::span<char> room) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) {
      return std::isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity";
    }
    if (value == 0 && std::signbit(value)) {
      return "-0.0"; // as an integer, 0 has no sign
    }
  }
  char *end = std::to_chars(room.data(), room.data() + room.size(), value).ptr;
  return {room.data(), end};
}

template <typename T> void appendNumbers(std::string &out, Bytes bytes) {
  char text[32];
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    if (at != 0) {
      out += ',';
    }
    if constexpr (std::is_same_v<T, bool>) {
      out += value ? "true" : "false";
    } else {
      out += numberText(value, text);
    }
  }
}

} // namespace

bool isUtf8(std::string_view text) {
  while (!text.empty()) {
    size_t length = sequenceLength(text);
    if (length == 0) {
      return false;
    }
    text.remove_prefix(length);
  }
  return true;
}

void appendJsonString(std::string &out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    size_t length = sequenceLength(text);
    unsigned char first = static_cast<unsigned char>(text[0]);
    if (length == 0) {
      out += "\\ufffd";
      length = 1;
    } else if (first == '"' || first == '\\') {
      out += '\\';
      out += text[0];
    } else if (first < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", first);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  out += '"';
}

Status appendJsonElements(std::string &out, DType dtype, Bytes bytes, std::string_view name) {
  out += '[';
  switch (dtype) {
  case DType::Bool:
    appendNumbers<bool>(out, bytes);
    break;
  case DType::U8:
    appendNumbers<uint8_t>(out, bytes);
    break;
  case DType::U16:
    appendNumbers<uint16_t>(out, bytes);
    break;
  case DType::U32:
    appendNumbers<uint32_t>(out, bytes);
    break;
  case DType::U64:
    appendNumbers<uint64_t>(out, bytes);
    break;
  case DType::I8:
    appendNumbers<int8_t>(out, bytes);
    break;
  case DType::I16:
    appendNumbers<int16_t>(out, bytes);
    break;
  case DType::I32:
    appendNumbers<int32_t>(out, bytes);
    break;
  case DType::I64:
    appendNumbers<int64_t>(out, bytes);
    break;
  case DType::F32:
    appendNumbers<float>(out, bytes);
    break;
  case DType::F64:
    appendNumbers<double>(out, bytes);
    break;
  default:
    return Status::error(ErrorId::BadRequestTensor,
                         fmt::format("output '{}' has elements of {}, which JSON cannot express",
                                     name, protocolName(dtype)),
                         "request the output as binary data");
  }
  out += ']';
  return Status::ok();
}

} // namespace tenon::server
