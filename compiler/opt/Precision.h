// What FP32 values become where that is safe. Free of MLIR.
#pragma once

#include <optional>
#include <string_view>

namespace tenon::opt {

/// Fp8 is Fp16 of which products may be of 8-bit floats (Float8Products.h).
enum class Precision { Fp16, Bf16, Fp8 };

/// As `--precision` takes it.
inline const char *nameOf(Precision precision) {
  return precision == Precision::Fp16 ? "fp16" : precision == Precision::Bf16 ? "bf16" : "fp8";
}

/// None, the model's own types, for every other name.
inline std::optional<Precision> parsePrecision(std::string_view name) {
  for (Precision precision : {Precision::Fp16, Precision::Bf16, Precision::Fp8}) {
    if (name == nameOf(precision)) {
      return precision;
    }
  }
  return std::nullopt;
}

} // namespace tenon::opt
