// Weights and ranges in E4M3 (float8e4m3fn of the OCP 8-bit Floating Point Specification): sign, 4
// bits of exponent, 3 of mantissa, up to 448, no infinity.
#pragma once

#include "compiler/quant/Range.h"
#include "compiler/quant/Weights.h"

namespace tenon::quant {

inline constexpr float kMaxFloat8 = 448;

/// To nearest, ties to even; what is larger becomes the largest.
uint8_t toFloat8(float value);
float fromFloat8(uint8_t code);

/// Of an activation: nothing is cut off, since a float keeps small values whatever the largest is;
/// of the places in its octave where the largest can stand the one of the least error.
float scaleOfFloat8(const Histogram &histogram);
/// Codes as the bits of `values`; a scale for each index along the axis, likewise.
QuantizedWeight quantizeWeightFloat8(const Floats &weight, int64_t axis);

/// Signal to quantization noise in decibels.
double signalToNoiseFloat8(const Histogram &histogram, float scale);

} // namespace tenon::quant
