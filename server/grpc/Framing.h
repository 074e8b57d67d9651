// What gRPC puts around its messages: five bytes before each, trailers with a status, a time-out as
// text. Source: "gRPC over HTTP2" of the gRPC project.

#pragma once

#include "server/http2/Session.h"
#include "server/protocol/MemoryBudget.h"
#include "support/Result.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::server {

/// TN0830.
Status malformedMessage(std::string_view what);

/// Cuts a stream of bytes into messages, whatever pieces it comes in.
class MessageReader {
public:
  /// `maxBytes` of one message, as it comes; it is charged to `budget`.
  explicit MessageReader(uint64_t maxBytes, MemoryBudget *budget = nullptr)
      : maxBytes(maxBytes), message(budget) {}

  /// Calls `onMessage` for each whole message, until it gives an error. TN0808 as soon as a message
  /// says that it is larger than is taken, TN0812 where the budget has no room, TN0830 for a prefix
  /// that is not valid.
  Status feed(std::string_view bytes,
              const std::function<Status(ChargedString message, bool isCompressed)> &onMessage);
  /// TN0830 where a message is begun and not whole.
  Status end() const;
  /// Bytes of the message that is not whole yet, which it may take as soon as it is begun.
  uint64_t heldBytes() const { return message.text.size(); }
  bool isWithinMessage() const { return prefixBytes > 0; }

private:
  uint64_t maxBytes;
  uint8_t prefix[5] = {};
  size_t prefixBytes = 0;
  uint64_t length = 0;
  ChargedString message;
};

/// The five bytes before a message that is not compressed, of less than 2^32 bytes.
std::string messagePrefix(uint64_t bytes);

/// The value of grpc-timeout, "100m"; TN0830. Longer ones than a year are a year.
Result<std::chrono::nanoseconds> parseTimeout(std::string_view text);

/// grpc-status and grpc-message of a result.
HeaderFields statusFields(const Status &status);

} // namespace tenon::server
