// Implements the comparison of outputs with those that a test case expects.

#include "test/conformance/Compare.h"

#include "support/Shape.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace tenon::conformance {
namespace {

bool agree(double got, double want, const Tolerance &tolerance) {
  if (std::isnan(got) || std::isnan(want)) {
    return std::isnan(got) && std::isnan(want);
  }
  if (std::isinf(got) || std::isinf(want)) {
    return got == want;
  }
  return std::abs(got - want) <= tolerance.absolute + tolerance.relative * std::abs(want);
}

} // namespace

std::string firstDifference(const Tensor &got, const Tensor &want, const Tolerance &tolerance) {
  if (got.dtype != want.dtype) {
    return fmt::format("type {} instead of {}", nameOf(got.dtype), nameOf(want.dtype));
  }
  if (got.dims != want.dims) {
    return fmt::format("dims {} instead of {}", formatDims(got.dims), formatDims(want.dims));
  }
  if (!isNumeric(got.dtype)) {
    bool isEqual = want.data.size() == 0 ||
                   std::memcmp(got.data.data(), want.data.data(), want.data.size()) == 0;
    return isEqual ? "" : "the bytes differ";
  }
  int64_t wrong = 0;
  std::string first;
  for (int64_t i = 0; i < want.elements(); ++i) {
    double left = elementAsDouble(got, i);
    double right = elementAsDouble(want, i);
    if (!agree(left, right, tolerance) && wrong++ == 0) {
      first = fmt::format("element {} is {:g} instead of {:g}", i, left, right);
    }
  }
  return wrong == 0 ? "" : fmt::format("{} ({} of {} differ)", first, wrong, want.elements());
}

} // namespace tenon::conformance
