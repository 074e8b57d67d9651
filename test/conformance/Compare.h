// Whether a tensor is what a test case expects, by ONNX's rule: |got - want| <= atol + rtol *
// |want|.

#pragma once

#include "runtime/tensors/Tensor.h"

#include <string>

namespace tenon::conformance {

struct Tolerance {
  double relative = 1e-3;
  double absolute = 1e-7;
};

/// Empty when they agree, else the first difference in words. NaN equals NaN; types that are not
/// numeric are compared byte by byte.
std::string firstDifference(const Tensor &got, const Tensor &want, const Tolerance &tolerance);

} // namespace tenon::conformance
