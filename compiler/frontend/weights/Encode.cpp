// A scale is searched for around the one that takes the whole range: for each candidate the numbers
// are rounded, and the scale that is best for these numbers follows by least squares.
#include "compiler/frontend/weights/Encode.h"

#include "support/Check.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace tenon::weights {

uint16_t halfOf(float value) {
  constexpr float kMost = 65504;
  value = std::clamp(value, -kMost, kMost);
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  float magnitude = std::fabs(value);
  constexpr float kLeastNormal = 0x1p-14f;
  if (magnitude < kLeastNormal) {
    // Of subnormal halves the last place is 2^-24; rint rounds to even.
    return sign | static_cast<uint16_t>(std::rint(magnitude * 0x1p24f));
  }
  bits &= 0x7fffffff;
  uint32_t even = (bits >> 13) & 1;
  return sign | static_cast<uint16_t>((bits - (uint32_t{112} << 23) + 0xfff + even) >> 13);
}

namespace {

constexpr int kGroup = 32, kSuper = 256, kSixteen = 16;

void putHalf(std::byte *to, float value) {
  uint16_t bits = halfOf(value);
  std::memcpy(to, &bits, sizeof bits);
}

float asHalf(float value) { return halfToFloat(halfOf(value)); }

float nearest(float value, float low, float high) {
  return std::clamp(std::nearbyint(value), low, high);
}

/// The scale of numbers from `low` to `high` around zero, -low > high.
float symmetricScale(std::span<const float> values, float low, float high) {
  float peak = 0;
  for (float value : values) {
    peak = std::fabs(value) > std::fabs(peak) ? value : peak;
  }
  if (peak == 0) {
    return 0;
  }
  constexpr int kSteps = 9;
  constexpr float kStep = 0.1F;
  float best = 0, bestGain = -1;
  for (int step = -kSteps; step <= kSteps; ++step) {
    // The largest has the sign of which there is one number more.
    float inverse = (low + kStep * static_cast<float>(step)) / peak;
    float products = 0, squares = 0;
    for (float value : values) {
      float number = nearest(value * inverse, low, high);
      products += value * number;
      squares += number * number;
    }
    // The error is the sum of the squared values less this.
    float gain = squares == 0 ? 0 : products * products / squares;
    if (gain > bestGain) {
      bestGain = gain;
      best = squares == 0 ? 0 : products / squares;
    }
  }
  return best;
}

/// value = scale * number + offset, with numbers from 0 to `most`.
struct Line {
  float scale = 0, offset = 0;
};

/// `isBelowZero` where no offset may be above 0.
Line affineLine(std::span<const float> values, float most, bool isBelowZero) {
  auto [least, largest] = std::ranges::minmax(values);
  float low = isBelowZero ? std::min(least, 0.0F) : least;
  float range = largest - low;
  if (!(range > 0)) {
    return {0, low};
  }
  constexpr int kSteps = 8;
  constexpr float kStep = 0.15F;
  float count = static_cast<float>(values.size());
  Line best;
  float bestError = std::numeric_limits<float>::infinity();
  for (int step = -kSteps; step <= kSteps; ++step) {
    float inverse = (most + kStep * static_cast<float>(step)) / range;
    float sum = 0, numbers = 0, products = 0, squares = 0;
    for (float value : values) {
      float number = nearest((value - low) * inverse, 0, most);
      sum += value;
      numbers += number;
      products += value * number;
      squares += number * number;
    }
    float spread = count * squares - numbers * numbers;
    Line line;
    line.scale = spread > 0 ? (count * products - sum * numbers) / spread : 0;
    line.offset = (sum - line.scale * numbers) / count;
    if (isBelowZero && line.offset > 0) {
      line = {squares > 0 ? products / squares : 0, 0};
    }
    float error = 0;
    for (float value : values) {
      float number = nearest((value - low) * inverse, 0, most);
      float left = value - line.scale * number - line.offset;
      error += left * left;
    }
    if (error < bestError && line.scale >= 0) {
      bestError = error;
      best = line;
    }
  }
  return best;
}

uint8_t numberOn(const Line &line, float value, float most) {
  return line.scale == 0
             ? uint8_t{0}
             : static_cast<uint8_t>(nearest((value - line.offset) / line.scale, 0, most));
}

void encodeQ80(std::span<const float> values, std::byte *to) {
  constexpr float kMost = 127;
  float peak = 0;
  for (float value : values) {
    peak = std::max(peak, std::fabs(value));
  }
  // 8 bits lose so little that the whole range is as good as any other.
  float scale = asHalf(peak / kMost);
  putHalf(to, scale);
  for (int i = 0; i < kGroup; ++i) {
    float number = scale == 0 ? 0 : nearest(values[i] / scale, -kMost, kMost);
    to[2 + i] = static_cast<std::byte>(static_cast<int8_t>(number));
  }
}

void putNibbles(const uint8_t *numbers, std::byte *to) {
  for (int i = 0; i < kGroup / 2; ++i) {
    to[i] = static_cast<std::byte>(numbers[i] | numbers[i + kGroup / 2] << 4);
  }
}

void encodeQ41(std::span<const float> values, std::byte *to) {
  constexpr float kMost = 15;
  Line line = affineLine(values, kMost, /*isBelowZero=*/false);
  line = {asHalf(line.scale), asHalf(line.offset)};
  putHalf(to, line.scale);
  putHalf(to + 2, line.offset);
  std::array<uint8_t, kGroup> numbers;
  for (int i = 0; i < kGroup; ++i) {
    numbers[i] = numberOn(line, values[i], kMost);
  }
  putNibbles(numbers.data(), to + 4);
}

/// 256 numbers of 4 bits in groups of 32, whose scales and offsets have 6 bits each.
struct SuperBlock {
  static constexpr int kGroups = kSuper / kGroup;
  static constexpr float kMost = 15, kMostOfGroup = 63;

  float scale = 0, offset = 0; ///< of the scales and of the offsets below zero
  std::array<uint8_t, kGroups> scales{}, offsets{};
  std::array<uint8_t, kSuper> numbers{};

  Line line(int group) const {
    return {scale * static_cast<float>(scales[group]),
            -offset * static_cast<float>(offsets[group])};
  }

  /// Rounds all values on the lines of their groups; returns the squared error.
  double round(std::span<const float> values) {
    double error = 0;
    for (int i = 0; i < kSuper; ++i) {
      Line on = line(i / kGroup);
      numbers[i] = numberOn(on, values[i], kMost);
      double left = values[i] - (on.scale * static_cast<float>(numbers[i]) + on.offset);
      error += left * left;
    }
    return error;
  }

  /// The scale and the offset that are best for these numbers.
  void refit(std::span<const float> values) {
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (int i = 0; i < kSuper; ++i) {
      double a = static_cast<double>(scales[i / kGroup]) * numbers[i];
      double b = -static_cast<double>(offsets[i / kGroup]);
      aa += a * a;
      ab += a * b;
      bb += b * b;
      ax += a * values[i];
      bx += b * values[i];
    }
    double determinant = aa * bb - ab * ab;
    if (determinant > 1e-9 * aa * bb) {
      scale = asHalf(static_cast<float>((ax * bb - bx * ab) / determinant));
      offset = asHalf(static_cast<float>((bx * aa - ax * ab) / determinant));
    } else if (aa > 0 && bb == 0) {
      scale = asHalf(static_cast<float>(ax / aa));
    }
  }
};

void encodeQ4K(std::span<const float> values, std::byte *to) {
  SuperBlock block;
  std::array<Line, SuperBlock::kGroups> lines;
  float largestScale = 0, largestOffset = 0;
  for (int group = 0; group < SuperBlock::kGroups; ++group) {
    lines[group] = affineLine(values.subspan(group * kGroup, kGroup), SuperBlock::kMost,
                              /*isBelowZero=*/true);
    largestScale = std::max(largestScale, lines[group].scale);
    largestOffset = std::max(largestOffset, -lines[group].offset);
  }
  auto sixBits = [](float value, float unit) {
    return unit == 0 ? uint8_t{0}
                     : static_cast<uint8_t>(nearest(value / unit, 0, SuperBlock::kMostOfGroup));
  };
  block.scale = asHalf(largestScale / SuperBlock::kMostOfGroup);
  block.offset = asHalf(largestOffset / SuperBlock::kMostOfGroup);
  for (int group = 0; group < SuperBlock::kGroups; ++group) {
    block.scales[group] = sixBits(lines[group].scale, block.scale);
    block.offsets[group] = sixBits(-lines[group].offset, block.offset);
  }
  double error = block.round(values);
  SuperBlock better = block;
  better.refit(values);
  block = better.round(values) < error ? better : block;

  putHalf(to, block.scale);
  putHalf(to + 2, block.offset);
  for (int i = 0; i < 4; ++i) {
    auto high = [](uint8_t value) { return (value >> 4) << 6; };
    uint8_t scale = block.scales[i + 4], offset = block.offsets[i + 4];
    to[4 + i] = static_cast<std::byte>(block.scales[i] | high(scale));
    to[8 + i] = static_cast<std::byte>(block.offsets[i] | high(offset));
    to[12 + i] = static_cast<std::byte>((scale & 15) | (offset & 15) << 4);
  }
  for (int pair = 0; pair < SuperBlock::kGroups / 2; ++pair) {
    const uint8_t *low = block.numbers.data() + pair * 2 * kGroup, *high = low + kGroup;
    for (int i = 0; i < kGroup; ++i) {
      to[16 + pair * kGroup + i] = static_cast<std::byte>(low[i] | high[i] << 4);
    }
  }
}

void encodeQ6K(std::span<const float> values, std::byte *to) {
  constexpr float kLow = -32, kHigh = 31, kMostOfGroup = 127;
  std::array<float, kSuper / kSixteen> scales;
  float peak = 0;
  for (size_t group = 0; group < scales.size(); ++group) {
    scales[group] = symmetricScale(values.subspan(group * kSixteen, kSixteen), kLow, kHigh);
    peak = std::max(peak, std::fabs(scales[group]));
  }
  float scale = asHalf(peak / kMostOfGroup);
  std::memset(to, 0, 210);
  putHalf(to + 208, scale);
  std::array<uint8_t, kSuper> numbers;
  for (size_t group = 0; group < scales.size(); ++group) {
    float factor = scale == 0 ? 0 : nearest(scales[group] / scale, -kMostOfGroup - 1, kMostOfGroup);
    to[192 + group] = static_cast<std::byte>(static_cast<int8_t>(factor));
    float unit = scale * factor;
    for (size_t i = group * kSixteen; i < (group + 1) * kSixteen; ++i) {
      float number = unit == 0 ? 0 : nearest(values[i] / unit, kLow, kHigh);
      numbers[i] = static_cast<uint8_t>(number - kLow);
    }
  }
  for (int half = 0; half < 2; ++half) {
    std::byte *low = to + half * 64, *high = to + 128 + half * 32;
    for (int i = 0; i < kGroup; ++i) {
      for (int quarter = 0; quarter < 4; ++quarter) {
        uint8_t number = numbers[half * 128 + quarter * kGroup + i];
        low[i + kGroup * (quarter % 2)] |=
            static_cast<std::byte>((number & 15) << (quarter < 2 ? 0 : 4));
        high[i] |= static_cast<std::byte>((number >> 4) << (2 * quarter));
      }
    }
  }
}

using EncodeBlock = void (*)(std::span<const float>, std::byte *);

EncodeBlock encoderOf(const BlockType &type) {
  constexpr std::pair<std::string_view, EncodeBlock> kEncoders[] = {
      {"Q4_1", encodeQ41}, {"Q8_0", encodeQ80}, {"Q4_K", encodeQ4K}, {"Q6_K", encodeQ6K}};
  for (auto [name, encoder] : kEncoders) {
    if (name == type.name) {
      return encoder;
    }
  }
  return nullptr;
}

} // namespace

bool isWritten(const BlockType &type) {
  return type.name == "F32" || type.name == "F16" || encoderOf(type);
}

void encode(const BlockType &type, std::span<const float> values, std::byte *blocks) {
  if (type.name == "F32") {
    std::memcpy(blocks, values.data(), values.size_bytes());
    return;
  }
  if (type.name == "F16") {
    for (size_t i = 0; i < values.size(); ++i) {
      putHalf(blocks + 2 * i, values[i]);
    }
    return;
  }
  EncodeBlock encoder = encoderOf(type);
  TENON_CHECK(encoder, "blocks of this type are not written");
  size_t elements = static_cast<size_t>(type.elements);
  for (size_t i = 0; i < values.size() / elements; ++i) {
    encoder(values.subspan(i * elements, elements), blocks + i * static_cast<size_t>(type.bytes));
  }
}

void decode(const BlockType &type, const std::byte *blocks, std::span<float> values) {
  if (type.isFloat()) {
    for (size_t i = 0; i < values.size(); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, blocks + i * static_cast<size_t>(type.bytes),
                  static_cast<size_t>(type.bytes));
      values[i] = type.name == "F16"    ? halfToFloat(static_cast<uint16_t>(bits))
                  : type.name == "BF16" ? std::bit_cast<float>(bits << 16)
                                        : std::bit_cast<float>(bits);
    }
    return;
  }
  std::array<uint8_t, kSuper> numbers;
  std::array<float, kSuper> scales, zeros;
  size_t elements = static_cast<size_t>(type.elements), group = static_cast<size_t>(type.group);
  for (size_t block = 0; block < values.size() / elements; ++block) {
    zeros.fill(static_cast<float>(type.zero));
    type.take(blocks + block * static_cast<size_t>(type.bytes), numbers.data(), scales.data(),
              zeros.data());
    for (size_t i = 0; i < elements; ++i) {
      values[block * elements + i] =
          (static_cast<float>(numbers[i]) - zeros[i / group]) * scales[i / group];
    }
  }
}

} // namespace tenon::weights
