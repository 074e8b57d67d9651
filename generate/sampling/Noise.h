// Noise that depends on nothing but its seed and two numbers: Philox4x32-10.
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace tenon::generate {

/// Four words of a counter of four under a key of two.
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

/// Whoever has the largest logit with such noise on it is drawn with the softmax's probability.
inline double gumbel(double uniform) { return -std::log(-std::log(uniform)); }
/// What `gumbel` gives at most and at least for the numbers of `uniform`.
inline double mostNoise() { return gumbel(1 - 0x1p-53); }
inline double leastNoise() { return gumbel(0x1p-53); }

} // namespace tenon::generate
