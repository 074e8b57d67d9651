// How far the outputs of two kernels of one region are apart.

#pragma once

#include "runtime/tensors/Tensor.h"

#include <vector>

namespace tenon::tool {

/// Of runs on equal inputs: the largest difference of an element, as a part of the largest element
/// of that output; infinite where only one is finite. Outputs that are no numbers do not count.
/// Works on all CPUs.
double differenceOfOutputs(const std::vector<Tensor> &outputs,
                           const std::vector<Tensor> &reference);
/// What kernels of one region may differ by so, in other roundings and orders of sums, by the types
/// of its outputs.
double largestRounding(const std::vector<Tensor> &outputs);

} // namespace tenon::tool
