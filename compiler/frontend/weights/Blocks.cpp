// Takes blocks apart. Relies on IEEE floats and little-endian machines.
#include "compiler/frontend/weights/Blocks.h"

#include "support/text/Text.h"

#include <array>
#include <bit>
#include <cstring>
#include <string>

namespace tenon::weights {

float halfToFloat(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, rest = bits & 0x7fff;
  if (rest >= 0x7c00) { // infinities and what is no number
    return std::bit_cast<float>(sign | 0x7f800000 | rest << 13);
  }
  // The exponent of a single is 112 more; a product makes it so for subnormal numbers too.
  float magnitude = std::bit_cast<float>(rest << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

namespace {

uint8_t byteAt(const std::byte *at) { return std::to_integer<uint8_t>(*at); }

float halfAt(const std::byte *at) {
  uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return halfToFloat(bits);
}

/// number * scale - offset with a zero: where the scale is 0 all numbers become 0 and the offset
/// itself the scale.
void setGroup(float scale, float offset, uint8_t *numbers, int64_t count, float &groupScale,
              float &groupZero) {
  if (scale != 0 || offset == 0) {
    groupScale = scale;
    groupZero = scale == 0 ? 0 : offset / scale;
    return;
  }
  std::memset(numbers, 0, count);
  groupScale = offset;
  groupZero = 1;
}

/// 32 numbers of 4 bits: the low halves of 16 bytes, then the high ones.
void takeNibbles(const std::byte *bytes, uint8_t *numbers) {
  for (int i = 0; i < 16; ++i) {
    numbers[i] = byteAt(bytes + i) & 15;
    numbers[i + 16] = byteAt(bytes + i) >> 4;
  }
}

/// The fifth bits of 32 numbers.
void addFifthBits(const std::byte *bytes, uint8_t *numbers) {
  uint32_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  for (int i = 0; i < 32; ++i) {
    numbers[i] |= static_cast<uint8_t>(((bits >> i) & 1) << 4);
  }
}

void takeQ40(const std::byte *b, uint8_t *numbers, float *scales, float *zeros) {
  takeNibbles(b + 2, numbers);
  *scales = halfAt(b);
  *zeros = 8;
}

void takeQ41(const std::byte *b, uint8_t *numbers, float *scales, float *zeros) {
  takeNibbles(b + 4, numbers);
  setGroup(halfAt(b), -halfAt(b + 2), numbers, 32, *scales, *zeros);
}

void takeQ50(const std::byte *b, uint8_t *numbers, float *scales, float *zeros) {
  takeNibbles(b + 6, numbers);
  addFifthBits(b + 2, numbers);
  *scales = halfAt(b);
  *zeros = 16;
}

void takeQ51(const std::byte *b, uint8_t *numbers, float *scales, float *zeros) {
  takeNibbles(b + 8, numbers);
  addFifthBits(b + 4, numbers);
  setGroup(halfAt(b), -halfAt(b + 2), numbers, 32, *scales, *zeros);
}

void takeQ80(const std::byte *b, uint8_t *numbers, float *scales, float *zeros) {
  for (int i = 0; i < 32; ++i) {
    numbers[i] = byteAt(b + 2 + i) ^ 128;
  }
  *scales = halfAt(b);
  *zeros = 128;
}

/// The scale and the minimum of group `i` of 8, 6 bits each in 12 bytes.
std::pair<uint8_t, uint8_t> sixBits(const std::byte *bytes, int i) {
  auto at = [&](int j) { return byteAt(bytes + j); };
  if (i < 4) {
    return {at(i) & 63, at(i + 4) & 63};
  }
  return {static_cast<uint8_t>((at(i + 4) & 15) | (at(i - 4) >> 6) << 4),
          static_cast<uint8_t>((at(i + 4) >> 4) | (at(i) >> 6) << 4)};
}

/// Q4_K, and Q5_K with its fifth bits.
void takeFourOrFive(const std::byte *b, const std::byte *fifth, const std::byte *nibbles,
                    uint8_t *numbers, float *scales, float *zeros) {
  float scale = halfAt(b), least = halfAt(b + 2);
  for (int group = 0; group < 8; ++group) {
    uint8_t *to = numbers + group * 32;
    for (int i = 0; i < 32; ++i) {
      uint8_t byte = byteAt(nibbles + group / 2 * 32 + i);
      to[i] = group % 2 == 0 ? byte & 15 : byte >> 4;
      if (fifth) {
        to[i] |= static_cast<uint8_t>(((byteAt(fifth + i) >> group) & 1) << 4);
      }
    }
    auto [factor, minimum] = sixBits(b + 4, group);
    setGroup(scale * factor, least * minimum, to, 32, scales[group], zeros[group]);
  }
}

void takeQ4K(const std::byte *b, uint8_t *numbers, float *scales, float *zeros) {
  takeFourOrFive(b, nullptr, b + 16, numbers, scales, zeros);
}

void takeQ5K(const std::byte *b, uint8_t *numbers, float *scales, float *zeros) {
  takeFourOrFive(b, b + 16, b + 48, numbers, scales, zeros);
}

void takeQ6K(const std::byte *b, uint8_t *numbers, float *scales, float *zeros) {
  float scale = halfAt(b + 208);
  for (int half = 0; half < 2; ++half) {
    const std::byte *low = b + half * 64, *high = b + 128 + half * 32;
    for (int i = 0; i < 32; ++i) {
      for (int quarter = 0; quarter < 4; ++quarter) {
        uint8_t byte = byteAt(low + i + 32 * (quarter % 2));
        uint8_t nibble = quarter < 2 ? byte & 15 : byte >> 4;
        uint8_t top = (byteAt(high + i) >> (2 * quarter)) & 3;
        numbers[half * 128 + quarter * 32 + i] = static_cast<uint8_t>(nibble | top << 4);
      }
    }
  }
  for (int group = 0; group < 16; ++group) {
    scales[group] = scale * static_cast<float>(static_cast<int8_t>(byteAt(b + 192 + group)));
    zeros[group] = 32;
  }
}

constexpr std::array<int8_t, 16> kIq4 = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};

void takeIq4Nl(const std::byte *b, uint8_t *numbers, float *scales, float *zeros) {
  takeNibbles(b + 2, numbers);
  for (int i = 0; i < 32; ++i) {
    numbers[i] = static_cast<uint8_t>(kIq4[numbers[i]] + 128);
  }
  *scales = halfAt(b);
  *zeros = 128;
}

constexpr BlockType kTypes[] = {
    {0, "F32", 1, 4, 0, 1, 0, nullptr},         {1, "F16", 1, 2, 0, 1, 0, nullptr},
    {30, "BF16", 1, 2, 0, 1, 0, nullptr},       {2, "Q4_0", 32, 18, 4, 32, 8, takeQ40},
    {3, "Q4_1", 32, 20, 4, 32, -1, takeQ41},    {6, "Q5_0", 32, 22, 8, 32, 16, takeQ50},
    {7, "Q5_1", 32, 24, 8, 32, -1, takeQ51},    {8, "Q8_0", 32, 34, 8, 32, 128, takeQ80},
    {12, "Q4_K", 256, 144, 4, 32, -1, takeQ4K}, {13, "Q5_K", 256, 176, 8, 32, -1, takeQ5K},
    {14, "Q6_K", 256, 210, 8, 16, 32, takeQ6K}, {20, "IQ4_NL", 32, 18, 8, 32, 128, takeIq4Nl},
};

} // namespace

const BlockType *blockType(uint32_t id) {
  for (const BlockType &type : kTypes) {
    if (type.id == id) {
      return &type;
    }
  }
  return nullptr;
}

std::string knownBlockTypes() {
  std::string names;
  for (const BlockType &type : kTypes) {
    names += strCat(names.empty() ? "" : ", ", type.name);
  }
  return names;
}

} // namespace tenon::weights
