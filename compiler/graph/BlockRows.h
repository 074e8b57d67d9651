// How tn.decode_rows reads a row of a matrix: blocks of words of 32 bits, so that 32 rows side by
// side are one stream in which a vector holds a word of each. One description serves verifier,
// compiler, reference and kernels. And how tn.round_blocks rounds what is multiplied by them.
#pragma once

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstdint>

namespace tenon::tn {

struct BlockRows {
  int64_t bits = 4;   ///< of a number, 4 or 8: unsigned, the first in the lowest bits of its word
  int64_t block = 32; ///< numbers that share a scale: a multiple of elementsOfWord()
  bool hasZeroPoints = false;
  int64_t depth = 0; ///< numbers of a row; the last block may be short

  int64_t elementsOfWord() const { return 32 / bits; }
  /// Of all blocks where they have none of their own: what makes signed numbers unsigned.
  int64_t commonZeroPoint() const { return int64_t(1) << (bits - 1); }
  /// The scale, and the zero point if there are any: f32, before a block's numbers.
  int64_t headerWords() const { return hasZeroPoints ? 2 : 1; }
  int64_t blocks() const { return llvm::divideCeilSigned(depth, block); }
  int64_t blockWords() const { return headerWords() + block / elementsOfWord(); }
  int64_t numbersOf(int64_t index) const { return std::min(block, depth - index * block); }
  int64_t rowWords() const {
    int64_t last = blocks() - 1;
    return last * blockWords() + headerWords() +
           llvm::divideCeilSigned(numbersOf(last), elementsOfWord());
  }
  int64_t rowBytes() const { return 4 * rowWords(); }

  bool isSound() const {
    return (bits == 4 || bits == 8) && block > 0 && block % elementsOfWord() == 0 && depth > 0;
  }
};

/// What tn.round_blocks rounds a block of activations to: numbers of 8 bits with sign, of which the
/// largest magnitude becomes kMost.
struct RoundedBlocks {
  static constexpr int kMost = 127;
  /// Magnitudes below 2 to the power of this become zeros, so that reciprocals are finite.
  static constexpr int kLeastExponent = -100;
};

} // namespace tenon::tn
