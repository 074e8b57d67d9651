// Result<T> holds a value or the Status that says why there is none. It relies on Status only and
// works without exceptions and RTTI.

#pragma once

#include "support/Status.h"

#include <optional>
#include <utility>

namespace tenon {

/// `error`, or that there is none.
Status checkedError(Status error);

template <typename T> class [[nodiscard]] Result {
public:
  Result(T newValue) : value(std::move(newValue)) {}
  /// `error` must not be ok: a Result without value always says why.
  Result(Status error) : failure(checkedError(std::move(error))) {}

  bool isOk() const { return value.has_value(); }
  explicit operator bool() const { return isOk(); }
  const Status &status() const { return failure; }
  Status takeStatus() { return std::move(failure); }

  T &operator*() { return *value; }
  const T &operator*() const { return *value; }
  T *operator->() { return &*value; }
  const T *operator->() const { return &*value; }

private:
  std::optional<T> value;
  Status failure;
};

} // namespace tenon

#define TENON_CONCAT_IMPL(a, b) a##b
#define TENON_CONCAT(a, b) TENON_CONCAT_IMPL(a, b)

/// TENON_ASSIGN(T value, expression): value of a Result, or return its Status from this function.
#define TENON_ASSIGN(declaration, expression)                                                      \
  auto TENON_CONCAT(tenonResult, __LINE__) = (expression);                                         \
  if (!TENON_CONCAT(tenonResult, __LINE__).isOk()) {                                               \
    return TENON_CONCAT(tenonResult, __LINE__).takeStatus();                                       \
  }                                                                                                \
  declaration = std::move(*TENON_CONCAT(tenonResult, __LINE__))
