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

} // namespace

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
