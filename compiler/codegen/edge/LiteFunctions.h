// Functions of one 8-bit number as TensorFlow Lite Micro computes them, bit for bit: by polynomials
// and products in 32-bit fixed point. For tables, so that boards compute none of it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace tenon::codegen::edge {

/// By the number plus 128.
using LiteTable = std::array<int8_t, 256>;

/// The logistic function of (q - zero) * scale, in numbers of 1/256 from -128 on; none for scales
/// that TensorFlow Lite does not take.
std::optional<LiteTable> liteLogistic(double scale, int32_t zero);
/// The hyperbolic tangent in numbers of 1/128.
std::optional<LiteTable> liteTanh(double scale, int32_t zero);

/// x * clamp(x + 3, 0, 6) / 6 of x = (q - zero) * scale.
std::optional<LiteTable> liteHardSwish(double scale, int32_t zero, double outScale,
                                       int32_t outZero);

/// exp(-scale * d) for each distance d from 0 on, with 31 bits behind the point.
std::optional<std::array<int32_t, 256>> liteExponentials(double scale);

/// `value` times a factor of 31 bits and a power of two, rounded twice.
int32_t liteScaled(int32_t value, double factor);

} // namespace tenon::codegen::edge
