// How far two tensors of one type and shape lie apart: what the proof of batches and a shadow's
// outputs are compared by.

#pragma once

#include "runtime/tensors/Tensor.h"

namespace tenon::server {

struct TensorDifference {
  bool isAny = false; ///< some bit differs
  /// Between two elements; infinite where one of them is not a number or infinite, and for types
  /// that are not numbers. Two that are not numbers are equal.
  double largest = 0;
};

TensorDifference differenceOf(const Tensor &a, const Tensor &b);

} // namespace tenon::server
