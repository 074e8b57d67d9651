// The last errors of a server, which its page shows: of loads, and of requests that had the right
// to be made, so that strangers push none of them out. One thread.

#pragma once

#include "support/Status.h"

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace tenon::server {

struct NotedError {
  int64_t time = 0; ///< of the last one, in milliseconds since 1970
  ErrorId id = ErrorId::None;
  std::string model; ///< empty where it is of none
  std::string message, hint;
  uint64_t count = 0; ///< how often it came
};

class ErrorRing {
public:
  /// One that is there already counts again, and is the newest then.
  void add(std::string_view model, const Status &status);
  /// The newest first, 64 at most.
  const std::deque<NotedError> &all() const { return errors; }

private:
  std::deque<NotedError> errors;
};

} // namespace tenon::server
