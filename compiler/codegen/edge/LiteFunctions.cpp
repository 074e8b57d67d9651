// A number with k bits before the point has 31 - k behind it; one is the largest where k is 0.
#include "compiler/codegen/edge/LiteFunctions.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon::codegen::edge {
namespace {

constexpr int32_t kLargest = std::numeric_limits<int32_t>::max();
constexpr int kTotalBits = 31;

/// a * b / 2^31 to nearest, halves upwards.
int32_t times(int32_t a, int32_t b) {
  return static_cast<int32_t>((int64_t{a} * b + (int64_t{1} << 30)) >> kTotalBits);
}

/// a / 2^shift to nearest, halves away from zero.
int32_t smaller(int32_t a, int shift) {
  int32_t mask = static_cast<int32_t>((uint32_t{1} << shift) - 1);
  return (a >> shift) + ((a & mask) > (mask >> 1) + (a < 0 ? 1 : 0) ? 1 : 0);
}

int32_t larger(int32_t a, int shift) {
  return static_cast<int32_t>(std::clamp(int64_t{a} * (int64_t{1} << shift),
                                         int64_t{std::numeric_limits<int32_t>::min()},
                                         int64_t{kLargest}));
}

/// exp(a) for a from -1/4 to 0, both with no bits before the point: a series around -1/8.
int32_t expNearZero(int32_t a) {
  constexpr int32_t kExpOfEighth = 1895147668, kThird = 715827883;
  int32_t x = a + (1 << 28), square = times(x, x);
  int32_t cube = times(square, x), fourth = times(square, square);
  int32_t rest = smaller(times(smaller(fourth, 2) + cube, kThird) + square, 1);
  return kExpOfEighth + times(kExpOfEighth, x + rest);
}

/// exp(a) without bits before the point, for a of at most 0 with `bits` of them.
int32_t expOf(int32_t a, int bits) {
  // exp of -1/4, -1/2, -1, ...
  constexpr std::array<int32_t, 7> kPowers = {1672461947, 1302514674, 790015084, 290630308,
                                              39332535,   720401,     242};
  if (a == 0) {
    return kLargest;
  }
  int behind = kTotalBits - bits;
  int32_t quarter = 1 << (behind - 2);
  int32_t near = (a & (quarter - 1)) - quarter;
  int32_t result = expNearZero(larger(near, bits));
  int32_t rest = near - a;
  for (int i = 0; i < static_cast<int>(kPowers.size()) && bits > i - 2; ++i) {
    if ((rest & (1 << (behind + i - 2))) != 0) {
      result = times(result, kPowers[i]);
    }
  }
  return result;
}

/// 1 / (1 + a) before its last factor of two, with two bits before the point; a is from 0 to 1.
int32_t halfInverse(int32_t a) {
  int32_t half = static_cast<int32_t>((int64_t{a} + kLargest + 1) >> 1);
  int32_t x = 1515870810 + times(half, -1010580540); // 48/17 - 32/17 half
  for (int i = 0; i < 3; ++i) {
    x += larger(times(x, (1 << 29) - times(half, x)), 2);
  }
  return x;
}

int32_t logisticOf(int32_t a) {
  if (a == 0) {
    return 1 << 30;
  }
  int32_t result = larger(halfInverse(expOf(a > 0 ? -a : a, 4)), 1);
  return a > 0 ? result : kLargest - result;
}

int32_t tanhOf(int32_t a) {
  if (a == 0) {
    return 0;
  }
  // 2a with five bits before the point is a with four.
  int32_t result = larger(halfInverse(expOf(a > 0 ? -a : a, 5)) - (1 << 29), 2);
  return a > 0 ? result : -result;
}

struct Factor {
  int32_t value = 0;
  int exponent = 0;
};

Factor factorOf(double factor) {
  Factor made;
  double fraction = std::frexp(factor, &made.exponent);
  int64_t value = std::llround(std::ldexp(fraction, kTotalBits));
  if (value == int64_t{1} << kTotalBits) {
    value /= 2;
    ++made.exponent;
  }
  made.value = static_cast<int32_t>(value);
  if (made.exponent < -kTotalBits) {
    made = {};
  }
  return made;
}

int32_t scaled(int32_t value, const Factor &factor) {
  int32_t whole = value * (1 << std::max(0, factor.exponent));
  return smaller(times(whole, factor.value), std::max(0, -factor.exponent));
}

/// The least distance from which on numbers with `bits` before the point do not hold the product.
int32_t radiusOf(int bits, int exponent) {
  return static_cast<int32_t>(
      std::floor(std::ldexp((1 << bits) - 1, kTotalBits - bits - exponent)));
}

/// A function of numbers with four bits before the point, whose result loses bits.
template <typename Function>
std::optional<LiteTable> tableOf(double scale, int32_t zero, int lost, int32_t added,
                                 Function function) {
  constexpr int kBits = 4;
  Factor factor = factorOf(std::ldexp(scale, kTotalBits - kBits));
  if (factor.exponent < 0 || factor.exponent > 30) {
    return std::nullopt;
  }
  int32_t radius = radiusOf(kBits, factor.exponent);
  LiteTable table{};
  for (int32_t q = -128; q < 128; ++q) {
    int32_t value = q - zero;
    int32_t result = value <= -radius  ? -128
                     : value >= radius ? 127
                                       : smaller(function(scaled(value, factor)), lost) + added;
    table[q + 128] = static_cast<int8_t>(std::clamp(result, -128, 127));
  }
  return table;
}

} // namespace

std::optional<LiteTable> liteLogistic(double scale, int32_t zero) {
  return tableOf(scale, zero, 23, -128, logisticOf);
}

std::optional<LiteTable> liteTanh(double scale, int32_t zero) {
  return tableOf(scale, zero, 24, 0, tanhOf);
}

std::optional<std::array<int32_t, 256>> liteExponentials(double scale) {
  constexpr int kBits = 5;
  Factor factor = factorOf(std::min(std::ldexp(scale, kTotalBits - kBits), double{kLargest}));
  if (factor.exponent < 0 || factor.exponent > 31) {
    return std::nullopt;
  }
  int32_t radius = radiusOf(kBits, factor.exponent);
  std::array<int32_t, 256> powers{};
  for (int32_t d = 0; d < 256; ++d) {
    powers[d] =
        d > radius
            ? 0
            : expOf(times(static_cast<int32_t>(-int64_t{d} * (int64_t{1} << factor.exponent)),
                          factor.value),
                    kBits);
  }
  return powers;
}

namespace {

constexpr int32_t kLargestHalf = 32767;

int32_t heldInHalf(int32_t value) { return std::clamp(value, -kLargestHalf - 1, kLargestHalf); }

/// A factor of 15 bits.
Factor halfFactor(float value) {
  Factor factor = factorOf(static_cast<double>(value));
  factor.value = static_cast<int32_t>(
      std::min((int64_t{factor.value} + (1 << 15)) >> 16, int64_t{kLargestHalf}));
  return factor;
}

/// a * b / 2^15 to nearest, halves upwards.
int32_t timesHalf(int32_t a, int32_t b) { return heldInHalf((a * b + (1 << 14)) >> 15); }

} // namespace

/// In 16 bits: the factor between 0 and 1 is a number that is shifted and held in its range.
std::optional<LiteTable> liteHardSwish(double scale, int32_t zero, double outScale,
                                       int32_t outZero) {
  float fine = (1.0f / 128.0f) * static_cast<float>(scale);
  Factor out = halfFactor(fine / static_cast<float>(outScale));
  Factor gate = halfFactor(fine / (3.0f / 32768.0f));
  if (out.exponent > 0 || out.exponent < -15 || gate.exponent > 15 || gate.exponent < -15) {
    return std::nullopt;
  }
  LiteTable table{};
  for (int32_t q = -128; q < 128; ++q) {
    int32_t x = (q - zero) * 128, open = x;
    if (gate.exponent > 0) {
      open = heldInHalf(open * (1 << (gate.exponent - 1)));
    }
    open = timesHalf(open, gate.value);
    open = gate.exponent > 0 ? heldInHalf(open * 2) : smaller(open, -gate.exponent);
    open = (open + (1 << 15)) >> 1;
    int32_t product = open * timesHalf(x, out.value) / (1 << 15);
    table[q + 128] =
        static_cast<int8_t>(std::clamp(smaller(product, -out.exponent) + outZero, -128, 127));
  }
  return table;
}

int32_t liteScaled(int32_t value, double factor) { return scaled(value, factorOf(factor)); }

} // namespace tenon::codegen::edge
