// The element types that are only stored and converted: floats of 8 bits and less, integers of 4
// and less. Relies on nothing but the formats' definitions: a code means a number, a number takes
// the nearest code.
#pragma once

#include "compiler/reference/Tensor.h"

#include <string_view>

namespace tenon::reference {

/// How a number becomes a code: the attributes of tn.encode.
struct LowBitRounding {
  bool saturate = true;
  std::string_view round = "up"; ///< for f8e8m0
};

/// The number that a code (one element's byte) stands for; bits above the element's are ignored.
double lowBitNumber(DType type, uint8_t code);
/// The code for a number: floats round to nearest even, integers wrap (0 beyond 32 bits).
uint8_t lowBitCode(DType type, double number, LowBitRounding rounding = {});

/// The numbers of a tensor of codes, as f64; and the codes of a tensor of numbers.
Result<Tensor> decode(const Tensor &codes);
Result<Tensor> encode(const Tensor &numbers, DType type, LowBitRounding rounding = {});

} // namespace tenon::reference
