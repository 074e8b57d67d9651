// Compares tensors by the tolerance of their element type and says where they differ first and
// most. Relies on no order of evaluation; two NaN are equal, as are infinities of one sign.
#pragma once

#include "compiler/reference/Tensor.h"

namespace tenon::reference {

/// Equal if |actual - expected| <= absolute + relative * |expected|.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
};

/// The project's tolerance for results of a type; integers and bools are exact.
Tolerance toleranceOf(DType dtype);

struct Difference {
  int64_t index = 0; ///< in row-major order
  double expected = 0;
  double actual = 0;
};

struct Comparison {
  /// Not empty if the tensors cannot be compared; then nothing else is set.
  std::string mismatch;
  int64_t different = 0;       ///< elements beyond the tolerance
  Difference first;            ///< the first of them
  Difference largest;          ///< the largest difference of all elements, within tolerance or not
  double largestMagnitude = 0; ///< of the finite expected elements

  bool equal() const { return mismatch.empty() && different == 0; }
  /// "3 of 10 elements differ, first at 2: ...". Needs the tensor's dims for positions.
  std::string text(llvm::ArrayRef<int64_t> dims) const;
};

/// The tolerance is that of the coarser of both float types, so a float64 reference can be compared
/// with a float32 result. Other types must be the same.
Comparison compareTensors(const Tensor &expected, const Tensor &actual);
Comparison compareTensors(const Tensor &expected, const Tensor &actual, Tolerance tolerance);

} // namespace tenon::reference
