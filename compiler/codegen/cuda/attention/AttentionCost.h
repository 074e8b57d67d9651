// What attention kernels are predicted to take. Relies on the rates of the target; sizes that vary
// count as 128.
#pragma once

#include "compiler/codegen/cuda/attention/AttentionKernels.h"
#include "compiler/codegen/cuda/attention/AttentionStream.h"

namespace tenon::codegen::cuda {

/// From the end of the kernel before.
dispatch::TimeParts timeOf(const AttentionProblem &problem, const AttentionTile &tile,
                           const target::Target &gpu);
dispatch::TimeParts timeOf(const AttentionProblem &problem, const StreamLayout &layout,
                           const target::Target &gpu);
dispatch::TimeParts timeOf(const AttentionProblem &problem, const SimtTile &tile,
                           const target::Target &gpu);

/// Seconds of any of these.
template <typename Layout>
double costOf(const AttentionProblem &problem, const Layout &layout, const target::Target &gpu) {
  return timeOf(problem, layout, gpu).microseconds() * 1e-6;
}

} // namespace tenon::codegen::cuda
