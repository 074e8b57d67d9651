// Lays out the arena by the offset planner that the runtime uses too.
// Relies on the lives that the plan builder set.
#include "compiler/plan/Arena.h"

#include "support/Check.h"
#include "support/memory/OffsetPlanner.h"

#include <algorithm>

namespace tenon::plan {
namespace {

/// Values of symbols: `wanted`, or the nearest that is allowed.
std::vector<int64_t> symbolsAt(const engine::Plan &plan, int64_t wanted) {
  std::vector<int64_t> symbols;
  for (const engine::Symbol &symbol : plan.symbols) {
    std::optional<int64_t> bound = symbol.isDataDependent()
                                       ? engine::evaluate(plan.exprs.program(symbol.bound), symbols)
                                       : wanted;
    symbols.push_back(std::clamp(bound.value_or(symbol.max), symbol.min, symbol.max));
  }
  return symbols;
}

/// On a GPU: with less between the uses of memory the two queues of a section share it.
constexpr uint32_t kRestingInstructions = 6;
/// Of buffers on a GPU whose arena is laid out at run time, and for what size decisions are taken.
constexpr int64_t kGpuAlignment = 256, kCommonSize = 128;

ArenaSummary layOut(const engine::Plan &plan, int64_t wanted, int64_t alignment) {
  ArenaSummary summary;
  summary.symbols = symbolsAt(plan, wanted);
  summary.isStatic = true;
  summary.sizes.assign(plan.buffers.size(), -1);
  summary.offsets.assign(plan.buffers.size(), -1);
  std::vector<size_t> roots;
  std::vector<PlannedBuffer> planned;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const engine::Buffer &buffer = plan.buffers[i];
    if (buffer.space != engine::Space::Arena || buffer.aliasOf != engine::kNone) {
      continue;
    }
    summary.isStatic &= plan.exprs.constantValue(buffer.size).has_value();
    std::optional<int64_t> size =
        engine::evaluate(plan.exprs.program(buffer.size), summary.symbols);
    TENON_CHECK(size && (*size >= 0 || !plan.exprs.constantValue(buffer.size)),
                "a buffer has a size at the smallest shape");
    // Sizes of symbols may contradict a constraint between them, and no run has them.
    size = std::max<int64_t>(*size, 0);
    roots.push_back(i);
    planned.push_back({.lower = buffer.firstUse,
                       .upper = static_cast<int64_t>(buffer.lastUse) + 1,
                       .size = *size});
  }
  OffsetPlan result =
      OffsetPlanner().plan(planned, {.alignment = alignment, .rest = plan.restingInstructions});
  for (size_t i = 0; i < roots.size(); ++i) {
    summary.sizes[roots[i]] = planned[i].size;
    summary.offsets[roots[i]] = planned[i].offset;
  }
  summary.bytes = result.bytes;
  summary.lowerBound = result.lowerBound;
  return summary;
}

} // namespace

ArenaSummary layOutArena(engine::Plan &plan) {
  bool isOnGpu = plan.instructions.front().device == engine::kGpu;
  plan.restingInstructions = isOnGpu ? kRestingInstructions : 0;
  ArenaSummary summary = layOut(plan, 0, engine::kBufferAlignment);
  plan.arenaBytes = summary.isStatic ? summary.bytes : 0;
  for (size_t i = 0; i < plan.buffers.size() && summary.isStatic; ++i) {
    engine::Buffer &buffer = plan.buffers[i];
    buffer.offset = summary.offsets[i] < 0 ? buffer.offset : summary.offsets[i];
  }
  return summary;
}

ArenaSummary layOutCommon(const engine::Plan &plan) {
  bool isPlanned = std::ranges::any_of(plan.buffers, [](const engine::Buffer &buffer) {
    return buffer.space == engine::Space::Arena && buffer.offset != engine::kPlannedAtRunTime;
  });
  if (!isPlanned) {
    return layOut(plan, kCommonSize, kGpuAlignment);
  }
  ArenaSummary summary;
  summary.symbols = symbolsAt(plan, kCommonSize);
  for (const engine::Buffer &buffer : plan.buffers) {
    summary.offsets.push_back(buffer.offset);
  }
  return summary;
}

} // namespace tenon::plan
