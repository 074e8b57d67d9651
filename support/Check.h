// TENON_CHECK guards our own invariants in every build type: a false condition is a bug of Tenon,
// never bad input. The runtime returns a Status instead; this is for the compiler and the tools.

#pragma once

namespace tenon {

/// Prints place, condition and explanation to stderr and aborts. The place is a file's name without
/// its folder: programs carry no path of where they were built.
[[noreturn]] void checkFailed(const char *file, int line, const char *condition,
                              const char *explanation);

} // namespace tenon

#define TENON_CHECK(condition, explanation)                                                        \
  do {                                                                                             \
    if (!(condition)) [[unlikely]] {                                                               \
      ::tenon::checkFailed(__FILE_NAME__, __LINE__, #condition, explanation);                      \
    }                                                                                              \
  } while (false)
