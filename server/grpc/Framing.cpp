// A state for the prefix and one for the message; no byte is looked at twice.

#include "server/grpc/Framing.h"

#include "server/protocol/ErrorMap.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace tenon::server {
namespace {

/// Most of an error's text, which goes into a header.
constexpr size_t kMaxText = 2 << 10;
/// Room that a message takes before its bytes are there.
constexpr uint64_t kMaxReserved = 64 << 10;

/// All but printable ASCII as %XX, and the percent sign itself.
std::string percentEncoded(std::string_view text) {
  std::string encoded;
  for (char c : text.substr(0, kMaxText)) {
    unsigned char byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e || c == '%') {
      fmt::format_to(std::back_inserter(encoded), "%{:02X}", byte);
    } else {
      encoded += c;
    }
  }
  return encoded;
}

} // namespace

Status malformedMessage(std::string_view what) {
  return Status::error(ErrorId::BadGrpcMessage,
                       fmt::format("the gRPC message is not valid: {}", what));
}

Status MessageReader::feed(std::string_view bytes,
                           const std::function<Status(ChargedString, bool)> &onMessage) {
  while (!bytes.empty()) {
    if (prefixBytes < sizeof(prefix)) {
      prefix[prefixBytes++] = static_cast<uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      if (prefixBytes < sizeof(prefix)) {
        continue;
      }
      length = uint64_t(prefix[1]) << 24 | prefix[2] << 16 | prefix[3] << 8 | prefix[4];
      if (prefix[0] > 1) {
        return malformedMessage(fmt::format("its first byte is {}, not 0 or 1", prefix[0]));
      }
      if (length > maxBytes) {
        return Status::error(
            ErrorId::RequestTooLarge,
            fmt::format("the message has {} bytes, more than {}", length, maxBytes),
            "the server's --max-body sets this limit");
      }
      message.text.reserve(std::min(length, kMaxReserved));
    }
    size_t taken = std::min<uint64_t>(length - message.text.size(), bytes.size());
    TENON_TRY(message.append(bytes.substr(0, taken)));
    bytes.remove_prefix(taken);
    if (message.text.size() == length) {
      prefixBytes = 0;
      ChargedString next(message.charge.owner());
      TENON_TRY(onMessage(std::exchange(message, std::move(next)), prefix[0] == 1));
    }
  }
  return Status::ok();
}

Status MessageReader::end() const {
  return prefixBytes == 0 ? Status::ok() : malformedMessage("it ends before its stated length");
}

std::string messagePrefix(uint64_t bytes) {
  std::string prefix(1, '\0');
  for (int shift = 24; shift >= 0; shift -= 8) {
    prefix += static_cast<char>(bytes >> shift & 0xff);
  }
  return prefix;
}

Result<std::chrono::nanoseconds> parseTimeout(std::string_view text) {
  constexpr size_t kMaxDigits = 8;
  constexpr std::pair<char, uint64_t> kUnits[] = {{'n', 1},
                                                  {'u', 1'000},
                                                  {'m', 1'000'000},
                                                  {'S', 1'000'000'000},
                                                  {'M', 60'000'000'000},
                                                  {'H', 3'600'000'000'000}};
  constexpr uint64_t kMax = uint64_t(366) * 24 * 3'600'000'000'000;
  uint64_t value = 0;
  size_t digits = text.empty() ? 0 : text.size() - 1;
  std::from_chars_result result = std::from_chars(text.data(), text.data() + digits, value);
  if (digits > 0 && digits <= kMaxDigits && result.ec == std::errc() &&
      result.ptr == text.data() + digits) {
    for (const auto &[unit, nanoseconds] : kUnits) {
      if (unit == text.back()) {
        return std::chrono::nanoseconds(value > kMax / nanoseconds ? kMax : value * nanoseconds);
      }
    }
  }
  return Status::error(ErrorId::BadGrpcMessage, "the call's grpc-timeout is not valid",
                       "it must have up to 8 digits and one of H, M, S, m, u, n");
}

HeaderFields statusFields(const Status &status) {
  HeaderFields fields = {
      {"grpc-status", std::to_string(wireStatusOf(status.isOk() ? ErrorId() : status.id()).grpc)}};
  if (status.isOk()) {
    fields[0].second = "0";
  } else {
    fields.emplace_back("grpc-message", percentEncoded(status.toString()));
  }
  return fields;
}

} // namespace tenon::server
