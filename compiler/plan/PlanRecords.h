// The records "memory" and "placement" (docs/reference/explain.md), written from a finished plan
// and the builder's notes.
#pragma once

#include "compiler/plan/Arena.h"
#include "compiler/plan/Weights.h"
#include "engine/Plan.h"
#include "llvm/ADT/ArrayRef.h"

#include <string>
#include <vector>

namespace tenon::plan {

/// What the plan itself does not say.
struct PlanNotes {
  struct BufferNote {
    std::string value;                ///< what makes it: an input, a weight, a region
    std::vector<std::string> inPlace; ///< regions that write over it
  };
  std::vector<BufferNote> buffers;
  std::vector<std::string> strategies; ///< by instruction
  /// By instruction: the number of its region, which is its place in the records "fusion" and
  /// "graph"; -1 for copies at the end.
  std::vector<int64_t> regions;
};

std::string memoryRecord(const engine::Plan &plan, const ArenaSummary &arena,
                         const PlanNotes &notes, llvm::ArrayRef<engine::Weight> weights,
                         llvm::ArrayRef<WeightForm> forms);
std::string placementRecord(const engine::Variant &variant, const PlanNotes &notes,
                            llvm::ArrayRef<engine::Weight> weights);

} // namespace tenon::plan
