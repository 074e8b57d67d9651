// Builds the execution plan: order, buffers, sizes and instructions, with the records "memory" and
// "placement". Relies on dispatched `tn` (tn.region, reshapes, weights, constants, packs) and on
// the kernels of its regions.
#pragma once

#include "compiler/plan/Weights.h"
#include "engine/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "support/Result.h"

#include <string>
#include <vector>

namespace tenon::plan {

/// The kernel of one region at one level.
struct RegionKernel {
  uint32_t kernel = engine::kNone; ///< index in the variant's kernels
  /// Over the region's symbols.
  std::vector<engine::ExprTerm> grid;
  std::vector<engine::ExprTerm> scratch;
};

/// One variant: its level and kernels, by region in the order of the module.
struct LevelKernels {
  std::string level;
  std::vector<std::string> symbols;
  std::vector<RegionKernel> regions;
};

struct PlanRequest {
  mlir::ModuleOp module;
  /// The model's expressions behind each region's symbols, by region in the order of the module.
  std::vector<llvm::SmallVector<mlir::AffineExpr>> regionSymbols;
  std::vector<LevelKernels> levels;
};

struct BuiltPlan {
  std::vector<engine::Variant> variants;
  std::string memoryRecord;
  std::string placementRecord;
  /// At the smallest declared shape.
  int64_t arenaBytes = 0;
  int64_t arenaLowerBound = 0;
};

/// `weights` gets every array that the plan reads.
Result<BuiltPlan> buildPlan(const PlanRequest &request, WeightTable &weights);

/// The plan as text, for people and for `--dump-phases`.
std::string printPlan(const engine::Variant &variant, llvm::ArrayRef<engine::Weight> weights);

} // namespace tenon::plan
