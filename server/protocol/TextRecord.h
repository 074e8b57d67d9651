// What is known of a request to a language model once it has ended: for traces and for the page.

#pragma once

#include "server/protocol/TraceContext.h"

#include <cstdint>
#include <string>

namespace tenon::server {

struct TextRecord {
  TraceContext trace;
  std::string model, version;
  std::string id;       ///< as the reply has it
  bool isChat = false;  ///< or a completion
  int64_t time = 0;     ///< of its arrival, in milliseconds since 1970
  uint64_t queue = 0;   ///< nanoseconds until the model began with it
  uint64_t prefill = 0; ///< from then to the first token of an answer; 0 where none came
  uint64_t total = 0;   ///< from its arrival to its end
  uint64_t promptTokens = 0, cachedTokens = 0, answerTokens = 0;
  /// "length" or "stop"; "cancelled" where the client has gone; the number of an error.
  std::string end;
  bool isFailed = false;
};

} // namespace tenon::server
