// The element types of tensors, as every stage and the engine file name them. The values are stored
// in engine files: add at the end, never renumber.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tenon {

enum class DType : uint8_t {
  F32 = 1,
  F64 = 2,
  F16 = 3,
  BF16 = 4,
  I8 = 5,
  I16 = 6,
  I32 = 7,
  I64 = 8,
  U8 = 9,
  U16 = 10,
  U32 = 11,
  U64 = 12,
  Bool = 13,
  F8E4M3FN = 14,
  F8E4M3FNUZ = 15,
  F8E5M2 = 16,
  F8E5M2FNUZ = 17,
  I4 = 18,
  U4 = 19,
  Complex64 = 20,
  Complex128 = 21,
  F8E8M0 = 22,
  F4E2M1 = 23,
  I2 = 24,
  U2 = 25,
};

inline constexpr uint8_t kLastDType = static_cast<uint8_t>(DType::U2);

/// Whether a stored number names a type.
constexpr bool isDType(uint8_t value) { return value >= 1 && value <= kLastDType; }
/// Bits of one element in memory. Every element has a byte at least: 8 for Bool and for the types
/// of 4 and 2 bits, whose element is in the low bits of its byte.
unsigned bitWidth(DType type);
/// Bits of the value itself: 4 for I4, U4 and F4E2M1, 2 for I2 and U2, else those in memory. ONNX
/// files hold the elements of such types close together, the first in the lowest bits.
unsigned valueBits(DType type);
/// Natural alignment of an element in bytes.
unsigned alignmentOf(DType type);
/// A type that is only stored, moved and converted: floats of 8 bits and less, integers of 4 and
/// less.
bool isLowBit(DType type);
/// "f32", "bf16", "i64", "bool", "f8e4m3fn", ...
std::string_view nameOf(DType type);
std::optional<DType> parseDType(std::string_view name);

} // namespace tenon
