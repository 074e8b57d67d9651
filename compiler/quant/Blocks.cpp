// Rounds to nearest. What a block lacks of kBlock numbers at the end of the depth is its zero
// point.
#include "compiler/quant/Blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon::quant {
namespace {

constexpr float kMost = 15;
/// Shares of a block's range that 4 bits may span.
constexpr float kShares[] = {1.0F, 0.95F, 0.9F, 0.85F, 0.8F, 0.75F};

struct Levels {
  float scale = 1, zero = 0;

  float level(float value) const {
    return std::clamp(std::nearbyintf(value / scale) + zero, 0.0F, kMost);
  }
  float error(float value) const { return value - (level(value) - zero) * scale; }
};

/// Those of the least squared error, which is added to `error`.
Levels levelsOf(std::span<const float> block, double &error) {
  float low = 0, high = 0;
  for (float value : block) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  Levels best;
  double least = std::numeric_limits<double>::infinity();
  for (float share : kShares) {
    Levels levels;
    levels.scale = high > low ? (high - low) * share / kMost : 1;
    levels.zero = std::clamp(std::nearbyintf(-low * share / levels.scale), 0.0F, kMost);
    double sum = 0;
    for (float value : block) {
      sum += double(levels.error(value)) * levels.error(value);
    }
    if (sum < least) {
      least = sum;
      best = levels;
    }
  }
  error += least;
  return best;
}

} // namespace

BlockWeight quantizeBlocks(const Floats &weight, size_t axis) {
  BlockWeight result;
  result.depth = weight.dims[1 - axis];
  result.columns = weight.dims[axis];
  result.blocks = (result.depth + kBlock - 1) / kBlock;
  size_t blocks = static_cast<size_t>(result.blocks), columns = static_cast<size_t>(result.columns);
  size_t depth = static_cast<size_t>(result.depth), zeroBytes = (blocks + 1) / 2;
  result.values.resize(columns * blocks * kBlock / 2);
  result.scales.resize(columns * blocks);
  result.zeros.resize(columns * zeroBytes);
  double error = 0, energy = 0;
  for (size_t column = 0; column < columns; ++column) {
    for (size_t block = 0; block < blocks; ++block) {
      std::vector<float> numbers;
      for (size_t k = block * kBlock; k < std::min<size_t>((block + 1) * kBlock, depth); ++k) {
        numbers.push_back(weight.values[axis == 0 ? column * depth + k : k * columns + column]);
        energy += double(numbers.back()) * numbers.back();
      }
      Levels levels = levelsOf(numbers, error);
      size_t index = column * blocks + block;
      result.scales[index] = levels.scale;
      result.zeros[column * zeroBytes + block / 2] |=
          static_cast<uint8_t>(static_cast<unsigned>(levels.zero) << (block % 2 * 4));
      numbers.resize(kBlock);
      for (size_t i = 0; i < numbers.size(); ++i) {
        unsigned level = static_cast<unsigned>(levels.level(numbers[i]));
        result.values[(index * kBlock + i) / 2] |= static_cast<uint8_t>(level << (i % 2 * 4));
      }
    }
  }
  result.error = energy > 0 ? error / energy : 0;
  return result;
}

} // namespace tenon::quant
