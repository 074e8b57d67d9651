// Weights of 4 bits: blocks along the depth of a product, each with a scale and a zero point, in
// the layout of com.microsoft's MatMulNBits.
#pragma once

#include "compiler/quant/Weights.h"

namespace tenon::quant {

struct BlockWeight {
  int64_t depth = 0, columns = 0, blocks = 0;
  std::vector<uint8_t> values; ///< [columns, blocks, kBlock / 2], the first number in the low bits
  std::vector<float> scales;   ///< [columns, blocks]
  std::vector<uint8_t> zeros;  ///< [columns, blocks / 2 rounded up], the first in the low bits
  double error = 0;            ///< as QuantizedWeight::error
};

/// Numbers of a block.
inline constexpr int64_t kBlock = 32;

/// Of weights of rank 2 whose columns are counted along `axis`. Each block gets the range of the
/// least squared error.
BlockWeight quantizeBlocks(const Floats &weight, size_t axis);

} // namespace tenon::quant
