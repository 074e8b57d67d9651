// How rotary embeddings turn the pairs of a head: the frequency of each pair, and how it is scaled
// for more positions than a model was first trained for.
//
// Source: transformers' modeling_rope_utils, which defines the scalings.
#pragma once

#include <cstdint>
#include <vector>

namespace tenon::language {

struct Rotation {
  double base = 10000;
  /// Frequencies are divided by it; with YaRN, those of them that turn slowly.
  double factor = 1;
  bool isYarn = false;
  /// Turns over the original positions from which on YaRN leaves a frequency as it is, and below
  /// which it divides it.
  double betaFast = 32, betaSlow = 1;
  int64_t originalPositions = 0;
  /// Of cosines and sines.
  double magnitude = 1;
  /// Divisors of the frequencies, one for each pair; empty for none.
  std::vector<float> factors;
  /// In their place where there are more positions than the original ones (LongRoPE).
  std::vector<float> longFactors;
};

/// Radians of a position for each pair of `turned` elements, in a session of so many positions.
///
/// transformers takes LongRoPE's long factors from the first token on that is beyond the original
/// positions, and computes all keys anew. An engine holds keys that are turned already, so its
/// positions decide once: up to the original ones all texts are as transformers has them; beyond,
/// those that are longer are.
std::vector<double> frequencies(const Rotation &rotation, int64_t turned, int64_t positions);

} // namespace tenon::language
