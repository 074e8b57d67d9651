// Relies on equal seeded inputs for all kernels of a region, so that their outputs can be compared.

#include "tools/tenon/bench/KernelBench.h"

#include "compiler/pipeline/KernelTuning.h"
#include "runtime/device/cpu/CpuFeatures.h"
#include "support/files/ScratchFolder.h"
#include "support/threads/ThreadPool.h"
#include "tools/tenon/bench/SuccessiveHalving.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/model/CompilerBridge.h"
#include "tools/tenon/target/Ptxas.h"
#include "tools/tenon/task/TaskListener.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tenon::tool {
namespace {

/// Also of kernels that drop out first.
constexpr size_t kMinRounds = 10;

struct MeasuredRegion {
  pipeline::TuningProblem problem;
  std::vector<MeasuredKernel> kernels; ///< the chosen one first
};

class BenchMeasurer : public pipeline::CandidateMeasurer {
public:
  BenchMeasurer(const KernelBenchRequest &request, TaskListener &output) : listener(output) {
    options.seed = request.inputs.seed;
    options.session = request.session;
    options.isCold = request.isCold;
    options.allowNoise = true;
    options.maxDifference = HUGE_VAL;
    options.minRounds = kMinRounds;
  }

  Result<std::vector<size_t>> order(const std::vector<pipeline::TuningProblem> &problems) override {
    std::vector<size_t> order;
    for (const pipeline::TuningProblem &problem : problems) {
      if (problem.skipped.empty()) {
        order.push_back(regions.size());
      }
      regions.push_back({problem, {}});
    }
    return order;
  }

  std::vector<std::string> warmStart(const pipeline::TuningProblem &) override { return {}; }

  Result<bool> measure(const pipeline::TuningProblem &problem,
                       const std::vector<pipeline::EngineCandidate> &candidates) override {
    listener.progress("kernels", 0);
    TENON_ASSIGN(MeasureOutcome outcome, measureCandidates(candidates, options));
    auto region = std::ranges::find(regions, problem.problem.hash, [](const MeasuredRegion &each) {
      return each.problem.problem.hash;
    });
    std::vector<MeasuredKernel> &kernels = region->kernels;
    if (!kernels.empty()) {
      kernels.front().microseconds =
          std::min(kernels.front().microseconds, outcome.kernels.front().microseconds);
      outcome.kernels.erase(outcome.kernels.begin());
    }
    std::ranges::move(outcome.kernels, std::back_inserter(kernels));
    return true;
  }

  std::vector<MeasuredRegion> regions;

private:
  TaskListener &listener;
  MeasureOptions options;
};

Json describe(const MeasuredRegion &region) {
  Json kernels = Json::array();
  for (const MeasuredKernel &kernel : region.kernels) {
    Json row = {{"kernel", kernel.kernel},
                {"chosen", kernel.kernel == region.problem.untuned},
                {"predicted_us", kernel.predicted}};
    if (kernel.status) {
      row["time_us"] = kernel.microseconds;
      row["difference"] = kernel.difference;
    } else {
      row["problem"] = kernel.status.message();
    }
    kernels.push_back(std::move(row));
  }
  return {{"label", region.problem.labels.front()},
          {"strategy", region.problem.strategy},
          {"skipped", region.problem.skipped},
          {"kernels", kernels}};
}

/// The chosen kernel of each region and what is faster, or all of a region's kernels.
std::string textOf(const MeasuredRegion &region) {
  const pipeline::TuningProblem &problem = region.problem;
  std::string text = fmt::format("{} ({})\n", problem.labels.front(), problem.strategy);
  if (!problem.skipped.empty()) {
    return text + "  " + problem.skipped + "\n";
  }
  for (const MeasuredKernel &kernel : region.kernels) {
    const char *mark = kernel.kernel == problem.untuned ? "*" : " ";
    text +=
        kernel.status
            ? fmt::format("{} {:>10.2f} us  predicted {:>10.2f}  differs by {:.1e}  {}\n", mark,
                          kernel.microseconds, kernel.predicted, kernel.difference, kernel.kernel)
            : fmt::format("{} {:>10} {}: {}\n", mark, "fails", kernel.kernel,
                          kernel.status.message());
  }
  return text;
}

Status checkModel(const KernelBenchRequest &request) {
  TENON_ASSIGN(bool model, isModel(request.open.path, Takes::Either));
  return model ? Status::ok()
               : Status::error(ErrorId::BadArgument,
                               fmt::format("{} is an engine, whose kernels are already chosen",
                                           request.open.path),
                               "give the model that it was compiled from");
}

} // namespace

Result<KernelReport> benchKernels(const KernelBenchRequest &request, TaskListener &listener) {
  TENON_TRY(checkModel(request));
  pipeline::CompileOptions compile;
  compile.model = request.open.path;
  TENON_TRY(applyTarget(request.open.target, compile, listener.notice()));
  TENON_ASSIGN(compile.shapes, parseShapeArguments(request.inputs.shapes));
  std::optional<engine::CpuLevel> best = runtime::bestCpuLevel();
  if (compile.levels.size() > 1 && best) {
    compile.levels = {*best};
  }
  compile.threads = usableCpus();
  if (!compile.gpus.empty()) {
    if (Result<Ptxas> ptxas = Ptxas::find("")) {
      compile.assembler = assemblerOf(std::move(*ptxas)); // on all threads, unlike the driver
    }
  }
  compile.notice = [&](std::string_view text) { listener.note(text); };
  TENON_ASSIGN(ScratchFolder folder, ScratchFolder::create("tenon-kernels"));
  compile.output = folder.path() + "/kernel.tenon";
  BenchMeasurer measurer(request, listener);
  bool isOfAll = request.node == "all";
  pipeline::CandidateRequest candidates{
      .node = isOfAll ? "" : request.node, .areAll = true, .maxOfFamily = request.mostOfFamily};
  TENON_TRY(pipeline::measureKernels(compile, candidates, measurer));
  listener.clearProgress();
  if (measurer.regions.empty()) {
    return Status::error(ErrorId::BadArgument,
                         isOfAll ? "the model has no regions"
                                 : fmt::format("no region has the node '{}'", request.node),
                         "tenon explain kernels ENGINE lists the regions");
  }
  Json described = Json::array();
  std::string text;
  for (const MeasuredRegion &region : measurer.regions) {
    described.push_back(describe(region));
    text += textOf(region);
  }
  return KernelReport{{{"regions", described}}, text};
}

} // namespace tenon::tool
