// Candidates of a problem are compiled together, so that all threads are at work. On a CPU they are
// linked into one code object, which each engine holds; on a GPU, whose driver loads all code of an
// engine, into one each, while those of the problem before are measured. Relies on Compilation
// calling `afterFormRegions` while the module's weights are there.
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

#include <atomic>
#include <cstdio>
#include <future>
#include <span>
#include <thread>

using namespace mlir;

namespace tenon::pipeline {
namespace {

/// Of the engines of one problem together: they are files, and all are mapped at once.
constexpr uint64_t kMaxBytes = uint64_t{4} << 30;
/// Threads that are left to who measures, and to a GPU's driver, while the next are compiled.
constexpr unsigned kFreeThreads = 2;

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
    TENON_ASSIGN(order, measurer.order(problems));
    std::optional<Batch> batch = batchOf(0);
    Made made = batch ? compile(*batch, weights) : Made();
    while (batch) {
      TENON_ASSIGN(std::vector<EngineCandidate> candidates, made.get());
      std::optional<Batch> after;
      if (isAhead()) {
        after = following(*batch, candidates.size());
        made = after ? compile(*after, weights) : Made();
      }
      Result<bool> goesOn = measurer.measure(problems[order[batch->place]], candidates);
      for (const EngineCandidate &candidate : candidates) {
        (void)std::remove(candidate.engine.c_str());
      }
      if (!goesOn || !*goesOn) {
        return goesOn.takeStatus();
      }
      if (!isAhead()) {
        after = following(*batch, candidates.size());
        made = after ? compile(*after, weights) : Made();
      }
      batch = std::move(after);
    }
    return Status::ok();
  }

private:
  /// Candidates of a problem that are measured together.
  struct Batch {
    size_t place = 0;                               ///< of the problem, in the order
    std::vector<dispatch::KernelCandidate> kernels; ///< all of the problem
    size_t next = 1; ///< of these; the first one is measured with all others
  };
  using Made = std::future<Result<std::vector<EngineCandidate>>>;

  /// Measuring does not disturb compiling, nor the other way round.
  bool isAhead() const { return !options.gpus.empty(); }

  std::optional<Batch> batchOf(size_t place) {
    return place < order.size() ? std::optional(Batch{place, ranked(order[place])}) : std::nullopt;
  }

  /// What comes after a batch, of which so many candidates were made.
  std::optional<Batch> following(Batch &batch, size_t made) {
    size_t next = batch.next + made - 1;
    return request.areAll && next < batch.kernels.size()
               ? Batch{batch.place, std::move(batch.kernels), next}
               : batchOf(batch.place + 1);
  }

  Made compile(const Batch &batch, tn::WeightStore &weights) {
    size_t count = std::min(batch.kernels.size() - batch.next, kMaxCandidates - 1);
    std::vector<dispatch::KernelCandidate> together = {batch.kernels.front()};
    llvm::append_range(together, llvm::ArrayRef(batch.kernels).slice(batch.next, count));
    return std::async(isAhead() ? std::launch::async : std::launch::deferred,
                      [this, &weights, index = order[batch.place],
                       kernels = std::move(together)]() -> Result<std::vector<EngineCandidate>> {
                        TENON_TRY(checkCancelled(options.cancel));
                        return compileCandidates(index, kernels, weights);
                      });
  }

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

  /// The regions of these models in one module.
  static OwningOpRef<ModuleOp> moduleOf(llvm::ArrayRef<OwningOpRef<ModuleOp>> models) {
    ModuleOp first = *models.front();
    OwningOpRef<ModuleOp> all = ModuleOp::create(first.getLoc());
    (*all)->setAttrs(first->getAttrs());
    OpBuilder builder(all->getBodyRegion());
    builder.setInsertionPointToEnd(all->getBody());
    for (auto [index, model] : llvm::enumerate(models)) {
      Operation *copy = builder.clone(*regionOf(model.get())->getParentOfType<func::FuncOp>());
      cast<func::FuncOp>(copy).setName(strCat("main", index));
    }
    return all;
  }

  unsigned threads() const {
    return isAhead() ? std::max(options.threads, kFreeThreads + 1) - kFreeThreads : options.threads;
  }

  CodegenOptions codegenOptions() const {
    return {.targets = {target},
            .threads = threads(),
            .cache = &cache,
            .progress = {},
            .cancel = options.cancel,
            .failed = {}};
  }

  Result<CompiledRegions> compileTogether(llvm::ArrayRef<OwningOpRef<ModuleOp>> models) {
    return compileRegions(*moduleOf(models), codegenOptions());
  }

  /// Of each model the code, or why there is none.
  Result<std::vector<Result<CompiledRegions>>>
  compileAll(llvm::ArrayRef<OwningOpRef<ModuleOp>> models) {
    if (isAhead()) {
      TENON_ASSIGN(std::vector<Result<CompiledRegions>> apart,
                   compileRegionsApart(*moduleOf(models), codegenOptions()));
      assemble(apart);
      return apart;
    }
    Result<CompiledRegions> together = compileTogether(models);
    std::vector<Result<CompiledRegions>> parts;
    for (size_t i = 0; i < models.size(); ++i) {
      // Together they fail together; then each tells for itself.
      parts.push_back(together ? Result<CompiledRegions>(partOf(*together, i))
                               : compileTogether(llvm::ArrayRef(models).slice(i, 1)));
      TENON_TRY(checkCancelled(options.cancel));
    }
    return parts;
  }

  /// Machine code for each, on all threads. Where none is made, the driver makes it at load time.
  void assemble(llvm::MutableArrayRef<Result<CompiledRegions>> all) const {
    if (!options.assembler) {
      return;
    }
    std::atomic<size_t> next = 0;
    auto work = [&] {
      for (size_t i = next++; i < all.size() && checkCancelled(options.cancel); i = next++) {
        if (!all[i]) {
          continue;
        }
        llvm::StringRef ptx = all[i]->code.front();
        Result<std::vector<std::byte>> cubin = options.assembler->assemble(
            std::as_bytes(std::span(ptx.data(), ptx.size())), target.level);
        all[i]->cubin = cubin ? std::move(*cubin) : std::vector<std::byte>();
      }
    };
    std::vector<std::thread> helpers;
    for (unsigned i = 1; i < threads(); ++i) {
      helpers.emplace_back(work);
    }
    work();
    for (std::thread &helper : helpers) {
      helper.join();
    }
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
    TENON_ASSIGN(std::vector<Result<CompiledRegions>> all, compileAll(models));
    std::vector<EngineCandidate> candidates;
    uint64_t bytes = 0;
    for (size_t i = 0; i < kernels.size() && (i < 2 || bytes < kMaxBytes); ++i) {
      std::string path = strCat(options.output, '.', files++);
      std::string name = kernels[i].kernel.text();
      Result<uint64_t> size =
          all[i] ? writeRegionEngine(*models[i], *all[i], name, weights, options, path)
                 : Result<uint64_t>(all[i].takeStatus());
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
  std::vector<size_t> order;  ///< in which they are measured
  size_t files = 0;           ///< written so far
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
