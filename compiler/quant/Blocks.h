// Weights of 4 bits: blocks along the depth of a product, each with a scale and a zero point, and
// the two layouts in which models hold them.
#pragma once

#include "compiler/quant/Gram.h"
#include "compiler/quant/Weights.h"

namespace tenon::quant {

/// Numbers of a block: 32, or 16 where only that divides the depth.
int64_t blockOf(int64_t depth);

struct BlockWeight {
  int64_t depth = 0, columns = 0, blocks = 0, block = 0;
  std::vector<uint8_t>
      levels;                ///< [columns, blocks * block]; what lacks at the end is the zero point
  std::vector<float> scales; ///< [columns, blocks]
  std::vector<uint8_t> zeros; ///< [columns, blocks]
  double error = 0;           ///< as QuantizedWeight::error
  double gain = 0;            ///< of rounding by samples: decibels that the product's error falls
};

/// Of weights of rank 2 whose columns are counted along `axis`. Each block gets the range of the
/// least squared error; with a Gram matrix of the rows that they multiply, that of the product.
BlockWeight quantizeBlocks(const Floats &weight, size_t axis, const Gram *gram = nullptr);

/// For com.microsoft's MatMulNBits, the first number in the low bits: [columns, blocks, block /
/// 2], and zero points [columns, blocks / 2 rounded up].
std::vector<uint8_t> packForProduct(const BlockWeight &weight);
std::vector<uint8_t> packZerosForProduct(const BlockWeight &weight);

/// For DequantizeLinear with block_size along the other axis than `axis`: the levels in the order
/// of the weights, and scales and zero points likewise, two numbers of 4 bits in a byte.
struct PackedBlocks {
  std::vector<int64_t> scaleDims;
  std::vector<uint8_t> levels, zeros;
  std::vector<float> scales;
};
PackedBlocks packForDequantize(const BlockWeight &weight, size_t axis);

} // namespace tenon::quant
