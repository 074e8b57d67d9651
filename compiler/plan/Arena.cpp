// Lays out the arena by the offset planner that the runtime uses too.
// Relies on the lives that the plan builder set.
#include "compiler/plan/Arena.h"

#include "support/Check.h"
#include "support/OffsetPlanner.h"

#include <algorithm>

namespace tenon::plan {

ArenaSummary layOutArena(engine::Plan &plan) {
  ArenaSummary summary;
  for (const engine::Symbol &symbol : plan.symbols) {
    std::optional<int64_t> bound =
        symbol.isDataDependent()
            ? engine::evaluate(plan.exprs.program(symbol.bound), summary.symbols)
            : symbol.min;
    summary.symbols.push_back(std::clamp(bound.value_or(symbol.max), symbol.min, symbol.max));
  }
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
    // The least sizes of symbols may contradict a constraint between them, and no run has them.
    size = std::max<int64_t>(*size, 0);
    roots.push_back(i);
    planned.push_back({.lower = buffer.firstUse,
                       .upper = static_cast<int64_t>(buffer.lastUse) + 1,
                       .size = *size});
  }
  bool isOnGpu = plan.instructions.front().device == engine::kGpu;
  OffsetPlan result = OffsetPlanner().plan(
      planned, {.alignment = engine::kBufferAlignment,
                .rest = isOnGpu ? engine::kRestingInstructions : 0});
  for (size_t i = 0; i < roots.size(); ++i) {
    summary.sizes[roots[i]] = planned[i].size;
    summary.offsets[roots[i]] = planned[i].offset;
    if (summary.isStatic) {
      plan.buffers[roots[i]].offset = planned[i].offset;
    }
  }
  plan.arenaBytes = summary.isStatic ? result.bytes : 0;
  summary.bytes = result.bytes;
  summary.lowerBound = result.lowerBound;
  return summary;
}

} // namespace tenon::plan
