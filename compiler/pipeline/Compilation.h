// One compilation: a module on its way through the phases, and what each leaves for those behind
// it. Internal to the pipeline; Pipeline.h is the interface. Pipeline.cpp has the phases,
// Compilation.cpp what runs them.
#pragma once

#include "compiler/frontend/common/Import.h"
#include "compiler/opt/ConvertPrecision.h"
#include "compiler/opt/Passes.h"
#include "compiler/pipeline/CodegenPhase.h"
#include "compiler/pipeline/LevelRecords.h"
#include "compiler/pipeline/ModelKey.h"
#include "compiler/pipeline/NumericCheck.h"
#include "compiler/pipeline/PhaseDump.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/pipeline/ProductPrices.h"
#include "compiler/pipeline/UserPasses.h"
#include "compiler/plan/BuildPlan.h"
#include "engine/Writer.h"
#include "mlir/IR/BuiltinOps.h"

#include <deque>
#include <list>
#include <optional>
#include <string>
#include <vector>

namespace tenon::pipeline {

/// What shares regions and plan: CPU levels that get the same kernels, or one GPU architecture.
/// From dispatch on each has its own copy of the module.
struct TargetGroup {
  TargetGroup(const target::Target &decidingTarget, uint16_t deviceId,
              std::vector<CodeTarget> codeTargets)
      : profile(decidingTarget), device(deviceId), targets(std::move(codeTargets)) {}

  target::Target profile;
  uint16_t device;
  std::vector<CodeTarget> targets;
  /// Whether these are levels of another group for which other products are faster in FP32.
  bool isSplitOff = false;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  dispatch::Records fusion;
  opt::PrecisionRecord precision;
  CompiledRegions compiled;
  plan::BuiltPlan built;
};

/// More may be added while the others are in use.
std::deque<TargetGroup> targetGroups(const CompileOptions &options,
                                     const codegen::cpu::KernelFamilies &families);

/// The weights of an engine, which all its plans share.
struct EngineWeights {
  tn::WeightStore store;
  plan::WeightTable table{store};
};

class Compilation {
public:
  Compilation(const CompileOptions &compileOptions, const CompileHooks &compileHooks,
              const CompileCache &compileCache, const ModelIdentity &modelIdentity,
              EngineWeights &engineWeights);

  /// Runs phase after phase up to the last one asked for.
  Status run();
  /// After a fault: the text of the region that could not be compiled, or empty.
  const std::string &failedRegion() const { return regionText; }
  /// After a fault: the phase in which it came.
  Phase lastPhase() const { return phase; }
  /// After a fault: whether objects may be damaged.
  bool isDamaged() const { return crashed; }
  /// The module of the last phase.
  std::string text() const {
    return printModule(phase, phase < Phase::Dispatch ? *module : *groups.front().module);
  }

  CompileSummary summary;

private:
  Status importModel();
  Status normalize();
  Status optimize();
  Status runUserPasses();
  Status convertPrecision();
  Status cutForRanks();
  /// Whether logits are to have the same bits on 1, 2 and 4 ranks.
  bool keepsSums() const;
  Status cutMatrices();
  Status cutStages();
  void addLevels(TargetGroup &group, const ProductPrices &prices) const;
  void splitLevels(TargetGroup &group, const ProductPrices &prices);
  Status useFloat8(TargetGroup &group);
  bool hasRoundedRows(const TargetGroup &group, const CodeTarget &target) const;
  Status roundActivations(TargetGroup &group);
  Status dispatch();
  static void noteApproximations(TargetGroup &group);
  Status selectKernels(TargetGroup &group, KernelSelector &selector, LevelRecords &others);
  Status codegen();
  Status plan();
  /// Whether a plan has buffers that a session keeps between runs.
  bool hasState() const;
  Status planForSizes();
  std::string rowsRecord() const;
  Status exportEngine();
  Status addVariants(engine::EngineContent &content,
                     std::deque<std::vector<std::byte>> &cubins) const;

  Status start(LoadedPhase loaded);
  Status compileRegionAlone(const LoadedPhase &loaded);
  Status oneGroup() const;
  Status finishModulePhase();
  Status checkNumbers(llvm::StringRef pass, mlir::ModuleOp checked);
  void report(Phase phase, double fraction) const;

  const CompileOptions &options;
  const CompileHooks &hooks;
  const CompileCache &cache;
  const ModelIdentity &identity;
  tn::WeightStore &weights;
  plan::WeightTable &table;
  EngineWeights &engineWeights;
  mlir::MLIRContext context;
  PhaseDump dump;
  /// Up to optimize; the groups go on with their own.
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<frontend::Asset> assets; ///< of the model
  UserPasses userPasses{options, weights};
  std::optional<NumericCheck> numbers;
  opt::PrecisionRecord precision; ///< of the model, before its groups
  std::deque<TargetGroup> groups;
  /// The compilations for the sizes of `optimizeFor`, and their options.
  std::list<CompileOptions> narrowed;
  std::list<Compilation> forSizes;
  Phase phase = Phase::Import;
  std::string regionText;
  bool crashed = false;
};

} // namespace tenon::pipeline
