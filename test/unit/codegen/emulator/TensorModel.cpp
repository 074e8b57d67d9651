// Products by the definitions of fragments in the PTX manual, all lanes' parts at once.
#include "test/unit/codegen/emulator/TensorModel.h"

#include "llvm/ADT/STLFunctionalExtras.h"

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

/// Fragments as TensorCore.h and the manual (sections mma.m16n8k16 and mma.m16n8k32) have them:
/// words that hold kPerWord elements of A and B each, widened by `ofA` and `ofB` to the type of the
/// sums.
template <unsigned kPerWord, typename A, typename B, typename Sum>
static void multiplyFragments(Lanes lanes, llvm::function_ref<Sum(A)> ofA,
                              llvm::function_ref<Sum(B)> ofB) {
  struct Operands {
    A a[4][kPerWord];
    B b[2][kPerWord];
    Sum c[4];
  };
  constexpr unsigned half = 4 * kPerWord, depth = 2 * half;
  Sum a[16][depth], b[depth][8];
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    const Operands &operands = *static_cast<const Operands *>(lanes(lane).arguments);
    unsigned group = lane / 4, first = lane % 4 * kPerWord;
    for (unsigned i = 0; i < kPerWord; ++i) {
      for (unsigned word = 0; word < 4; ++word) {
        a[group + word % 2 * 8][first + word / 2 * half + i] = ofA(operands.a[word][i]);
      }
      for (unsigned word = 0; word < 2; ++word) {
        b[first + word * half + i][group] = ofB(operands.b[word][i]);
      }
    }
  }
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    const Operands &operands = *static_cast<const Operands *>(lanes(lane).arguments);
    for (unsigned i = 0; i < 4; ++i) {
      unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      Sum sum = operands.c[i];
      for (unsigned k = 0; k < depth; ++k) {
        sum += a[row][k] * b[k][column];
      }
      static_cast<Sum *>(lanes(lane).result)[i] = sum;
    }
  }
}

void multiplyMatrices(Lanes lanes, bool isBrain) {
  auto widen = [&](uint16_t bits) { return fromHalf(bits, isBrain); };
  multiplyFragments<2, uint16_t, uint16_t, float>(lanes, widen, widen);
}

template <typename A> void multiplyBytes(Lanes lanes) {
  multiplyFragments<4, A, int8_t, int32_t>(
      lanes, [](A x) { return int32_t(x); }, [](int8_t x) { return int32_t(x); });
}
template void multiplyBytes<uint8_t>(Lanes lanes);
template void multiplyBytes<int8_t>(Lanes lanes);

} // namespace tenon::codegen::cuda
