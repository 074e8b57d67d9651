// Ctrl-C ends an answer and not the program, while one of these lives. One at a time in a process.
#pragma once

#include <csignal>

namespace tenon::tool {

class Interrupt {
public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt &) = delete;
  Interrupt &operator=(const Interrupt &) = delete;

  /// Whether it came since the last call.
  bool taken();

private:
  struct sigaction before = {};
};

} // namespace tenon::tool
