// Relies on both having the same outputs.

#include "tools/tenon/bench/Difference.h"

#include <algorithm>
#include <cmath>

namespace tenon::tool {
namespace {

double differenceOf(const Tensor &tensor, const Tensor &reference) {
  double largest = 0, difference = 0;
  for (int64_t i = 0; i < reference.elements(); ++i) {
    double expected = elementAsDouble(reference, i), found = elementAsDouble(tensor, i);
    bool isSame = expected == found || (std::isnan(expected) && std::isnan(found));
    largest = std::isfinite(expected) ? std::max(largest, std::abs(expected)) : largest;
    if (!isSame) {
      double apart = std::abs(expected - found);
      difference = std::max(difference, std::isfinite(apart) ? apart : HUGE_VAL);
    }
  }
  return largest > 0 ? difference / largest : difference;
}

/// A few of the type's steps for numbers; two for codes of 8 bits.
double roundingOf(DType type) {
  switch (type) {
  case DType::F64:
    return 1e-9;
  case DType::F32:
    return 1e-2; // operands may be rounded to TF32, or to 16 bits
  case DType::F16:
    return 1e-2;
  case DType::BF16:
    return 4e-2;
  default:
    return bitWidth(type) <= 8 ? 0.15 : 0;
  }
}

} // namespace

double largestRounding(const Runner &runner) {
  double largest = 0;
  for (const Tensor &output : runner.outputs()) {
    largest = std::max(largest, roundingOf(output.dtype));
  }
  return largest;
}

double differenceOfOutputs(const Runner &runner, const Runner &reference) {
  double largest = 0;
  for (size_t i = 0; i < reference.outputs().size(); ++i) {
    const Tensor &expected = reference.outputs()[i];
    bool isCompared = isNumeric(expected.dtype);
    largest = std::max(largest, isCompared ? differenceOf(runner.outputs()[i], expected) : 0.0);
  }
  return largest;
}

} // namespace tenon::tool
