// Relies on equal seeded inputs for all kernels of a region, so that their outputs can be compared.

#include "tools/tenon/bench/KernelBench.h"

#include "compiler/pipeline/KernelTrials.h"
#include "runtime/device/cpu/CpuFeatures.h"
#include "support/files/ScratchFolder.h"
#include "support/threads/ThreadPool.h"
#include "tools/tenon/bench/Difference.h"
#include "tools/tenon/bench/Subject.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/model/CompilerBridge.h"
#include "tools/tenon/task/TaskListener.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace tenon::tool {
namespace {

/// A kernel is timed for so long or so many runs, whichever comes first, after two that are not
/// counted; the fastest run counts, for neighbours on the machine only ever add.
constexpr double kMilliseconds = 20;
constexpr size_t kMaxRuns = 200, kMinRuns = 5;

class EngineMeasurer : public pipeline::Measurer {
public:
  EngineMeasurer(const KernelBenchRequest &benchRequest, TaskListener &output)
      : request(benchRequest), listener(output) {
    // Regions have inputs of their own, whose dims are known.
    seeded.seed = request.inputs.seed;
  }

  Result<Timing> measure(const std::string &path, bool isFirst) override {
    listener.progress("kernels", 0);
    Subject subject;
    runtime::EngineOptions options;
    options.cacheFolder = "";
    TENON_ASSIGN(subject.engine, runtime::Engine::open(path, options));
    TENON_ASSIGN(std::vector<Tensor> inputs, makeInputs(seeded, *subject.engine));
    TENON_ASSIGN(Runner runner, Runner::create(subject.engine, std::move(inputs), request.session));
    subject.runner = std::make_unique<Runner>(std::move(runner));
    TENON_TRY(subject.runner->run());
    Timing timing;
    TENON_ASSIGN(timing.microseconds, microsecondsOf(subject));
    if (isFirst) {
      first = std::move(subject.runner);
      return timing;
    }
    timing.difference = differenceOfOutputs(*subject.runner, *first);
    return timing;
  }

private:
  /// On a GPU without what starting a graph takes, which is more than a small kernel: launches in a
  /// row, as they follow each other in a model.
  static Result<double> microsecondsOfSteps(Subject &subject) {
    constexpr unsigned kInARow = 40;
    double fastest = HUGE_VAL;
    BenchClock::time_point start = BenchClock::now();
    for (size_t run = 0; run < kMinRuns || millisecondsSince(start) < kMilliseconds; ++run) {
      TENON_ASSIGN(std::vector<runtime::StepTime> steps,
                   subject.runner->session().timeSteps(kInARow));
      double seconds = 0;
      for (const runtime::StepTime &step : steps) {
        seconds += step.seconds;
      }
      fastest = std::min(fastest, seconds);
    }
    return fastest * 1e6;
  }
  Result<double> microsecondsOf(Subject &subject) const {
    if (subject.isGpu() && !request.isCold) {
      return microsecondsOfSteps(subject);
    }
    if (subject.isGpu()) {
      TENON_TRY(subject.prepareGpu(request.isCold, request.session));
    }
    for (int i = 0; i < 2; ++i) {
      TENON_TRY(subject.runOnce(false));
    }
    BenchClock::time_point start = BenchClock::now();
    const std::vector<double> &times = subject.samples();
    while (times.size() < kMinRuns ||
           (times.size() < kMaxRuns && millisecondsSince(start) < kMilliseconds)) {
      TENON_TRY(subject.runOnce(true));
    }
    return *std::min_element(times.begin(), times.end()) * 1000;
  }

  const KernelBenchRequest &request;
  TaskListener &listener;
  InputFlags seeded;
  std::unique_ptr<Runner> first; ///< of the region
};

Json describe(const pipeline::RegionTrials &region) {
  Json trials = Json::array();
  for (const pipeline::KernelTrial &trial : region.trials) {
    Json row = {{"kernel", trial.kernel},
                {"chosen", trial.isChosen},
                {"predicted_us", trial.predictedMicroseconds}};
    if (trial.problem.empty()) {
      row["time_us"] = trial.measured.microseconds;
      row["difference"] = trial.measured.difference;
    } else {
      row["problem"] = trial.problem;
    }
    trials.push_back(std::move(row));
  }
  return {{"label", region.label},
          {"strategy", region.strategy},
          {"skipped", region.skipped},
          {"kernels", trials}};
}

/// The chosen kernel of each region and what is faster, or all of a region's kernels.
std::string textOf(const pipeline::RegionTrials &region) {
  std::string text = fmt::format("{} ({})\n", region.label, region.strategy);
  if (!region.skipped.empty()) {
    return text + "  " + region.skipped + "\n";
  }
  for (const pipeline::KernelTrial &trial : region.trials) {
    const char *mark = trial.isChosen ? "*" : " ";
    text += trial.problem.empty()
                ? fmt::format("{} {:>10.2f} us  predicted {:>10.2f}  differs by {:.1e}  {}\n", mark,
                              trial.measured.microseconds, trial.predictedMicroseconds,
                              trial.measured.difference, trial.kernel)
                : fmt::format("{} {:>10} {}: {}\n", mark, "fails", trial.kernel, trial.problem);
  }
  return text;
}

Status checkModel(const KernelBenchRequest &request) {
  TENON_ASSIGN(bool model, isModel(request.open.path, Takes::Either));
  return model ? Status::ok()
               : Status::error(
                     ErrorId::BadArgument,
                     fmt::format("{} is an engine: its kernels are chosen", request.open.path),
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
  compile.notice = [&](std::string_view text) { listener.note(text); };
  TENON_ASSIGN(ScratchFolder folder, ScratchFolder::create("tenon-kernels"));
  compile.output = folder.path() + "/kernel.tenon";
  EngineMeasurer measurer(request, listener);
  pipeline::TrialRequest trials{request.node == "all" ? "" : request.node, request.mostOfFamily};
  TENON_ASSIGN(std::vector<pipeline::RegionTrials> regions,
               pipeline::measureKernels(compile, trials, measurer));
  listener.clearProgress();
  Json described = Json::array();
  std::string text;
  for (const pipeline::RegionTrials &region : regions) {
    described.push_back(describe(region));
    text += textOf(region);
  }
  return KernelReport{{{"regions", described}}, text};
}

} // namespace tenon::tool
