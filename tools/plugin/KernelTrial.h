// Calls of the user's kernels in a process of their own, so that a fault of theirs is a message.
#pragma once

#include "compiler/kernels/Library.h"

namespace tenon::tool {

/// Makes the calls of a trial, on buffers between guard pages. TN0309 if this machine does not run
/// the level, TN0410 for an access outside the buffers, TN0412 for a crash or no end.
Result<kernels::TrialResult> tryKernel(const kernels::Trial &trial);

} // namespace tenon::tool
