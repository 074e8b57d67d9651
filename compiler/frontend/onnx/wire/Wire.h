// Splits protobuf messages into fields without copying them. The only file that includes protozero
// is Wire.cpp; it is built with exceptions, none of which leave it.
#pragma once

#include "support/Result.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace tenon::onnx {

enum class WireType : uint8_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

struct Field {
  uint32_t number = 0;
  WireType type = WireType::Varint;
  uint64_t varint = 0;    ///< the value of a varint
  std::string_view bytes; ///< the payload: of a varint its encoding, else what it holds
};

/// Reads the fields of one message in order. Views point into the message.
class WireReader {
public:
  /// `file` is where offsets in messages count from; `message` lies inside it.
  WireReader(std::string_view message, std::string_view file)
      : position(message.data()), end(message.data() + message.size()), origin(file.data()) {}

  /// False at the end of the message. After an error the reader must not be used.
  Result<bool> next(Field &field);
  /// Offset in the file of the next field.
  uint64_t offset() const { return static_cast<uint64_t>(position - origin); }

private:
  Status readVarint(uint64_t &value);
  Status take(uint64_t size, std::string_view &bytes);

  const char *position;
  const char *end;
  const char *origin;
};

/// Appends the varints of a packed field (or of one unpacked element) to `values`.
Status appendVarints(std::string_view packed, std::vector<int64_t> &values);

} // namespace tenon::onnx
