// Codes by their definitions (OCP's formats of 8 and 4 bits, and the FNUZ variants): sign,
// exponent, fraction. Relies on doubles holding every number of every type, so that the nearest one
// is found by comparing.
#include "compiler/reference/LowBits.h"

#include <cmath>
#include <limits>

namespace tenon::reference {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A float of a sign, exponent and fraction.
struct Format {
  int fraction;
  int bias;
  int largest;          ///< the code of the largest finite number
  int overflow;         ///< the code of what is larger, without a sign
  int nan;              ///< the code of NaN
  bool isSigned = true; ///< zero and NaN have a sign
  int signBit = 0x80;
};

Format formatOf(DType type) {
  switch (type) {
  case DType::F8E4M3FN:
    return {3, 7, 0x7E, 0x7F, 0x7F};
  case DType::F8E4M3FNUZ:
    return {3, 8, 0x7F, 0x80, 0x80, false};
  case DType::F8E5M2:
    return {2, 15, 0x7B, 0x7C, 0x7E};
  case DType::F8E5M2FNUZ:
    return {2, 16, 0x7F, 0x80, 0x80, false};
  default:
    // Four bits have neither: what is too large is the largest, NaN becomes minus zero.
    return {1, 1, 0x7, 0x7, 0x8, false, 0x8};
  }
}

/// Of a code without a sign.
double magnitudeOf(const Format &format, int code) {
  int one = 1 << format.fraction;
  int exponent = code / one;
  double fraction = double(code % one) / one;
  return exponent == 0 ? std::ldexp(fraction, 1 - format.bias)
                       : std::ldexp(1 + fraction, exponent - format.bias);
}

double floatNumber(DType type, uint8_t byte) {
  Format format = formatOf(type);
  int code = byte & (2 * format.signBit - 1);
  int magnitude = code & (format.signBit - 1);
  bool isFnuz = type == DType::F8E4M3FNUZ || type == DType::F8E5M2FNUZ;
  if (isFnuz ? code == format.nan : type != DType::F4E2M1 && magnitude > format.largest) {
    bool isInfinite = type == DType::F8E5M2 && magnitude == format.overflow;
    return isInfinite ? (code & format.signBit ? -kInfinity : kInfinity) : kNan;
  }
  double number = magnitudeOf(format, magnitude);
  return code & format.signBit ? -number : number;
}

uint8_t floatCode(DType type, double number, bool saturate) {
  Format format = formatOf(type);
  int sign = std::signbit(number) ? format.signBit : 0;
  if (std::isnan(number)) {
    return uint8_t(format.isSigned ? format.nan | sign : format.nan);
  }
  double magnitude = std::fabs(number);
  // The codes without a sign count up the magnitudes; one more stands for what rounds beyond.
  int code = 0;
  while (code <= format.largest && magnitudeOf(format, code + 1) <= magnitude) {
    ++code;
  }
  double below = magnitudeOf(format, code), above = magnitudeOf(format, code + 1);
  bool isNearer = magnitude - below > above - magnitude;
  bool isTie = magnitude - below == above - magnitude;
  code += isNearer || (isTie && code % 2 == 1);
  if (code > format.largest) {
    code = saturate ? format.largest : format.overflow;
  }
  bool hasSign = format.isSigned || type == DType::F4E2M1 || (code != 0 && code != format.nan);
  return uint8_t(hasSign ? code | sign : code);
}

/// A power of two: only the exponent, 0xFF is NaN. The sign is dropped.
uint8_t powerCode(double number, LowBitRounding rounding) {
  constexpr int kMax = 127, kNanCode = 0xFF;
  if (std::isnan(number)) {
    return kNanCode;
  }
  double magnitude = std::fabs(number);
  int exponent = magnitude == 0 ? -1000 : std::isinf(magnitude) ? 1000 : std::ilogb(magnitude);
  double part = std::abs(exponent) == 1000 ? 1 : std::ldexp(magnitude, -exponent);
  exponent += rounding.round == "up" ? part > 1 : rounding.round == "nearest" ? part >= 1.5 : 0;
  if (exponent < -kMax || exponent > kMax) {
    return uint8_t(!rounding.saturate ? kNanCode : exponent < 0 ? 0 : 2 * kMax);
  }
  return uint8_t(exponent + kMax);
}

} // namespace

double lowBitNumber(DType type, uint8_t code) {
  switch (type) {
  case DType::I4:
    return (code & 7) - (code & 8);
  case DType::U4:
    return code & 15;
  case DType::I2:
    return (code & 1) - (code & 2);
  case DType::U2:
    return code & 3;
  case DType::F8E8M0:
    return code == 0xFF ? kNan : std::ldexp(1.0, code - 127);
  default:
    return floatNumber(type, code);
  }
}

uint8_t lowBitCode(DType type, double number, LowBitRounding rounding) {
  switch (type) {
  case DType::I4:
  case DType::U4:
  case DType::I2:
  case DType::U2: {
    // NaN fails the comparison too.
    bool holds = std::fabs(number) < 2147483648.0;
    return uint8_t((holds ? int64_t(number) : 0) & ((1 << valueBits(type)) - 1));
  }
  case DType::F8E8M0:
    return powerCode(number, rounding);
  default:
    return floatCode(type, number, rounding.saturate);
  }
}

Result<Tensor> decode(const Tensor &codes) {
  TENON_ASSIGN(Tensor numbers, Tensor::create(DType::F64, codes.dims()));
  for (int64_t i = 0; i < codes.count(); ++i) {
    numbers.as<double>()[i] = lowBitNumber(codes.dtype(), codes.as<uint8_t>()[i]);
  }
  return numbers;
}

Result<Tensor> encode(const Tensor &numbers, DType type, LowBitRounding rounding) {
  TENON_ASSIGN(Tensor codes, Tensor::create(type, numbers.dims()));
  bool wraps = valueBits(type) < 8 && type != DType::F4E2M1;
  TENON_TRY(visitElement(numbers.dtype(), [&](auto from) {
    using From = typename decltype(from)::Type;
    for (int64_t i = 0; i < numbers.count(); ++i) {
      Wide<From> wide = widen(numbers.as<From>()[i]);
      if constexpr (!kIsFloat<From>) {
        if (wraps) {
          codes.as<uint8_t>()[i] = uint8_t(wide & ((1 << valueBits(type)) - 1));
          continue;
        }
      }
      codes.as<uint8_t>()[i] = lowBitCode(type, double(wide), rounding);
    }
    return Status::ok();
  }));
  return codes;
}

} // namespace tenon::reference
