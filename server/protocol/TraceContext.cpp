// traceparent is VERSION-TRACE-PARENT-FLAGS in lower-case hexadecimal digits: 00-<32>-<16>-<2>.
// Later versions may add to it.

#include "server/protocol/TraceContext.h"

#include <algorithm>
#include <span>

namespace tenon::server {
namespace {

int digitOf(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/// False where a character is not a digit.
bool readHex(std::string_view text, std::span<uint8_t> bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    int high = digitOf(text[2 * i]), low = digitOf(text[2 * i + 1]);
    if (high < 0 || low < 0) {
      return false;
    }
    bytes[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return true;
}

bool isZero(std::span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t each) { return each == 0; });
}

} // namespace

TraceContext parseTraceParent(std::string_view text) {
  constexpr size_t kBytes = 55;
  TraceContext context;
  uint8_t version = 0, flags = 0;
  bool hasForm = text.size() >= kBytes && text[2] == '-' && text[35] == '-' && text[52] == '-' &&
                 readHex(text, std::span(&version, 1)) && readHex(text.substr(3), context.trace) &&
                 readHex(text.substr(36), context.parent) &&
                 readHex(text.substr(53), std::span(&flags, 1));
  bool isWhole =
      text.size() == kBytes || (version > 0 && text.size() > kBytes && text[kBytes] == '-');
  if (!hasForm || !isWhole || version == 0xff || isZero(context.trace) || isZero(context.parent)) {
    return {};
  }
  context.isGiven = true;
  context.isSampled = flags & 1;
  return context;
}

} // namespace tenon::server
