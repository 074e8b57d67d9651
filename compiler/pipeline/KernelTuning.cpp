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

/// At most so many kernels of each family, evenly among them, and the untuned one.
std::vector<dispatch::KernelCandidate> thinned(std::vector<dispatch::KernelCandidate> all,
                                               const dispatch::KernelChoice &untuned,
                                               size_t maxOfFamily) {
  llvm::StringMap<size_t> counts, seen;
  for (const dispatch::KernelCandidate &candidate : all) {
    ++counts[candidate.kernel.family];
  }
  llvm::erase_if(all, [&](const dispatch::KernelCandidate &candidate) {
    size_t count = counts[candidate.kernel.family], index = seen[candidate.kernel.family]++;
    bool isKept = maxOfFamily == 0 || count <= maxOfFamily ||
                  index * maxOfFamily / count != (index + 1) * maxOfFamily / count;
    return !isKept && candidate.kernel != untuned;
  });
  return all;
}

std::vector<std::string> nodesOf(tn::RegionOp region) {
  std::vector<std::string> names = dispatch::nodeNames(region.getLoc());
  names.push_back(dispatch::nameOf(region));
  return names;
}

class KernelTuning {
public:
  KernelTuning(const CompileOptions &compileOptions, const CandidateRequest &candidateRequest,
               CandidateMeasurer &candidateMeasurer)
      : options(compileOptions), request(candidateRequest), measurer(candidateMeasurer),
        cache(options.cacheFolder),
        target(options.gpus.empty()
                   ? cpuTarget(options.levels.front(), options.cpu, /*guarded=*/false,
                               codegen::cpu::kernelFamilies(), options.kernelLibraries)
                   : cudaTarget(options.gpus.front(), options.kernelLibraries)) {}

  Status run(ModuleOp module, tn::WeightStore &weights) {
    TENON_TRY(collect(module));
    TENON_ASSIGN(std::vector<size_t> order, measurer.order(problems));
    for (size_t index : order) {
      TENON_ASSIGN(bool goesOn, measure(index, weights));
      if (!goesOn) {
        break;
      }
    }
    return Status::ok();
  }

private:
  Status collect(ModuleOp module) {
    llvm::StringMap<size_t> known;
    Status status;
    module.walk([&](tn::RegionOp region) {
      if (!request.node.empty() && !llvm::is_contained(nodesOf(region), request.node)) {
        return WalkResult::advance();
      }
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
                          .strategy = region.getStrategy().str(),
                          .labels = {},
                          .isProduct = region.getStrategy() == dispatch::kContraction,
                          .untuned = "",
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
    problem.untuned = selection->chosen.text();
    problem.skipped = source.symbols.empty() ? "" : "its sizes vary: give them with --shape";
    own.untuned = selection->chosen;
    own.candidates = std::move(*candidates);
    entries.push_back(std::move(own));
    problems.push_back(std::move(problem));
    return Status::ok();
  }

  /// Whether the measurer goes on after this problem.
  Result<bool> measure(size_t index, tn::WeightStore &weights) {
    std::vector<dispatch::KernelCandidate> kernels = ranked(index);
    size_t next = 1; // the first one is measured with all others
    do {
      TENON_TRY(checkCancelled(options.cancel));
      size_t count = std::min(kernels.size() - next, kMaxCandidates - 1);
      std::vector<dispatch::KernelCandidate> together = {kernels.front()};
      llvm::append_range(together, llvm::ArrayRef(kernels).slice(next, count));
      TENON_ASSIGN(std::vector<EngineCandidate> candidates,
                   compileCandidates(index, together, weights));
      Result<bool> goesOn = measurer.measure(problems[index], candidates);
      for (const EngineCandidate &candidate : candidates) {
        (void)std::remove(candidate.engine.c_str());
      }
      if (!goesOn || !*goesOn) {
        return goesOn;
      }
      next += candidates.size() - 1;
    } while (request.areAll && next < kernels.size());
    return true;
  }

  /// The one without tuning, the measurer's warm start, then the others: of all in the order of
  /// their families, else by predicted time.
  std::vector<dispatch::KernelCandidate> ranked(size_t index) {
    std::vector<dispatch::KernelCandidate> all =
        thinned(entries[index].candidates, entries[index].untuned, request.maxOfFamily);
    if (!request.areAll) {
      llvm::stable_sort(
          all, [](const auto &a, const auto &b) { return a.microseconds < b.microseconds; });
    }
    std::vector<std::string> first = measurer.warmStart(problems[index]);
    first.insert(first.begin(), problems[index].untuned);
    auto rank = [&](const dispatch::KernelCandidate &candidate) {
      return llvm::find(first, candidate.kernel.text()) - first.begin();
    };
    llvm::stable_sort(all, [&](const auto &a, const auto &b) { return rank(a) < rank(b); });
    all.resize(request.areAll ? all.size() : std::min(all.size(), kMaxCandidates));
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

  /// As files; not all where these become too large.
  Result<std::vector<EngineCandidate>>
  compileCandidates(size_t index, llvm::ArrayRef<dispatch::KernelCandidate> kernels,
                    tn::WeightStore &weights) {
    std::vector<OwningOpRef<ModuleOp>> models;
    for (const dispatch::KernelCandidate &kernel : kernels) {
      models.push_back(modelOf(entries[index].region));
      setKernel(*models.back(), kernel);
    }
    std::optional<Result<CompiledRegions>> together;
    if (options.gpus.empty()) { // a GPU's driver compiles all code of an engine that it opens
      together = compileTogether(models);
    }
    std::vector<EngineCandidate> candidates;
    uint64_t bytes = 0;
    for (size_t i = 0; i < kernels.size() && (i < 2 || bytes < kMaxBytes); ++i) {
      // Together they fail together; then each tells for itself.
      Result<CompiledRegions> own = together && *together
                                        ? Result<CompiledRegions>(partOf(**together, i))
                                        : compileTogether(llvm::ArrayRef(models).slice(i, 1));
      TENON_TRY(checkCancelled(options.cancel));
      std::string path = strCat(options.output, '.', i);
      std::string name = kernels[i].kernel.text();
      Result<uint64_t> size =
          own ? writeRegionEngine(*models[i], *own, name, weights, options, path)
              : Result<uint64_t>(own.takeStatus());
      bytes += size ? *size : 0;
      candidates.push_back({name, kernels[i].microseconds, path, size.takeStatus()});
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
  const CandidateRequest &request;
  CandidateMeasurer &measurer;
  CompileCache cache;
  CodeTarget target;
  std::vector<TuningProblem> problems;
  std::vector<Entry> entries; ///< of the problems
};

} // namespace

Status measureKernels(const CompileOptions &options, const CandidateRequest &request,
                      CandidateMeasurer &measurer) {
  if (options.gpus.size() + options.levels.size() != 1) {
    return Status::error(ErrorId::BadArgument, "kernels are measured for one target",
                         "name one CPU level or GPU with --target");
  }
  KernelTuning kernelTuning(options, request, measurer);
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
