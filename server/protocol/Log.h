// Where a server's lines go, each with how grave it is.

#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace tenon::server {

enum class LogLevel : uint8_t { Info, Warning, Error };

constexpr std::string_view nameOf(LogLevel level) {
  return level == LogLevel::Info ? "info" : level == LogLevel::Warning ? "warning" : "error";
}

class Log {
public:
  using Sink = std::function<void(LogLevel level, std::string_view line)>;

  /// Lines go nowhere where `sink` is empty.
  Log(Sink sink = {}) : sink(std::move(sink)) {}

  void operator()(std::string_view line, LogLevel level = LogLevel::Info) const {
    if (sink) {
      sink(level, line);
    }
  }

private:
  Sink sink;
};

} // namespace tenon::server
