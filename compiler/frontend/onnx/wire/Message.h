// A protobuf message under construction. Relies on the caller for field numbers and their types.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::onnx {

class Message {
public:
  Message &raw(std::string_view more) {
    bytes += more;
    return *this;
  }
  Message &varint(unsigned field, uint64_t value) {
    appendVarint(uint64_t{field} << 3);
    appendVarint(value);
    return *this;
  }
  Message &text(unsigned field, std::string_view value) {
    appendVarint(uint64_t{field} << 3 | 2);
    appendVarint(value.size());
    bytes += value;
    return *this;
  }
  Message &add(unsigned field, const Message &value) { return text(field, value.bytes); }
  Message &real(unsigned field, float value) {
    appendVarint(uint64_t{field} << 3 | 5);
    bytes.append(reinterpret_cast<const char *>(&value), sizeof(value));
    return *this;
  }
  const std::string &str() const { return bytes; }

private:
  void appendVarint(uint64_t value) {
    while (value >= 128) {
      bytes += static_cast<char>(value | 128);
      value >>= 7;
    }
    bytes += static_cast<char>(value);
  }

  std::string bytes;
};

} // namespace tenon::onnx
