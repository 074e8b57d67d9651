// Calls of the user's kernels on a GPU, as an engine makes them.
#pragma once

#include "compiler/kernels/Library.h"

namespace tenon::tool {

/// Starts the kernel of a trial on the first GPU, on buffers between canaries. What it reads
/// outside its buffers is not seen, but NaN or large. TN0309 if this machine has no GPU that runs
/// the level, TN0410 for a write outside the buffers or to an input, TN0412 for a fault of the GPU
/// or no end; after a fault the process cannot use the GPU any more, and is to end without more
/// calls of the driver.
Result<kernels::TrialResult> tryKernelOnGpu(const kernels::Trial &trial);

} // namespace tenon::tool
