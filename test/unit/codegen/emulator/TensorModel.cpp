// Products by the definitions of fragments in the PTX manual, all lanes' parts at once.
#include "test/unit/codegen/emulator/TensorModel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace tenon::codegen::cuda {

namespace {

float halfToFloat(uint16_t bits) {
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float magnitude = exponent == 0    ? std::ldexp(float(mantissa), -24)
                    : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                     : std::ldexp(float(mantissa + 1024), exponent - 25);
  return bits >> 15 ? -magnitude : magnitude;
}

} // namespace

float fromHalf(uint16_t bits, bool isBrain) {
  static const std::vector<float> halves = [] {
    std::vector<float> all;
    for (uint32_t i = 0; i < 65536; ++i) {
      all.push_back(halfToFloat(i));
    }
    return all;
  }();
  uint32_t wide = uint32_t(bits) << 16;
  float brain;
  memcpy(&brain, &wide, 4);
  return isBrain ? brain : halves[bits];
}

uint16_t toHalf(float value, bool isBrain) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  if (isBrain) {
    return std::isnan(value) ? 0x7fff : uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  uint16_t sign = bits >> 16 & 0x8000;
  float magnitude = std::fabs(value);
  if (std::isnan(value)) {
    return 0x7fff;
  }
  if (magnitude >= 65520) {
    return sign | 0x7c00;
  }
  int exponent = magnitude == 0 ? -14 : std::max(std::ilogb(magnitude), -14);
  uint32_t units = uint32_t(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return sign | uint16_t((uint32_t(exponent + 14) << 10) + units);
}

/// Fragments as TensorCore.h and the manual (section mma.m16n8k16) have them.
void multiplyMatrices(Lanes lanes, bool isBrain) {
  struct Operands {
    uint16_t a[4][2], b[2][2];
    float c[4];
  };
  float a[16][16], b[16][8];
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    const Operands &operands = *static_cast<const Operands *>(lanes(lane).arguments);
    unsigned group = lane / 4, pair = lane % 4 * 2;
    for (unsigned i = 0; i < 2; ++i) {
      for (unsigned word = 0; word < 4; ++word) {
        a[group + word % 2 * 8][pair + word / 2 * 8 + i] = fromHalf(operands.a[word][i], isBrain);
      }
      for (unsigned word = 0; word < 2; ++word) {
        b[pair + word * 8 + i][group] = fromHalf(operands.b[word][i], isBrain);
      }
    }
  }
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    const Operands &operands = *static_cast<const Operands *>(lanes(lane).arguments);
    for (unsigned i = 0; i < 4; ++i) {
      unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      float sum = operands.c[i];
      for (unsigned k = 0; k < 16; ++k) {
        sum += a[row][k] * b[k][column];
      }
      static_cast<float *>(lanes(lane).result)[i] = sum;
    }
  }
}

/// Bytes where halves are above, each word with four of them (section mma.m16n8k32).
void multiplyBytes(Lanes lanes) {
  struct Operands {
    uint8_t a[4][4];
    int8_t b[2][4];
    int32_t c[4];
  };
  int32_t a[16][32], b[32][8];
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    const Operands &operands = *static_cast<const Operands *>(lanes(lane).arguments);
    unsigned group = lane / 4, first = lane % 4 * 4;
    for (unsigned i = 0; i < 4; ++i) {
      for (unsigned word = 0; word < 4; ++word) {
        a[group + word % 2 * 8][first + word / 2 * 16 + i] = operands.a[word][i];
      }
      for (unsigned word = 0; word < 2; ++word) {
        b[first + word * 16 + i][group] = operands.b[word][i];
      }
    }
  }
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    const Operands &operands = *static_cast<const Operands *>(lanes(lane).arguments);
    for (unsigned i = 0; i < 4; ++i) {
      unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      int32_t sum = operands.c[i];
      for (unsigned k = 0; k < 32; ++k) {
        sum += a[row][k] * b[k][column];
      }
      static_cast<int32_t *>(lanes(lane).result)[i] = sum;
    }
  }
}

} // namespace tenon::codegen::cuda
