// The element types as C++ types, their conversions, and the way from a DType to code for its type.
// Relies on IEEE doubles; arithmetic happens in double, int64_t or uint64_t ("wide") and is
// narrowed.
#pragma once

#include "support/DType.h"
#include "support/Status.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

namespace tenon::reference {

/// A 16-bit float of the given layout; values are exact doubles, rounding is to nearest even.
template <int ExponentBits, int MantissaBits> struct SmallFloat {
  uint16_t bits = 0;

  static constexpr int kBias = (1 << (ExponentBits - 1)) - 1;
  static constexpr uint32_t kInfinity = ((1u << ExponentBits) - 1) << MantissaBits;

  SmallFloat() = default;
  explicit SmallFloat(double value) {
    uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    double magnitude = std::fabs(value);
    uint32_t encoded = 0;
    if (std::isnan(value)) {
      encoded = kInfinity | (1u << (MantissaBits - 1));
    } else if (std::isinf(value)) {
      encoded = kInfinity;
    } else if (magnitude != 0) {
      int exponent = std::max(std::ilogb(magnitude), 1 - kBias);
      double units = std::nearbyint(std::ldexp(magnitude, MantissaBits - exponent));
      // The leading one of `units` carries into the exponent field, also after rounding up.
      int64_t field = (int64_t(exponent + kBias - 1) << MantissaBits) + int64_t(units);
      encoded = uint32_t(std::min<int64_t>(field, kInfinity));
    }
    bits = sign | uint16_t(encoded);
  }
  operator double() const {
    int exponent = (bits >> MantissaBits) & ((1 << ExponentBits) - 1);
    int mantissa = bits & ((1 << MantissaBits) - 1);
    double magnitude;
    if (exponent == (1 << ExponentBits) - 1) {
      magnitude = mantissa ? std::numeric_limits<double>::quiet_NaN()
                           : std::numeric_limits<double>::infinity();
    } else {
      int implicitOne = exponent ? 1 << MantissaBits : 0;
      magnitude = std::ldexp(mantissa + implicitOne, std::max(exponent, 1) - kBias - MantissaBits);
    }
    return bits & 0x8000 ? -magnitude : magnitude;
  }
};

using Half = SmallFloat<5, 10>;
using BFloat = SmallFloat<8, 7>;

/// A bool, one byte at rest.
struct Bool {
  uint8_t value = 0;
};

template <typename T>
inline constexpr bool kIsFloat =
    std::is_floating_point_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat>;

/// The type that elements are computed in.
template <typename T>
using Wide = std::conditional_t<
    kIsFloat<T>, double,
    std::conditional_t<std::is_same_v<T, Bool> || std::is_signed_v<T>, int64_t, uint64_t>>;

template <typename T> Wide<T> widen(T value) {
  if constexpr (std::is_same_v<T, Bool>) {
    return value.value != 0;
  } else {
    return static_cast<Wide<T>>(value);
  }
}

/// Float to integer: towards zero, what is out of range becomes the nearest that the type has, NaN
/// 0.
template <typename T> T truncate(double value) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(value)) {
    return 0;
  }
  // The highest integer may have no double; then the next one is a power of two.
  if (value >= static_cast<double>(Limits::max())) {
    return Limits::max();
  }
  return value <= static_cast<double>(Limits::min()) ? Limits::min() : static_cast<T>(value);
}

/// The element nearest to a wide value: floats round to nearest even, integers wrap.
template <typename T, typename From> T narrow(From value) {
  if constexpr (std::is_same_v<T, Bool>) {
    return Bool{static_cast<uint8_t>(value != 0)};
  } else if constexpr (kIsFloat<T> && !std::is_floating_point_v<T>) {
    return T(static_cast<double>(value));
  } else if constexpr (!kIsFloat<T> && std::is_floating_point_v<From>) {
    return truncate<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

/// Carries a type into a generic lambda: `using T = typename decltype(tag)::Type;`.
template <typename T> struct Tag {
  using Type = T;
};

inline Status unsupportedType(DType type) {
  return Status::error(ErrorId::InternalError, "the reference interpreter does not compute with " +
                                                   std::string(nameOf(type)));
}

/// Calls fn(Tag<T>) for a float type and returns its Status.
template <typename Fn> Status visitFloat(DType type, const Fn &fn) {
  switch (type) {
  case DType::F32:
    return fn(Tag<float>());
  case DType::F64:
    return fn(Tag<double>());
  case DType::F16:
    return fn(Tag<Half>());
  case DType::BF16:
    return fn(Tag<BFloat>());
  default:
    return unsupportedType(type);
  }
}

/// Calls fn(Tag<T>) for an integer type.
template <typename Fn> Status visitInteger(DType type, const Fn &fn) {
  switch (type) {
  case DType::I8:
    return fn(Tag<int8_t>());
  case DType::I16:
    return fn(Tag<int16_t>());
  case DType::I32:
    return fn(Tag<int32_t>());
  case DType::I64:
    return fn(Tag<int64_t>());
  case DType::U8:
    return fn(Tag<uint8_t>());
  case DType::U16:
    return fn(Tag<uint16_t>());
  case DType::U32:
    return fn(Tag<uint32_t>());
  case DType::U64:
    return fn(Tag<uint64_t>());
  default:
    return unsupportedType(type);
  }
}

constexpr bool isFloat(DType type) {
  return type == DType::F32 || type == DType::F64 || type == DType::F16 || type == DType::BF16;
}

/// Calls fn(Tag<T>) for any type that operations compute with.
template <typename Fn> Status visitElement(DType type, const Fn &fn) {
  if (type == DType::Bool) {
    return fn(Tag<Bool>());
  }
  return isFloat(type) ? visitFloat(type, fn) : visitInteger(type, fn);
}

} // namespace tenon::reference
