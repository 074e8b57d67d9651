// Candidates of a problem are compiled together, so that all threads are at work, and linked into
// one code object, which each engine holds. Relies on Compilation calling
// `afterFormRegions` while the module's weights are there.
#include "compiler/pipeline/KernelTuning.h"

#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/dispatch/Names.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/Tn.h"
#include "compiler/pipeline/CompileCache.h"
#include "compiler/pipeline/MeasuredKernels.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/pipeline/RegionModel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "support/text/Text.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace tenon::pipeline {
namespace {

/// Of the engines of one problem together: they are files, and all are mapped at once.
constexpr uint64_t kMaxBytes = uint64_t{4} << 30;

/// A problem with its first region, and what can compute it.
struct Entry {
  tn::RegionOp region;
  dispatch::KernelChoice untuned;
  std::vector<dispatch::KernelCandidate> candidates;
};

class KernelTuning {
public:
  KernelTuning(const CompileOptions &compileOptions, CandidateMeasurer &candidateMeasurer)
      : options(compileOptions), measurer(candidateMeasurer), cache(options.cacheFolder),
        target(cpuTarget(options.levels.front(), options.cpu, /*guarded=*/false)) {}

  Status run(ModuleOp module, tn::WeightStore &weights) {
    TENON_TRY(collect(module));
    TENON_ASSIGN(std::vector<size_t> order, measurer.order(problems));
    for (size_t index : order) {
      TENON_TRY(checkCancelled(options.cancel));
      TENON_ASSIGN(std::vector<EngineCandidate> candidates, compileCandidates(index, weights));
      if (candidates.empty()) {
        continue;
      }
      Result<bool> goesOn = measurer.measure(problems[index], candidates);
      for (const EngineCandidate &candidate : candidates) {
        (void)std::remove(candidate.engine.c_str());
      }
      if (!goesOn || !*goesOn) {
        return goesOn ? Status::ok() : goesOn.takeStatus();
      }
    }
    return Status::ok();
  }

private:
  Status collect(ModuleOp module) {
    llvm::StringMap<size_t> known;
    Status status;
    module.walk([&](tn::RegionOp region) {
      codegen::RegionSource source = codegen::outline(region);
      auto [entry, isNew] = known.try_emplace(source.text, problems.size());
      if (isNew) {
        status = add(region, source);
      }
      if (!status) {
        return WalkResult::interrupt();
      }
      problems[entry->second].labels.push_back(dispatch::nameOf(region));
      return WalkResult::advance();
    });
    return status;
  }

  Status add(tn::RegionOp region, const codegen::RegionSource &source) {
    TuningProblem problem{.problem = tuning::problemOf(source.text),
                          .level = target.level,
                          .labels = {},
                          .isProduct = region.getStrategy() == dispatch::kContraction,
                          .skipped = ""};
    Entry own{region, {}, {}};
    llvm::Expected<dispatch::KernelSelection> selection = target.select(source.text, {});
    llvm::Expected<std::vector<dispatch::KernelCandidate>> candidates =
        target.candidates(source.text);
    if (!selection || !candidates) {
      return Status::error(
          ErrorId::CodegenFailed,
          strCat("no kernel for ", dispatch::nameOf(region), " on ", target.level, ": ",
                 llvm::toString(llvm::joinErrors(selection.takeError(), candidates.takeError()))),
          "report this with the reproducer");
    }
    problem.problem.families = familiesOf(*candidates);
    problem.kernels = candidates->size();
    problem.microseconds = selection->microseconds;
    if (!source.symbols.empty()) {
      problem.skipped = "its sizes vary: give them with --shape";
    } else if (candidates->size() < 2) {
      problem.skipped = strCat(selection->chosen.text(), " is the only kernel for it");
    }
    own.untuned = selection->chosen;
    own.candidates = std::move(*candidates);
    entries.push_back(std::move(own));
    problems.push_back(std::move(problem));
    return Status::ok();
  }

  /// The one without tuning, the measurer's warm start, then by predicted time.
  std::vector<dispatch::KernelCandidate> ranked(size_t index) {
    std::vector<dispatch::KernelCandidate> all = entries[index].candidates;
    llvm::stable_sort(all,
                      [](const auto &a, const auto &b) { return a.microseconds < b.microseconds; });
    std::vector<std::string> first = measurer.warmStart(problems[index]);
    first.insert(first.begin(), entries[index].untuned.text());
    auto rank = [&](const dispatch::KernelCandidate &candidate) {
      return llvm::find(first, candidate.kernel.text()) - first.begin();
    };
    llvm::stable_sort(all, [&](const auto &a, const auto &b) { return rank(a) < rank(b); });
    all.resize(std::min(all.size(), kMaxCandidates));
    return all;
  }

  /// The code of the regions of these models, linked together.
  Result<CompiledRegions> compileTogether(llvm::ArrayRef<OwningOpRef<ModuleOp>> models) {
    ModuleOp first = *models.front();
    OwningOpRef<ModuleOp> all = ModuleOp::create(first.getLoc());
    (*all)->setAttrs(first->getAttrs());
    OpBuilder builder(all->getBodyRegion());
    builder.setInsertionPointToEnd(all->getBody());
    for (auto [index, model] : llvm::enumerate(models)) {
      Operation *copy = builder.clone(*regionOf(model.get())->getParentOfType<func::FuncOp>());
      cast<func::FuncOp>(copy).setName(strCat("main", index));
    }
    CodegenOptions codegenOptions{.targets = {target},
                                  .threads = options.threads,
                                  .cache = &cache,
                                  .progress = {},
                                  .cancel = options.cancel,
                                  .failed = {}};
    return compileRegions(*all, codegenOptions);
  }

  /// Those that compile, as files.
  Result<std::vector<EngineCandidate>> compileCandidates(size_t index, tn::WeightStore &weights) {
    std::vector<dispatch::KernelCandidate> kernels = ranked(index);
    std::vector<OwningOpRef<ModuleOp>> models;
    for (const dispatch::KernelCandidate &kernel : kernels) {
      models.push_back(modelOf(entries[index].region));
      setKernel(*models.back(), kernel);
    }
    Result<CompiledRegions> together = compileTogether(models);
    std::vector<EngineCandidate> candidates;
    uint64_t bytes = 0;
    for (size_t i = 0; i < kernels.size() && bytes < kMaxBytes; ++i) {
      // Together they fail together; then each tells for itself.
      Result<CompiledRegions> own = together ? Result<CompiledRegions>(partOf(*together, i))
                                             : compileTogether(llvm::ArrayRef(models).slice(i, 1));
      TENON_TRY(checkCancelled(options.cancel));
      if (!own) {
        if (i == 0) {
          return own.takeStatus(); // which would fail in any compilation
        }
        continue;
      }
      std::string path = strCat(options.output, '.', i);
      std::string name = kernels[i].kernel.text();
      TENON_ASSIGN(uint64_t size,
                   writeRegionEngine(*models[i], *own, name, weights, options, path));
      bytes += size;
      candidates.push_back({name, kernels[i].microseconds, path});
    }
    return candidates;
  }

  /// Of one of the models: its region's code, and the code object of all.
  static CompiledRegions partOf(const CompiledRegions &all, size_t index) {
    CompiledRegions part;
    part.regionSymbols = {all.regionSymbols[index]};
    plan::LevelCode level = all.levels.front();
    level.regions = {level.regions[index]};
    part.levels = {std::move(level)};
    part.code = all.code;
    return part;
  }

  const CompileOptions &options;
  CandidateMeasurer &measurer;
  CompileCache cache;
  CodeTarget target;
  std::vector<TuningProblem> problems;
  std::vector<Entry> entries; ///< of the problems
};

} // namespace

Status tuneKernels(const CompileOptions &options, CandidateMeasurer &measurer) {
  if (!options.gpus.empty() || options.levels.size() != 1) {
    return Status::error(ErrorId::BadArgument, "kernels are raced for one CPU level",
                         "name it with --target, for example cpu:native");
  }
  KernelTuning kernelTuning(options, measurer);
  CompileOptions upToDispatch = options;
  upToDispatch.stopAfter = Phase::Dispatch;
  upToDispatch.output.clear();
  CompileHooks hooks;
  hooks.afterFormRegions = [&](ModuleOp module, tn::WeightStore &weights) {
    return kernelTuning.run(module, weights);
  };
  return compile(upToDispatch, hooks).takeStatus();
}

} // namespace tenon::pipeline
