// What attention kernels are predicted to take. Relies on the rates of the target; sizes that vary
// count as 128.
#pragma once

#include "compiler/codegen/cuda/attention/AttentionKernels.h"
#include "compiler/codegen/cuda/attention/AttentionStream.h"

namespace tenon::codegen::cuda {

/// Seconds, from the end of the kernel before.
double costOf(const AttentionProblem &problem, const AttentionTile &tile,
              const target::Target &gpu);
double costOf(const AttentionProblem &problem, const StreamLayout &layout,
              const target::Target &gpu);
double costOf(const AttentionProblem &problem, const SimtTile &tile, const target::Target &gpu);

} // namespace tenon::codegen::cuda
