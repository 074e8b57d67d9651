// Rounds to nearest, or by samples where they are given. Both work on rows [depth, columns], so
// that inner loops run over columns in memory.
#include "compiler/quant/Blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon::quant {
namespace {

constexpr float kMax = 15;
/// Shares of a block's range that 4 bits may span.
constexpr float kShares[] = {1.0F, 0.95F, 0.9F, 0.85F, 0.8F, 0.75F};

struct Levels {
  float scale = 1, zero = 0;

  float level(float value) const {
    return std::clamp(std::nearbyintf(value / scale) + zero, 0.0F, kMax);
  }
  float error(float value) const { return value - (level(value) - zero) * scale; }
};

/// Those of the least squared error; `importance` weighs the numbers, or is empty.
Levels levelsOf(std::span<const float> block, std::span<const float> importance) {
  float low = 0, high = 0;
  for (float value : block) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  Levels best;
  double least = std::numeric_limits<double>::infinity();
  for (float share : kShares) {
    Levels levels;
    levels.scale = high > low ? (high - low) * share / kMax : 1;
    levels.zero = std::clamp(std::nearbyintf(-low * share / levels.scale), 0.0F, kMax);
    double sum = 0;
    for (size_t i = 0; i < block.size(); ++i) {
      double error = levels.error(block[i]);
      sum += error * error * (importance.empty() ? 1 : importance[i]);
    }
    if (sum < least) {
      least = sum;
      best = levels;
    }
  }
  return best;
}

/// Rounds the rows of a matrix [depth, columns] in turn, block by block.
class Rounder {
public:
  Rounder(std::vector<float> rows, BlockWeight &result) : rows(std::move(rows)), result(result) {}

  /// To nearest.
  void run() {
    for (size_t block = 0; block < size(result.blocks); ++block) {
      chooseLevels(block, {});
      for (size_t k = begin(block); k < end(block); ++k) {
        roundRow(k);
      }
    }
  }

  /// What a row loses is made up for by the rows behind it (Frantar et al., GPTQ, 2023): `factor`
  /// is inverseFactor of what the product multiplies. Rows of the same block at once, the others
  /// when it is done.
  void run(const std::vector<float> &factor, const Gram &gram) {
    size_t depth = size(result.depth), columns = size(result.columns);
    std::vector<float> importance(depth), lost(size(result.block) * columns);
    for (size_t k = 0; k < depth; ++k) {
      importance[k] = gram.at(k, k);
    }
    for (size_t block = 0; block < size(result.blocks); ++block) {
      size_t first = begin(block), last = end(block);
      chooseLevels(block, std::span(importance).subspan(first, last - first));
      for (size_t k = first; k < last; ++k) {
        std::span<float> own = std::span(lost).subspan((k - first) * columns, columns);
        std::vector<float> before(row(k), row(k) + columns);
        roundRow(k);
        for (size_t column = 0; column < columns; ++column) {
          own[column] = (before[column] - row(k)[column]) / factor[k * depth + k];
        }
        spread(own, factor, k, k + 1, last);
      }
      for (size_t k = first; k < last; ++k) {
        spread(std::span(lost).subspan((k - first) * columns, columns), factor, k, last, depth);
      }
    }
  }

  /// As they were rounded, [depth, columns].
  const std::vector<float> &values() const { return rows; }

private:
  static size_t size(int64_t value) { return static_cast<size_t>(value); }
  size_t begin(size_t block) const { return block * size(result.block); }
  size_t end(size_t block) const { return std::min(begin(block + 1), size(result.depth)); }
  float *row(size_t k) { return rows.data() + k * size(result.columns); }

  void chooseLevels(size_t block, std::span<const float> importance) {
    std::vector<float> numbers(end(block) - begin(block));
    levels.resize(size(result.columns));
    for (size_t column = 0; column < levels.size(); ++column) {
      for (size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = row(begin(block) + i)[column];
      }
      levels[column] = levelsOf(numbers, importance);
      result.scales[column * size(result.blocks) + block] = levels[column].scale;
      size_t index = column * size(result.blocks) + block;
      result.zeros[index] = static_cast<uint8_t>(levels[column].zero);
      // What lacks at the end of the depth stands for 0.
      std::fill_n(result.levels.begin() + static_cast<ptrdiff_t>(begin(index)), result.block,
                  result.zeros[index]);
    }
  }
  void roundRow(size_t k) {
    for (size_t column = 0; column < levels.size(); ++column) {
      const Levels &own = levels[column];
      float &value = row(k)[column], level = own.level(value);
      result.levels[begin(column * size(result.blocks)) + k] = static_cast<uint8_t>(level);
      value = (level - own.zero) * own.scale;
    }
  }
  void spread(std::span<const float> lost, const std::vector<float> &factor, size_t from,
              size_t begin, size_t end) {
    for (size_t k = begin; k < end; ++k) {
      float share = factor[from * size(result.depth) + k];
      float *target = row(k);
      for (size_t column = 0; share != 0 && column < lost.size(); ++column) {
        target[column] -= share * lost[column];
      }
    }
  }

  std::vector<float> rows;
  BlockWeight &result;
  std::vector<Levels> levels; ///< of the block at hand, by column
};

/// Sum over columns of e * G * e for the differences e of two matrices [depth, columns].
double errorOfProduct(std::span<const float> a, std::span<const float> b, const Gram &gram) {
  size_t depth = gram.depth(), columns = a.size() / depth;
  double total = 0;
  std::vector<float> weighted(columns);
  for (size_t i = 0; i < depth; ++i) {
    std::fill(weighted.begin(), weighted.end(), 0.0F);
    for (size_t j = 0; j < depth; ++j) {
      float factor = gram.at(i, j);
      for (size_t column = 0; column < columns; ++column) {
        weighted[column] += factor * (a[j * columns + column] - b[j * columns + column]);
      }
    }
    for (size_t column = 0; column < columns; ++column) {
      total += double(weighted[column]) * (a[i * columns + column] - b[i * columns + column]);
    }
  }
  return total;
}

/// Two numbers of 4 bits in a byte, in the order of memory.
std::vector<uint8_t> packed(std::span<const uint8_t> numbers) {
  std::vector<uint8_t> result((numbers.size() + 1) / 2);
  for (size_t i = 0; i < numbers.size(); ++i) {
    result[i / 2] |= static_cast<uint8_t>(numbers[i] << (i % 2 * 4));
  }
  return result;
}

BlockWeight emptyBlocks(const Floats &weight, size_t axis) {
  BlockWeight result;
  result.depth = weight.dims[1 - axis];
  result.columns = weight.dims[axis];
  result.block = blockOf(result.depth);
  result.blocks = (result.depth + result.block - 1) / result.block;
  size_t blocks = static_cast<size_t>(result.blocks * result.columns);
  result.levels.resize(blocks * static_cast<size_t>(result.block));
  result.scales.resize(blocks);
  result.zeros.resize(blocks);
  return result;
}

} // namespace

int64_t blockOf(int64_t depth) {
  constexpr int64_t kBlock = 32;
  return depth % kBlock == kBlock / 2 ? kBlock / 2 : kBlock;
}

BlockWeight quantizeBlocks(const Floats &weight, size_t axis, const Gram *gram) {
  BlockWeight result = emptyBlocks(weight, axis);
  std::vector<float> rows = axis == 0 ? transposed(weight).values : weight.values, kept;
  {
    Rounder nearest(rows, result);
    nearest.run();
    kept = nearest.values();
  }
  if (gram) {
    BlockWeight tried = emptyBlocks(weight, axis);
    Rounder rounder(rows, tried);
    rounder.run(inverseFactor(*gram), *gram);
    double before = errorOfProduct(rows, kept, *gram);
    double after = errorOfProduct(rows, rounder.values(), *gram);
    if (after < before) {
      kept = rounder.values();
      result = std::move(tried);
      result.gain = 10 * std::log10(before / std::max(after, before * 1e-9));
    }
  }
  double error = 0, energy = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    error += double(rows[i] - kept[i]) * (rows[i] - kept[i]);
    energy += double(rows[i]) * rows[i];
  }
  result.error = energy > 0 ? error / energy : 0;
  return result;
}

std::vector<uint8_t> packForProduct(const BlockWeight &weight) { return packed(weight.levels); }

std::vector<uint8_t> packZerosForProduct(const BlockWeight &weight) {
  size_t blocks = static_cast<size_t>(weight.blocks);
  std::vector<uint8_t> result;
  for (size_t first = 0; first < weight.zeros.size(); first += blocks) {
    std::vector<uint8_t> row = packed(std::span(weight.zeros).subspan(first, blocks));
    result.insert(result.end(), row.begin(), row.end());
  }
  return result;
}

PackedBlocks packForDequantize(const BlockWeight &weight, size_t axis) {
  size_t depth = static_cast<size_t>(weight.depth), columns = static_cast<size_t>(weight.columns);
  size_t blocks = static_cast<size_t>(weight.blocks), block = static_cast<size_t>(weight.block);
  PackedBlocks result;
  result.scaleDims = axis == 0 ? std::vector<int64_t>{weight.columns, weight.blocks}
                               : std::vector<int64_t>{weight.blocks, weight.columns};
  std::vector<uint8_t> levels(depth * columns), zeros(blocks * columns);
  result.scales.resize(blocks * columns);
  for (size_t column = 0; column < columns; ++column) {
    for (size_t k = 0; k < depth; ++k) {
      levels[axis == 0 ? column * depth + k : k * columns + column] =
          weight.levels[column * blocks * block + k];
    }
    for (size_t i = 0; i < blocks; ++i) {
      size_t to = axis == 0 ? column * blocks + i : i * columns + column;
      zeros[to] = weight.zeros[column * blocks + i];
      result.scales[to] = weight.scales[column * blocks + i];
    }
  }
  result.levels = packed(levels);
  result.zeros = packed(zeros);
  return result;
}

} // namespace tenon::quant
