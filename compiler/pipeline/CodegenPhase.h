// Runs codegen for a dispatched module: each different region once a level, in parallel, through
// the compile cache. Relies on compileRegion being pure, so results do not depend on threads or
// order.
#pragma once

#include "compiler/pipeline/CompileCache.h"
#include "compiler/plan/BuildPlan.h"
#include "engine/CpuLevel.h"
#include "support/Result.h"

#include <functional>

namespace tenon::pipeline {

struct CompiledRegions {
  /// By region in the order of the module.
  std::vector<llvm::SmallVector<mlir::AffineExpr>> regionSymbols;
  /// By level, as asked for.
  std::vector<plan::LevelKernels> levels;
  std::vector<std::string> code;
  uint64_t regions = 0;
  uint64_t uniqueRegions = 0;
  /// The text of each different region, for dumps.
  std::vector<std::string> texts;
};

struct CodegenOptions {
  std::vector<engine::CpuLevel> levels;
  unsigned threads = 2;
  const CompileCache *cache = nullptr;
  /// Told the fraction done, from the calling thread; may be null.
  std::function<void(double fraction)> progress;
};

Result<CompiledRegions> compileRegions(mlir::ModuleOp module, const CodegenOptions &options);

} // namespace tenon::pipeline
