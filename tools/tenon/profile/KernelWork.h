// What kernels compute where it is other than the model's operations.

#pragma once

#include "tools/tenon/profile/Profile.h"
#include "tools/view/Sizes.h"

namespace tenon::tool {

/// Sets what the kernel of each region computes, and what it would in whole tiles; adds what the
/// graph does not count to operations. After the times of the steps are in.
void countKernelWork(const view::Graph &graph, const view::Sizes &sizes, Profile &profile);

} // namespace tenon::tool
