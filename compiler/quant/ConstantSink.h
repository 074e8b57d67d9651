// Where constants go that a model's file has no room for: protobuf's messages have less than 2 GiB.
#pragma once

#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <cstdint>
#include <string>

namespace tenon::quant {

class ConstantSink {
public:
  virtual ~ConstantSink() = default;
  /// The file's name, in the model's folder.
  virtual std::string location() const = 0;
  virtual Status append(Bytes bytes) = 0;
  virtual uint64_t size() const = 0;
};

} // namespace tenon::quant
