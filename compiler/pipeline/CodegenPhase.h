// Runs codegen for a dispatched module: each different region once a target, in parallel, through
// the compile cache. Relies on CodeTarget's functions being pure, so results do not depend on
// threads or order.
#pragma once

#include "compiler/pipeline/CodeTarget.h"
#include "compiler/plan/BuildPlan.h"
#include "support/Result.h"

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tenon::pipeline {

struct CompiledRegions {
  /// By region in the order of the module.
  std::vector<llvm::SmallVector<mlir::AffineExpr>> regionSymbols;
  /// By target, as asked for.
  std::vector<plan::LevelCode> levels;
  std::vector<std::string> code;
  uint64_t regions = 0;
  uint64_t uniqueRegions = 0;
  /// The symbol and text of each different region, for dumps.
  std::vector<std::string> symbols;
  std::vector<std::string> texts;
  /// Machine code of the first object, for a GPU; empty where the driver makes it.
  std::vector<std::byte> cubin;
};

struct CodegenOptions {
  std::vector<CodeTarget> targets;
  unsigned threads = 2;
  const CompileCache *cache = nullptr;
  /// Told the fraction done, from the calling thread; may be null.
  std::function<void(double fraction)> progress;
  /// Set to take no further region; may be null.
  const std::atomic<bool> *cancel = nullptr;
  /// Given the text of the region that could not be compiled; may be null.
  std::function<void(std::string text)> failed;
};

/// An error when the flag is set; it may be null.
Status checkCancelled(const std::atomic<bool> *cancel);

Result<CompiledRegions> compileRegions(mlir::ModuleOp module, const CodegenOptions &options);

/// Each region by itself for the only target, in the order of the module, linked into an object of
/// its own; or why there is no code for it.
Result<std::vector<Result<CompiledRegions>>> compileRegionsApart(mlir::ModuleOp module,
                                                                 const CodegenOptions &options);

/// Compiles the text of one region, the module `region`, and nothing else: a reproducer.
Status compileRegionText(std::string_view text, mlir::ModuleOp region,
                         llvm::ArrayRef<CodeTarget> targets);
/// Whether a module is the text of a region, as codegen takes it.
bool isRegionText(mlir::ModuleOp module);

} // namespace tenon::pipeline
