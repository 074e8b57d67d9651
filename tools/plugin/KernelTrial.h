// Calls of the user's kernels in a process of their own, so that a fault of theirs is a message.
#pragma once

#include "compiler/kernels/Library.h"

#include <functional>

namespace tenon::tool {

/// A function that makes the calls of a trial, on buffers between guard pages or, on a GPU, between
/// canaries. TN0309 if this machine does not run the level, TN0410 for an access outside the
/// buffers, TN0412 for a crash or no end. Its copies share one process on the GPU, for one thread.
std::function<Result<kernels::TrialResult>(const kernels::Trial &)> kernelTrials();

} // namespace tenon::tool
