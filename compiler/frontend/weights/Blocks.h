// Types that weights of language models are stored in: floats, and blocks of integers of few bits
// that share a scale. Whatever its layout, a block becomes numbers of 4 or 8 bits of which each
// stands for (number - zero) * scale.
//
// Source: ggml's block structures, from their definitions; little-endian.
#pragma once

#include "support/memory/ByteSpan.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::weights {

/// How the numbers of a group are taken out of a block.
struct BlockType {
  uint32_t id; ///< as GGUF counts them
  std::string_view name;
  int64_t elements; ///< of a block; 1 for floats
  int64_t bytes;
  /// Of the numbers; 0 for floats.
  int64_t bits;
  /// Numbers that share a scale and a zero.
  int64_t group;
  /// The zero of all groups, or -1 where each has its own.
  int64_t zero;
  /// Writes the block's numbers, one a byte, and a scale and a zero for each group.
  void (*take)(const std::byte *block, uint8_t *numbers, float *scales, float *zeros);

  bool isFloat() const { return bits == 0; }
};

/// Null for an id that is not known.
const BlockType *blockType(uint32_t id);
/// All that are known, for messages.
std::string knownBlockTypes();

/// As IEEE half, and the upper half of an IEEE single.
float halfToFloat(uint16_t bits);

} // namespace tenon::weights
