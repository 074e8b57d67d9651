// What a draw of a token is computed from: noise that depends on nothing but its seed and two
// numbers, and exponentials. IEEE 754 operations in a stated order, so that every machine and every
// kernel that keeps to it (compiler/codegen/common/math/Draws.h) has the same bits.
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace tenon {

/// Four words of a counter of four under a key of two: Philox4x32-10.
inline std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                                      std::array<uint32_t, 2> key) {
  constexpr uint64_t kFirst = 0xD2511F53, kSecond = 0xCD9E8D57;
  constexpr uint32_t kStepFirst = 0x9E3779B9, kStepSecond = 0xBB67AE85;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    uint64_t first = kFirst * counter[0], second = kSecond * counter[2];
    counter = {
        static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(second),
        static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
    key = {key[0] + kStepFirst, key[1] + kStepSecond};
  }
  return counter;
}

/// In (0, 1), never either.
inline double uniform(uint64_t seed, uint64_t position, uint32_t token) {
  std::array<uint32_t, 4> words =
      philox({token, 0, static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32)},
             {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  uint64_t bits = (static_cast<uint64_t>(words[0]) << 32 | words[1]) >> 12;
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

/// ln(2) in two parts: the first has so few bits that an exponent times it is exact.
inline constexpr double kLn2High = 0x1.62e42fep-1, kLn2Low = 0x1.f473de6af278fp-30;

/// The natural logarithm of a normal number above 0, to within a few units in the last place.
inline double logarithm(double x) {
#pragma STDC FP_CONTRACT OFF
  // x = 2^n m with m from sqrt(1/2) to sqrt(2); log(m) is twice the series of atanh(s).
  constexpr uint64_t kHalfRoot = 0x3FE6A09E667F3BCD;
  constexpr int kTerms = 12;
  uint64_t bits = std::bit_cast<uint64_t>(x);
  int64_t power = static_cast<int64_t>(bits - kHalfRoot) >> 52;
  double m = std::bit_cast<double>(bits - (static_cast<uint64_t>(power) << 52));
  double s = (m - 1) / (m + 1), square = s * s, sum = 0;
  for (int term = kTerms; term >= 0; --term) {
    sum = sum * square + 1.0 / (2 * term + 1);
  }
  double n = static_cast<double>(power);
  return n * kLn2High + (n * kLn2Low + 2 * s * sum);
}

/// Whoever has the largest logit with such noise on it is drawn with the softmax's probability.
inline double gumbel(double uniform) { return -logarithm(-logarithm(uniform)); }
/// What `gumbel` gives at most and at least for the numbers of `uniform`.
inline double mostNoise() { return gumbel(1 - 0x1p-53); }
inline double leastNoise() { return gumbel(0x1p-53); }

/// e^x for x of at most 0, to within 3e-7 of itself; 0 below -87.
///
/// e^x = 2^n e^r: n goes into the exponent, and of r, which is at most ln(2) / 2, the series is
/// taken. Source of the two parts of ln(2), of which the first has few enough bits that n times it
/// is exact: Cody, Waite, "Software Manual for the Elementary Functions" (1980).
inline float exponential(float x) {
#pragma STDC FP_CONTRACT OFF
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

/// Of a distribution's largest probability, which is 1, in the units in which probabilities are
/// summed: integers, so that a sum is the same in every order. A sum of kMostShares is exact in a
/// double.
inline constexpr double kWholeShare = 0x1p33;
inline constexpr int64_t kMostShares = int64_t{1} << 19;

/// A probability, from 0 to 1, in these units.
inline double shareOf(float probability) {
#pragma STDC FP_CONTRACT OFF
  constexpr double kRounds = 0x1.8p52;
  return (static_cast<double>(probability) * kWholeShare + kRounds) - kRounds;
}

} // namespace tenon
