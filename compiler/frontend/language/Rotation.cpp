// Computes the frequencies of rotary embeddings.
#include "compiler/frontend/language/Rotation.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tenon::language {
namespace {

/// How much of each frequency YaRN divides, from 0 to 1.
std::vector<double> yarnRamp(const Rotation &rotation, int64_t turned) {
  double width = static_cast<double>(turned);
  auto pairOf = [&](double turns) {
    double positions = static_cast<double>(rotation.originalPositions);
    return width * std::log(positions / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rotation.base));
  };
  double low = std::max(std::floor(pairOf(rotation.betaFast)), 0.0);
  double high = std::min(std::ceil(pairOf(rotation.betaSlow)), width - 1);
  high += low == high ? 0.001 : 0;
  std::vector<double> ramp(turned / 2);
  for (size_t pair = 0; pair < ramp.size(); ++pair) {
    ramp[pair] = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
  }
  return ramp;
}

} // namespace

std::vector<double> frequencies(const Rotation &rotation, int64_t turned, int64_t positions) {
  bool isLong = !rotation.longFactors.empty() && positions > rotation.originalPositions;
  const std::vector<float> &factors = isLong ? rotation.longFactors : rotation.factors;
  std::vector<double> ramp =
      rotation.isYarn ? yarnRamp(rotation, turned) : std::vector<double>(turned / 2, 1);
  std::vector<double> all(turned / 2);
  for (size_t pair = 0; pair < all.size(); ++pair) {
    double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(turned);
    double divisor = factors.empty() ? 1 : static_cast<double>(factors[pair]);
    all[pair] = std::pow(rotation.base, exponent) / divisor *
                (ramp[pair] / rotation.factor + (1 - ramp[pair]));
  }
  return all;
}

} // namespace tenon::language
