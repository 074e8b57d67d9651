// Lets kernels tell what failed in them, as engine/KernelAbi.h says.
#pragma once

#include "compiler/codegen/cuda/base/Region.h"

namespace tenon::codegen::cuda {

/// Replaces every tn.require in the kernels of a region, whose math is expanded. A kernel with some
/// gets one argument more, and the steps that launch it say so.
void reportFailures(RegionBuilder &region);

} // namespace tenon::codegen::cuda
