// Lanes are independent, so that a compiler makes vectors of them. Relies on no contraction of
// products and sums (generate/CMakeLists.txt).
#include "generate/sampling/Exponentials.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>

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

/// e^x = 2^n e^r: n goes into the exponent, and of r, which is at most ln(2) / 2, the series is
/// taken. Source of the two parts of ln(2), of which the first has few enough bits that n times it
/// is exact: Cody, Waite, "Software Manual for the Elementary Functions" (1980).
inline float exponential(float x) {
  constexpr float kLogOf2Inverse = 1.44269504f, kLogOf2 = 0.693359375f,
                  kLogOf2Rest = -2.12194440e-4f;
  constexpr float kLeast = -87; // of normal numbers
  // Adding it rounds to an integer, which then stands in the lowest bits.
  constexpr float kRounds = 0x1.8p23f;
  constexpr float kSeries[] = {1.f / 5040, 1.f / 720, 1.f / 120, 1.f / 24, 1.f / 6, 1.f / 2, 1, 1};
  float held = std::max(x, kLeast), shifted = held * kLogOf2Inverse + kRounds;
  float whole = shifted - kRounds, rest = (held - whole * kLogOf2) - whole * kLogOf2Rest;
  float sum = kSeries[0];
  for (size_t i = 1; i < std::size(kSeries); ++i) {
    sum = sum * rest + kSeries[i];
  }
  int32_t power = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRounds);
  float result = std::bit_cast<float>(std::bit_cast<int32_t>(sum) + (power << 23));
  return x >= kLeast ? result : 0;
}

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

} // namespace tenon::generate
