// Builds the execution plan: order, buffers, sizes and instructions, with the records "memory" and
// "placement". Relies on dispatched `tn` (tn.region, reshapes, weights, constants, packs) and on
// the code of its regions.
#pragma once

#include "compiler/codegen/common/region/RegionCode.h"
#include "compiler/plan/Weights.h"
#include "compiler/target/Target.h"
#include "engine/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "support/Result.h"

#include <string>
#include <vector>

namespace tenon::plan {

/// One variant: its level, the kernels of its code, and the code of each region in the order of the
/// module.
struct LevelCode {
  std::string level;
  std::vector<std::string> kernels;
  std::vector<codegen::RegionCode> regions;
};

struct PlanRequest {
  mlir::ModuleOp module;
  /// The model's expressions behind each region's symbols, by region in the order of the module.
  std::vector<llvm::SmallVector<mlir::AffineExpr>> regionSymbols;
  /// Their regions have the same steps, buffers and temporaries: one plan serves all.
  std::vector<LevelCode> levels;
  /// engine::kHost or engine::kGpu.
  uint16_t device = engine::kHost;
  /// What decides which instructions run beside others; without, none do. Of a GPU.
  const target::Target *target = nullptr;
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
