// Runs the phases of a compilation in order, from a model or from a dumped phase, and contains
// their crashes.
#include "compiler/pipeline/Compilation.h"

#include "compiler/graph/RowIndependence.h"
#include "compiler/graph/Tn.h"
#include "compiler/pipeline/CrashGuard.h"
#include "compiler/pipeline/Reports.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "support/files/AtomicFile.h"
#include "support/files/MappedFile.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::pipeline {

std::deque<TargetGroup> targetGroups(const CompileOptions &options,
                                     const codegen::cpu::KernelFamilies &families) {
  std::deque<TargetGroup> groups;
  for (const std::vector<engine::CpuLevel> &levels : groupsOfLevels(options.levels, families)) {
    std::vector<CodeTarget> targets;
    for (engine::CpuLevel level : levels) {
      targets.push_back(
          cpuTarget(level, options.cpu, options.guard, families, options.kernelLibraries));
    }
    groups.emplace_back(target::atLevel(options.cpu, levels.front()), engine::kHost,
                        std::move(targets));
  }
  for (const target::Target &gpu : options.gpus) {
    groups.emplace_back(gpu, engine::kGpu,
                        std::vector<CodeTarget>{cudaTarget(gpu, options.kernelLibraries)});
  }
  return groups;
}

Compilation::Compilation(const CompileOptions &compileOptions, const CompileHooks &compileHooks,
                         const CompileCache &compileCache, const ModelIdentity &modelIdentity,
                         EngineWeights &engineWeights)
    : options(compileOptions), hooks(compileHooks), cache(compileCache), identity(modelIdentity),
      weights(engineWeights.store), table(engineWeights.table), engineWeights(engineWeights),
      context(MLIRContext::Threading::DISABLED), dump(options.dumpPhases),
      groups(targetGroups(options, *hooks.cpuFamilies)) {
  context.loadDialect<tn::TnDialect, func::FuncDialect>();
}

/// Goes on from a dumped phase. A dispatched module is for one group.
Status Compilation::start(LoadedPhase loaded) {
  if (loaded.phase < Phase::Dispatch) {
    module = std::move(loaded.module);
    return Status::ok();
  }
  TENON_TRY(oneGroup());
  groups.front().module = std::move(loaded.module);
  return Status::ok();
}

Status Compilation::oneGroup() const {
  if (groups.size() == 1) {
    return Status::ok();
  }
  return Status::error(ErrorId::BadArgument, "a dispatched module is for one device",
                       "name one target with --target");
}

/// The text of a region is a reproducer: nothing is left to do but to compile it.
Status Compilation::compileRegionAlone(const LoadedPhase &loaded) {
  TENON_ASSIGN(MappedFile file, MappedFile::open(options.model));
  regionText.assign(reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size());
  for (const TargetGroup &group : groups) {
    TENON_TRY(compileRegionText(regionText, *loaded.module, group.targets));
  }
  return Status::ok();
}

/// Dumps a phase of `tn`; as the last phase asked for, its text is also the output.
Status Compilation::finishModulePhase() {
  ModuleOp finished = phase < Phase::Dispatch ? *module : *groups.front().module;
  if (hooks.afterPhase && phase < Phase::Dispatch) {
    hooks.afterPhase(phase, finished);
  }
  if (hooks.afterPass && phase < Phase::Dispatch) {
    TENON_TRY(hooks.afterPass(nameOf(phase), finished, weights));
  }
  TENON_TRY(dump.dumpModule(phase, finished, weights));
  if (options.stopAfter != phase || options.output.empty()) {
    return Status::ok();
  }
  if (phase == Phase::Dispatch) {
    TENON_TRY(oneGroup());
  }
  std::string text = printModule(phase, finished);
  TENON_ASSIGN(AtomicFile file, AtomicFile::create(options.output));
  TENON_TRY(file.append(std::as_bytes(std::span(text.data(), text.size()))));
  return file.commit();
}

Status Compilation::run() {
  struct Step {
    Phase phase;
    Status (Compilation::*run)();
  };
  static constexpr Step kSteps[] = {
      {Phase::Import, &Compilation::importModel}, {Phase::Normalize, &Compilation::normalize},
      {Phase::Optimize, &Compilation::optimize},  {Phase::Dispatch, &Compilation::dispatch},
      {Phase::Codegen, &Compilation::codegen},    {Phase::Plan, &Compilation::plan},
      {Phase::Export, &Compilation::exportEngine}};
  llvm::ArrayRef<Step> steps = kSteps;
  if (isPhaseDump(options.model)) {
    TENON_ASSIGN(LoadedPhase loaded, loadPhase(options.model, context, weights));
    if (loaded.phase == Phase::Codegen) {
      return compileRegionAlone(loaded);
    }
    phase = loaded.phase;
    steps = steps.drop_front(static_cast<size_t>(loaded.phase) + 1);
    TENON_TRY(start(std::move(loaded)));
    if (options.stopAfter && *options.stopAfter <= phase) {
      return Status::ok();
    }
  }
  for (const Step &step : steps) {
    report(step.phase, 0);
    TENON_TRY(checkCancelled(options.cancel));
    phase = step.phase;
    Status status;
    if (std::optional<std::string> crash = crashOf([&] { status = (this->*step.run)(); })) {
      crashed = true;
      return Status::error(ErrorId::CompilerFault,
                           strCat("in phase '", nameOf(phase), "': ", *crash),
                           "report this with the reproducer");
    }
    TENON_TRY(std::move(status));
    if (step.phase <= Phase::Dispatch) {
      TENON_TRY(finishModulePhase());
    }
    report(step.phase, 1);
    if (options.stopAfter == step.phase) {
      break;
    }
  }
  return Status::ok();
}

/// Over the groups of all sizes.
std::string Compilation::rowsRecord() const {
  SmallVector<ModuleOp> modules;
  auto addGroups = [&](const Compilation &compilation) {
    for (const TargetGroup &group : compilation.groups) {
      modules.push_back(*group.module);
    }
  };
  addGroups(*this);
  llvm::for_each(forSizes, addGroups);
  return tn::rowsRecord(modules);
}

} // namespace tenon::pipeline
