// Binds the plan as a session does, and counts what the devices' executors reserve for it.
#include "runtime/core/MemoryForecast.h"

#include "engine/KernelAbi.h"
#include "engine/PortRanges.h"
#include "runtime/device/cuda/CudaPlanPart.h"
#include "runtime/device/cuda/CudaVariant.h"
#include "runtime/plan/Branches.h"
#include "support/threads/ThreadPool.h"

#include <algorithm>
#include <set>

namespace tenon::runtime {

using engine::Plan;
using engine::Space;

namespace {

constexpr uint64_t kPageBytes = 4096;

uint64_t rounded(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

/// The plan with ranges that take these dims.
Plan widened(const Plan &plan, const FlatDims &dims) {
  Plan wide = plan;
  size_t next = 0;
  for (size_t input = 0; input < plan.inputs.size(); ++input) {
    for (size_t dim = 0; dim < plan.inputs[input].dims.size(); ++dim, ++next) {
      for (engine::Symbol &symbol : wide.symbols) {
        if (!symbol.isDataDependent() && symbol.input == input && symbol.dim == dim) {
          symbol.max = std::max(symbol.max, dims[next]);
          symbol.min = std::min(symbol.min, dims[next]);
        }
      }
    }
  }
  return wide;
}

} // namespace

MemoryForecast::MemoryForecast(const engine::EngineFile &engineFile, size_t index,
                               unsigned ofThreads)
    : file(engineFile), variant(engineFile.variants()[index]),
      threads(ofThreads == 0 ? usableCpus() : ofThreads) {}

Result<MemoryUse> MemoryForecast::of(const FlatDims &dims,
                                     std::span<const SymbolValue> symbols) const {
  bool isGpu = variant.architecture == engine::Architecture::Nvptx;
  int64_t alignment = isGpu ? cuda::kDeviceAlignment : engine::kBufferAlignment;
  Plan plan = widened(variant.plan, dims);
  OffsetPlanner planner;
  TENON_ASSIGN(std::vector<int64_t> session, sessionValues(plan, symbols));
  TENON_ASSIGN(BoundPlan bound, BoundPlan::bind(plan, session, dims, alignment, planner));
  MemoryUse use;
  uint64_t stateOfAll = 0;
  for (uint32_t stage = 0; stage < plan.stages; ++stage) {
    TENON_ASSIGN(StateLayout states, layOutState(plan, session, alignment, stage));
    use.stateBytes = std::max(use.stateBytes, states.bytes);
    stateOfAll += states.bytes * plan.ranksOfStage();
  }
  use.arenaBytes = static_cast<uint64_t>(bound.arenaBytes);
  std::set<uint32_t> weights;
  for (const engine::Buffer &buffer : plan.buffers) {
    if (isRootOf(buffer, Space::Const) && weights.insert(buffer.weight).second) {
      const engine::Weight &weight = file.weights()[buffer.weight];
      use.weightBytes += rounded(isGpu ? weight.bytes : weight.bytesOfAll(), alignment);
    }
  }
  if (!isGpu) {
    // Of all ranks, whose memory is one.
    uint64_t ranks = plan.ranks;
    uint64_t threadsOfRank = std::max<uint64_t>(1, threads / ranks);
    use.scratchBytes =
        rounded(static_cast<uint64_t>(bound.scratchBytes), kPageBytes) * threadsOfRank * ranks;
    use.arenaBytes *= ranks;
    for (int64_t bytes : bound.outputBytes) {
      use.portBytes += static_cast<uint64_t>(bytes) * (ranks - 1); // which all but the first keep
    }
    use.stateBytes = stateOfAll;
    return use;
  }
  bool hasCalls = std::ranges::any_of(bound.steps, [](const BoundStep &step) {
    return step.kind == engine::InstructionKind::Call;
  });
  uint64_t queues = sectionsOf(plan, bound).empty() ? 1 : 2;
  use.workspaceBytes = hasCalls ? queues * cuda::kWorkspaceBytes : 0;
  for (const std::vector<int64_t> *ports : {&bound.inputBytes, &bound.outputBytes}) {
    for (int64_t bytes : *ports) {
      use.portBytes += std::max(static_cast<uint64_t>(bytes), cuda::kSlackBytes);
    }
  }
  return use;
}

int64_t MemoryForecast::mostOf(size_t input, size_t dim) const {
  return engine::rangesOf(variant.plan, variant.plan.inputs[input]).most[dim];
}

} // namespace tenon::runtime
