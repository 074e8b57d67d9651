// Rounds on the grid of the number's exponent; subnormals share the least one's.
#include "compiler/quant/Float8.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tenon::quant {
namespace {

constexpr float kPlacesOfLargest[] = {1, 1.09F, 1.19F, 1.3F, 1.41F, 1.54F, 1.68F, 1.83F};

/// With the largest of some values at `place` of the grid's octave.
float scaleFor(float most, float place) {
  return most > 0 ? std::max(most / kMaxFloat8, kMinScale) * place : 1;
}

constexpr int kBias = 7, kMantissaBits = 3, kMinExponent = 1 - kBias;

} // namespace

uint8_t toFloat8(float value) {
  uint8_t sign = std::signbit(value) ? 0x80 : 0;
  float size = std::min(std::fabs(value), kMaxFloat8);
  int exponent = size > 0 ? std::max(std::ilogb(size), kMinExponent) : kMinExponent;
  // In steps of the mantissa; what rounds up to the next exponent is that code by itself.
  float steps = std::nearbyint(std::ldexp(size, kMantissaBits - exponent));
  int code = static_cast<int>(steps) + ((exponent - kMinExponent) << kMantissaBits);
  return static_cast<uint8_t>(sign | std::min(code, 0x7e));
}

float fromFloat8(uint8_t code) {
  int exponent = code >> kMantissaBits & 0xf, mantissa = code & 7;
  float size = exponent == 0
                   ? std::ldexp(static_cast<float>(mantissa), kMinExponent - kMantissaBits)
                   : std::ldexp(static_cast<float>(mantissa + 8), exponent - kBias - kMantissaBits);
  return code & 0x80 ? -size : size;
}

QuantizedWeight quantizeWeightFloat8(const Floats &weight, int64_t axis) {
  size_t inner = 1;
  for (size_t i = static_cast<size_t>(axis) + 1; i < weight.dims.size(); ++i) {
    inner *= static_cast<size_t>(weight.dims[i]);
  }
  size_t channels = static_cast<size_t>(weight.dims[static_cast<size_t>(axis)]);
  QuantizedWeight result{weight.dims, std::vector<int8_t>(weight.values.size()),
                         std::vector<float>(channels), 0};
  for (size_t i = 0; i < weight.values.size(); ++i) {
    float &most = result.scales[i / inner % channels];
    most = std::max(most, std::fabs(weight.values[i]));
  }
  // The largest weight stands somewhere in its octave; which place rounds the others best differs.
  std::vector<float> least(result.scales);
  std::vector<double> best(channels, std::numeric_limits<double>::infinity());
  for (float place : kPlacesOfLargest) {
    std::vector<double> errors(channels);
    for (size_t i = 0; i < weight.values.size(); ++i) {
      size_t channel = i / inner % channels;
      float scale = scaleFor(least[channel], place);
      double lost = weight.values[i] - fromFloat8(toFloat8(weight.values[i] / scale)) * scale;
      errors[channel] += lost * lost;
    }
    for (size_t channel = 0; channel < channels; ++channel) {
      if (errors[channel] < best[channel]) {
        best[channel] = errors[channel];
        result.scales[channel] = scaleFor(least[channel], place);
      }
    }
  }
  double energy = 0, error = 0;
  for (size_t i = 0; i < weight.values.size(); ++i) {
    float scale = result.scales[i / inner % channels], value = weight.values[i];
    uint8_t code = toFloat8(value / scale);
    result.values[i] = std::bit_cast<int8_t>(code);
    double lost = double(value) - double(fromFloat8(code)) * scale;
    error += lost * lost;
    energy += double(value) * value;
  }
  result.error = energy > 0 ? error / energy : 0;
  return result;
}

float scaleOfFloat8(const Histogram &histogram) {
  float most =
      static_cast<float>(std::max(std::fabs(histogram.low()), std::fabs(histogram.high())));
  float best = scaleFor(most, 1);
  double signal = -std::numeric_limits<double>::infinity();
  for (float place : kPlacesOfLargest) {
    double own = signalToNoiseFloat8(histogram, scaleFor(most, place));
    if (own > signal) {
      signal = own;
      best = scaleFor(most, place);
    }
  }
  return best;
}

double signalToNoiseFloat8(const Histogram &histogram, float scale) {
  double signal = 0, noise = 0;
  for (const Histogram::Bin &bin : histogram.bins()) {
    // A few places of the bin: its width is no multiple of the steps.
    constexpr int kPlaces = 8;
    for (int i = 0; i < kPlaces; ++i) {
      double value = bin.low + (bin.high - bin.low) * (i + 0.5) / kPlaces;
      double kept = double(fromFloat8(toFloat8(static_cast<float>(value / scale)))) * scale;
      double weight = static_cast<double>(bin.count) / kPlaces;
      signal += weight * value * value;
      noise += weight * (value - kept) * (value - kept);
    }
  }
  return 10 * std::log10(std::max(signal, 1e-30) / std::max(noise, 1e-30));
}

} // namespace tenon::quant
