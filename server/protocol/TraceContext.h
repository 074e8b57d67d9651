// The trace that a request belongs to, as callers tell it. Source: W3C, "Trace Context", the header
// traceparent.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tenon::server {

struct TraceContext {
  std::array<uint8_t, 16> trace = {};
  std::array<uint8_t, 8> parent = {}; ///< the caller's span
  bool isGiven = false;
  bool isSampled = false; ///< the caller records the trace

  bool operator==(const TraceContext &) const = default;
};

/// A value that is not of the form is passed over, as the standard asks: then nothing is given.
TraceContext parseTraceParent(std::string_view text);

} // namespace tenon::server
