// Status is the one error type below the compiler: an exit class, a stable number (TN0501) and a
// message that says what, where and what to do next. It relies on Errors.def for the numbers.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tenon {

/// Classes of failure; the values are the exit codes of the tool.
enum class Code : uint8_t {
  Ok = 0,
  CheckFailed = 1,
  Usage = 2,
  Unsupported = 3,
  Device = 4,
  BadInput = 5,
  Exhausted = 6,
  Internal = 70,
};

/// Every user-visible error by number; see Errors.def.
enum class ErrorId : uint16_t {
  None = 0,
#define TENON_ERROR(number, name, code, title) name = number,
#include "support/Errors.def"
#undef TENON_ERROR
};

/// The exit class of an error.
Code codeOf(ErrorId id);
/// The one-line title of an error, as its page states it.
std::string_view titleOf(ErrorId id);
/// "TN0501".
std::string nameOf(ErrorId id);

class [[nodiscard]] Status {
public:
  Status() = default;
  Status(const Status &other) { *this = other; }
  Status(Status &&) noexcept = default;
  Status &operator=(const Status &other);
  Status &operator=(Status &&) noexcept = default;

  static Status ok() { return Status(); }
  /// `message` states what and where; `hint`, when not empty, the next thing to try.
  static Status error(ErrorId id, std::string_view message, std::string_view hint = {});

  bool isOk() const { return !state; }
  explicit operator bool() const { return isOk(); }
  ErrorId id() const;
  Code code() const { return codeOf(id()); }
  /// Both are empty when ok.
  std::string_view message() const;
  std::string_view hint() const;
  /// "TN0501: message (hint)"; "ok" when ok.
  std::string toString() const;

  /// Puts `where` and a colon before the message; does nothing when ok.
  Status &prefix(std::string_view where);

private:
  struct State;
  /// Out of line, because a Status ends wherever something can fail.
  struct Deleter {
    void operator()(State *state) const;
  };
  std::unique_ptr<State, Deleter> state;
};

} // namespace tenon

/// Returns the Status of `expression` from the calling function when it is an error.
#define TENON_TRY(expression)                                                                      \
  do {                                                                                             \
    ::tenon::Status tenonTryStatus = (expression);                                                 \
    if (!tenonTryStatus.isOk()) {                                                                  \
      return tenonTryStatus;                                                                       \
    }                                                                                              \
  } while (false)
