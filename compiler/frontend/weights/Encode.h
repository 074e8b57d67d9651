// Numbers as the blocks of a type, with the least squared error that a search over scales finds,
// and blocks as numbers. Relies on IEEE floats and little-endian machines.
#pragma once

#include "compiler/frontend/weights/Blocks.h"

#include <span>

namespace tenon::weights {

/// Whether encode() writes blocks of the type: F32, F16, Q4_1, Q8_0, Q4_K and Q6_K.
bool isWritten(const BlockType &type);

/// Writes finite numbers, a whole number of blocks, one block behind the other. Any thread.
void encode(const BlockType &type, std::span<const float> values, std::byte *blocks);

/// What blocks of any type stand for: as many numbers as `values` has, a whole number of blocks.
void decode(const BlockType &type, const std::byte *blocks, std::span<float> values);

/// The nearest IEEE half, of two equally near the even one; the largest finite one beyond it.
uint16_t halfOf(float value);

} // namespace tenon::weights
