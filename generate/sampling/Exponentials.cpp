// Lanes are independent, so that a compiler makes vectors of them. Relies on no contraction of
// products and sums (generate/CMakeLists.txt).
#include "generate/sampling/Exponentials.h"

#include "support/random/GumbelNoise.h"

#include <algorithm>
#include <array>
#include <cstddef>

/// For wider vectors where the machine has them: the same operations, so the same bits.
#if defined(__x86_64__)
#define TENON_IN_WIDE_VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TENON_IN_WIDE_VECTORS
#endif

namespace tenon::generate {
namespace {

constexpr size_t kLanes = 16;
/// Terms of a lane that are summed in float before they are added in double.
constexpr size_t kSteps = 16;

} // namespace

TENON_IN_WIDE_VECTORS void exponentials(std::span<const float> logits, float largest,
                                        std::span<float> results) {
  for (size_t i = 0; i < logits.size(); ++i) {
    results[i] = exponential(logits[i] - largest);
  }
}

TENON_IN_WIDE_VECTORS double sumOfExponentials(std::span<const float> logits, float largest) {
  double sum = 0;
  std::array<float, kLanes> lanes;
  while (logits.size() >= kLanes) {
    size_t steps = std::min(logits.size() / kLanes, kSteps);
    lanes.fill(0);
    for (size_t step = 0; step < steps; ++step) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] += exponential(logits[step * kLanes + lane] - largest);
      }
    }
    for (float lane : lanes) {
      sum += static_cast<double>(lane);
    }
    logits = logits.subspan(steps * kLanes);
  }
  for (float logit : logits) {
    sum += static_cast<double>(exponential(logit - largest));
  }
  return sum;
}

TENON_IN_WIDE_VECTORS double sumOfShares(std::span<const float> logits, float least) {
  std::array<double, kLanes> lanes = {};
  size_t whole = logits.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      float logit = logits[i + lane];
      lanes[lane] += shareOf(logit >= least ? exponential(logit) : 0);
    }
  }
  double sum = 0;
  for (double lane : lanes) {
    sum += lane;
  }
  for (float logit : logits.subspan(whole)) {
    sum += logit >= least ? shareOf(exponential(logit)) : 0;
  }
  return sum;
}

} // namespace tenon::generate
