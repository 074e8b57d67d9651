// The user's kernels as the importers take them.
#pragma once

#include "compiler/kernels/Library.h"
#include "compiler/pipeline/CodeTarget.h"

#include <memory>
#include <vector>

namespace tenon::pipeline {

/// The kernels of all libraries, with their references imported; null for no library. TN0307 for a
/// library that code for one of the CPU levels or GPUs cannot hold, TN0306 for a description that
/// says something else than the library.
Result<std::shared_ptr<const kernels::KernelTable>>
kernelTable(const KernelLibraries &libraries, const std::vector<engine::CpuLevel> &levels,
            const std::vector<target::Target> &gpus = {});

} // namespace tenon::pipeline
