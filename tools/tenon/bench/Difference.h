// How far the outputs of two kernels of one region are apart.

#pragma once

#include "tools/tenon/bench/Runner.h"

namespace tenon::tool {

/// After runs on equal inputs: the largest difference of an element, as a part of the largest
/// element of that output; infinite where only one is finite. Outputs that are no numbers do not
/// count.
double differenceOfOutputs(const Runner &runner, const Runner &reference);
/// What kernels of one region may differ by so, in other roundings and orders of sums, by the types
/// of its outputs.
double largestRounding(const Runner &runner);

} // namespace tenon::tool
