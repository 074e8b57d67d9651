// Relies on Compilation calling `afterFormRegions` while the module's weights are there.
#include "compiler/pipeline/KernelTrials.h"

#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/dispatch/Names.h"
#include "compiler/graph/Tn.h"
#include "compiler/pipeline/CodegenPhase.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/pipeline/RegionModel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "support/text/Text.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace tenon::pipeline {
namespace {

/// At most so many kernels of each family, evenly among them.
std::vector<dispatch::KernelCandidate> thinned(std::vector<dispatch::KernelCandidate> all,
                                               size_t mostOfFamily) {
  llvm::StringMap<size_t> counts, seen;
  for (const dispatch::KernelCandidate &candidate : all) {
    ++counts[candidate.kernel.family];
  }
  llvm::erase_if(all, [&](const dispatch::KernelCandidate &candidate) {
    size_t count = counts[candidate.kernel.family], index = seen[candidate.kernel.family]++;
    bool isKept = mostOfFamily == 0 || count <= mostOfFamily ||
                  index * mostOfFamily / count != (index + 1) * mostOfFamily / count;
    return !isKept;
  });
  return all;
}

class Trials {
public:
  Trials(const CompileOptions &compileOptions, const TrialRequest &trialRequest, Measurer &timer)
      : options(compileOptions), request(trialRequest), measurer(timer),
        target(options.gpus.empty() ? cpuTarget(options.levels.front(), options.cpu, options.guard)
                                    : cudaTarget(options.gpus.front())) {}

  Status run(ModuleOp module, tn::WeightStore &weights) {
    Status status;
    llvm::StringSet<> known;
    module.walk([&](tn::RegionOp region) {
      codegen::RegionSource source = codegen::outline(region);
      bool isAsked = request.node.empty() || llvm::is_contained(nodesOf(region), request.node);
      if (isAsked && known.insert(source.text).second) {
        status = tryKernels(region, source, weights);
      }
      return status ? WalkResult::advance() : WalkResult::interrupt();
    });
    return status;
  }

  std::vector<RegionTrials> results;

private:
  static std::vector<std::string> nodesOf(tn::RegionOp region) {
    std::vector<std::string> names = dispatch::nodeNames(region.getLoc());
    names.push_back(dispatch::nameOf(region));
    return names;
  }

  Status tryKernels(tn::RegionOp region, const codegen::RegionSource &source,
                    tn::WeightStore &weights) {
    RegionTrials result{dispatch::nameOf(region), region.getStrategy().str(), "", {}};
    if (!source.symbols.empty()) {
      result.skipped = "its sizes vary: give them with --shape";
      results.push_back(std::move(result));
      return Status::ok();
    }
    llvm::Expected<dispatch::KernelSelection> selection = target.select(source.text, {});
    llvm::Expected<std::vector<dispatch::KernelCandidate>> candidates =
        target.candidates(source.text);
    if (!selection || !candidates) {
      llvm::Error error = llvm::joinErrors(selection.takeError(), candidates.takeError());
      return Status::error(ErrorId::CodegenFailed,
                           strCat("no kernel for ", result.label, " on ", target.level, ": ",
                                  llvm::toString(std::move(error))),
                           "report this with the reproducer");
    }
    std::vector<dispatch::KernelCandidate> kept = thinned(*candidates, request.mostOfFamily);
    auto chosen = llvm::find_if(*candidates, [&](const dispatch::KernelCandidate &candidate) {
      return candidate.kernel == selection->chosen;
    });
    if (chosen != candidates->end()) {
      llvm::erase_if(kept, [&](const auto &each) { return each.kernel == chosen->kernel; });
      kept.insert(kept.begin(), *chosen);
    }
    for (const dispatch::KernelCandidate &candidate : kept) {
      TENON_TRY(checkCancelled(options.cancel));
      KernelTrial trial{.kernel = candidate.kernel.text(),
                        .isChosen = candidate.kernel == selection->chosen,
                        .predictedMicroseconds = candidate.microseconds,
                        .measured = {},
                        .problem = ""};
      OwningOpRef<ModuleOp> model = modelOf(region);
      Status status = tryKernel(*model, candidate, weights, result.trials.empty(), trial);
      if (!status) {
        trial.problem = status.message();
      }
      result.trials.push_back(std::move(trial));
    }
    results.push_back(std::move(result));
    return Status::ok();
  }

  Status tryKernel(ModuleOp model, const dispatch::KernelCandidate &candidate,
                   tn::WeightStore &weights, bool isFirst, KernelTrial &trial) {
    setKernel(model, candidate);
    CodegenOptions codegenOptions{.targets = {target}, .threads = 1, .progress = {}, .failed = {}};
    TENON_ASSIGN(CompiledRegions compiled, compileRegions(model, codegenOptions));
    TENON_ASSIGN([[maybe_unused]] uint64_t bytes,
                 writeRegionEngine(model, compiled, candidate.kernel.text(), weights, options,
                                   options.output));
    TENON_ASSIGN(trial.measured, measurer.measure(options.output, isFirst));
    return Status::ok();
  }

  const CompileOptions &options;
  const TrialRequest &request;
  Measurer &measurer;
  CodeTarget target;
};

} // namespace

Result<std::vector<RegionTrials>> measureKernels(const CompileOptions &options,
                                                 const TrialRequest &request, Measurer &measurer) {
  if (options.gpus.size() + options.levels.size() != 1) {
    return Status::error(ErrorId::BadArgument, "kernels are measured for one target",
                         "name one CPU level or GPU with --target");
  }
  Trials trials(options, request, measurer);
  CompileOptions upToDispatch = options;
  upToDispatch.stopAfter = Phase::Dispatch;
  upToDispatch.output.clear();
  CompileHooks hooks;
  hooks.afterFormRegions = [&](ModuleOp module, tn::WeightStore &weights) {
    return trials.run(module, weights);
  };
  TENON_ASSIGN([[maybe_unused]] CompileSummary summary, compile(upToDispatch, hooks));
  if (trials.results.empty()) {
    return Status::error(ErrorId::BadArgument,
                         request.node.empty()
                             ? std::string("the model has no regions")
                             : strCat("no region has the node '", request.node, "'"),
                         "tenon explain kernels ENGINE lists the regions");
  }
  return std::move(trials.results);
}

} // namespace tenon::pipeline
