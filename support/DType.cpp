// One table row per element type; everything about a type is read from it.

#include "support/DType.h"

namespace tenon {
namespace {

struct TypeInfo {
  std::string_view name;
  uint8_t bits;
  uint8_t alignment;
};

constexpr TypeInfo kTypes[kLastDType + 1] = {
    {"none", 0, 1},       {"f32", 32, 4},         {"f64", 64, 8},     {"f16", 16, 2},
    {"bf16", 16, 2},      {"i8", 8, 1},           {"i16", 16, 2},     {"i32", 32, 4},
    {"i64", 64, 8},       {"u8", 8, 1},           {"u16", 16, 2},     {"u32", 32, 4},
    {"u64", 64, 8},       {"bool", 8, 1},         {"f8e4m3fn", 8, 1}, {"f8e4m3fnuz", 8, 1},
    {"f8e5m2", 8, 1},     {"f8e5m2fnuz", 8, 1},   {"i4", 8, 1},       {"u4", 8, 1},
    {"complex64", 64, 4}, {"complex128", 128, 8}, {"f8e8m0", 8, 1},   {"f4e2m1", 8, 1},
    {"i2", 8, 1},         {"u2", 8, 1},
};

} // namespace

unsigned bitWidth(DType type) { return kTypes[static_cast<uint8_t>(type)].bits; }

unsigned valueBits(DType type) {
  switch (type) {
  case DType::I4:
  case DType::U4:
  case DType::F4E2M1:
    return 4;
  case DType::I2:
  case DType::U2:
    return 2;
  default:
    return bitWidth(type);
  }
}

bool isLowBit(DType type) {
  return (type >= DType::F8E4M3FN && type <= DType::U4) ||
         (type >= DType::F8E8M0 && type <= DType::U2);
}

unsigned alignmentOf(DType type) { return kTypes[static_cast<uint8_t>(type)].alignment; }

std::string_view nameOf(DType type) { return kTypes[static_cast<uint8_t>(type)].name; }

std::optional<DType> parseDType(std::string_view name) {
  for (uint8_t value = 1; value <= kLastDType; ++value) {
    if (kTypes[value].name == name) {
      return static_cast<DType>(value);
    }
  }
  return std::nullopt;
}

} // namespace tenon
