// The order of work: the untuned engine, whose steps say where the time goes; measurements, whose
// winners are appended to the store one by one; the engine by the store, beside the untuned one.
// What is measured is kept however this ends. One file: the tuner is one class, called back by the
// pipeline in this order.

#include "tools/tenon/tune/Tuner.h"

#include "compiler/tuning/Store.h"
#include "support/files/ScratchFolder.h"
#include "tools/tenon/bench/Interleaved.h"
#include "tools/tenon/bench/Statistics.h"
#include "tools/tenon/inputs/Inputs.h"
#include "tools/tenon/target/LocalCpu.h"
#include "tools/tenon/target/LocalGpu.h"
#include "tools/tenon/target/LocalStore.h"
#include "tools/tenon/target/Ptxas.h"
#include "tools/tenon/task/TaskListener.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>

namespace tenon::tool {
namespace {

/// More does not stay in any cache between two runs of a region.
constexpr uint64_t kMaxOtherBytes = uint64_t{64} << 20;
constexpr int kPasses = 5;
/// Of alternate runs; a GPU, which is idle otherwise, repeats itself sooner.
constexpr double kCompareSeconds = 2, kGpuCompareSeconds = 0.5;
/// On a GPU, whose caches are read and written by other regions: so many times what they hold.
constexpr uint64_t kCachesBetweenRuns = 2;
/// Of a run, what a problem must take to be measured: no gain in less is seen.
constexpr double kMinShare = 0.001;
/// Of its time, by which a tuned engine must be slower to be withdrawn.
constexpr double kNoise = 1.01;

int64_t now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// An engine that was compiled for comparison.
Result<Subject> subjectOf(const std::string &path) {
  Subject subject;
  subject.path = path;
  runtime::EngineOptions options;
  options.cacheFolder = "";
  options.verifyWeights = false;
  TENON_ASSIGN(subject.engine, runtime::Engine::open(path, options));
  TENON_ASSIGN(std::vector<Tensor> inputs, makeInputs({}, *subject.engine));
  TENON_ASSIGN(Runner runner, Runner::create(subject.engine, std::move(inputs), {}));
  subject.runner = std::make_unique<Runner>(std::move(runner));
  TENON_TRY(subject.runner->run());
  return subject;
}

/// The least seconds of the steps of each label.
Result<std::map<std::string, double>> secondsByLabel(Runner &runner) {
  std::vector<double> least;
  std::vector<uint32_t> instructions;
  for (int pass = 0; pass < kPasses; ++pass) {
    TENON_ASSIGN(std::vector<runtime::StepTime> steps, runner.session().timeSteps(1));
    least.resize(steps.size(), HUGE_VAL);
    instructions.resize(steps.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      least[i] = std::min(least[i], steps[i].seconds);
      instructions[i] = steps[i].instruction;
    }
  }
  std::map<std::string, double> seconds;
  const engine::Plan &plan = runner.session().activePlan();
  for (size_t i = 0; i < least.size(); ++i) {
    seconds[plan.instructions[instructions[i]].label] += least[i];
  }
  return seconds;
}

/// The median of some runs, as `bench` has it.
Result<double> medianSeconds(Subject &subject) {
  constexpr double kSeconds = 0.2;
  constexpr size_t kMinRuns = 5;
  TENON_TRY(subject.isGpu() ? subject.prepareGpu(/*isCold=*/false, {}) : Status::ok());
  BenchClock::time_point start = BenchClock::now();
  while (subject.samples().size() < kMinRuns || millisecondsSince(start) < kSeconds * 1000) {
    TENON_TRY(subject.runOnce(true));
  }
  double median = summarizeLatency(subject.samples()).median / 1000;
  subject.times.clear();
  subject.gpuTimes.clear();
  return median;
}

bool measuresGpu(const TuneRequest &request) { return !request.compile.gpus.empty(); }

class Tuner : public pipeline::CandidateMeasurer {
public:
  Tuner(const TuneRequest &tuneRequest, TaskListener &output, tuning::StoreWriter &storeWriter,
        std::string scratchFolder, tuning::Device ownDevice)
      : request(tuneRequest), listener(output), store(storeWriter),
        scratch(std::move(scratchFolder)), device(std::move(ownDevice)),
        records(store.found().records), database(records, {device}) {}

  Result<TuneResult> run() {
    TENON_TRY(chooseLevel());
    TENON_ASSIGN(Subject untuned, compileUntuned());
    TENON_ASSIGN(labelSeconds, secondsByLabel(*untuned.runner));
    TENON_ASSIGN(measureOptions.otherBytes, otherBytes(untuned.runner->session().memoryUse()));
    measureOptions.loadsTogether = measuresGpu(request);
    if (measuresGpu(request)) {
      measureOptions.maxDifference.reset();
    }
    measureOptions.allowNoise = request.allowNoise;
    measureOptions.cancel = listener.cancelFlag();
    // Steps that are timed one by one take longer than in a run: they have their shares of one.
    double steps = std::accumulate(labelSeconds.begin(), labelSeconds.end(), 0.0,
                                   [](double sum, const auto &each) { return sum + each.second; });
    TENON_ASSIGN(result.runSeconds, medianSeconds(untuned));
    for (auto &[label, seconds] : labelSeconds) {
      seconds *= steps > 0 ? result.runSeconds / steps : 1;
    }
    start = BenchClock::now();
    measureOptions.deadline = start + std::chrono::duration_cast<BenchClock::duration>(
                                          std::chrono::duration<double>(request.seconds));
    TENON_TRY(pipeline::measureKernels(candidateOptions(), {}, *this));
    result.tuneSeconds = millisecondsSince(start) / 1000;
    listener.clearProgress();
    TENON_TRY(checkDone());
    TENON_TRY(finish(untuned));
    std::stable_sort(
        result.problems.begin(), result.problems.end(),
        [](const TunedProblem &a, const TunedProblem &b) { return a.seconds > b.seconds; });
    return std::move(result);
  }

  Result<std::vector<size_t>> order(const std::vector<pipeline::TuningProblem> &problems) override {
    std::vector<size_t> order;
    std::map<std::string, double> regionsOfLabel; // which nodes of one name share
    for (const pipeline::TuningProblem &problem : problems) {
      for (const std::string &label : problem.labels) {
        ++regionsOfLabel[label];
      }
    }
    for (size_t i = 0; i < problems.size(); ++i) {
      const pipeline::TuningProblem &problem = problems[i];
      TunedProblem &own = result.problems.emplace_back();
      own.labels = problem.labels;
      own.why = problem.skipped;
      own.state = own.why.empty() ? own.state : ProblemState::FreeSizes;
      if (own.why.empty() && problem.kernels < 2) {
        own.why = fmt::format("{} is the only kernel for it", problem.untuned);
        own.state = ProblemState::Skipped;
      }
      for (const std::string &label : problem.labels) {
        own.seconds += labelSeconds[label] / regionsOfLabel[label];
      }
      tuning::TuningDatabase::Answer answer =
          database.find(problem.problem, std::vector{problem.level});
      if (own.why.empty() && own.seconds < kMinShare * result.runSeconds) {
        own.why = fmt::format("it takes less than {} % of a run", kMinShare * 100);
        own.state = ProblemState::TooShort;
      }
      if (own.why.empty() && answer.record && !request.measuresAgain) {
        own.state = ProblemState::Known;
        take(*answer.record, own);
      } else if (own.why.empty()) {
        order.push_back(i);
      }
      places[problem.problem.hash] = i;
    }
    auto rank = [&](size_t i) {
      return std::pair(problems[i].isProduct, result.problems[i].seconds);
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return rank(a) > rank(b); });
    left = order.size();
    noteBest();
    return order;
  }

  std::vector<std::string> warmStart(const pipeline::TuningProblem &problem) override {
    std::vector<std::string> kernels;
    if (const tuning::Record *nearest = database.nearest(problem.problem, problem.level)) {
      std::vector<tuning::Trial> trials = nearest->trials;
      std::stable_sort(trials.begin(), trials.end(),
                       [](const tuning::Trial &a, const tuning::Trial &b) {
                         return a.microseconds < b.microseconds;
                       });
      for (const tuning::Trial &trial : trials) {
        kernels.push_back(trial.kernel);
      }
    }
    return kernels;
  }

  Result<bool> measure(const pipeline::TuningProblem &problem,
                       const std::vector<pipeline::EngineCandidate> &candidates) override {
    TunedProblem &own = result.problems[places.at(problem.problem.hash)];
    double part =
        std::max(millisecondsSince(start) / 1000 / request.seconds, double(done) / double(left));
    listener.progress(fmt::format("tuning {}", problem.labels.front()), std::min(part, 1.0));
    TENON_ASSIGN(MeasureOutcome outcome, tool::measureCandidates(candidates, measureOptions));
    TENON_TRY(outcome.kernels.front().status); // which would fail in any compilation
    ++done;
    own.rounds = outcome.rounds;
    own.disturbed = outcome.disturbed;
    for (const MeasuredKernel &kernel : outcome.kernels) {
      if (!kernel.status) {
        own.refused.push_back(fmt::format("{}: {}", kernel.kernel, kernel.status.message()));
      }
    }
    if (outcome.end == MeasureEnd::TimeOver) {
      return false;
    }
    if (outcome.end == MeasureEnd::Disturbed) {
      own.state = ProblemState::Undecided;
      own.why = fmt::format("{} {} of {} rounds",
                            measuresGpu(request) ? "a lower clock of the GPU disturbed"
                                                 : "other programs disturbed",
                            outcome.disturbed, outcome.rounds + outcome.disturbed);
      return true;
    }
    tuning::Record record = recordOf(problem, outcome);
    TENON_TRY(remember(record));
    own.state = ProblemState::Measured;
    take(record, own);
    changed.push_back(std::move(record));
    noteBest();
    return true;
  }

private:
  /// The best level that the engine is for and this machine runs.
  Status chooseLevel() {
    std::vector<std::string> levels;
    for (engine::CpuLevel level : request.compile.levels) {
      levels.emplace_back(engine::nameOf(level));
    }
    for (const target::Target &gpu : request.compile.gpus) {
      levels.emplace_back(gpu.variant());
    }
    result.level = database.levelOf(levels);
    result.device = device.name;
    result.threads = device.threads;
    return result.level.empty()
               ? Status::error(ErrorId::EngineNoVariant,
                               "this machine cannot run any of the engine's levels",
                               "tune on a machine that can, or name a level of this one (tenon "
                               "doctor lists them)")
               : Status::ok();
  }

  /// What the other regions of the model read between two runs of one.
  Result<uint64_t> otherBytes(const runtime::MemoryUse &memory) const {
    uint64_t bytes = weightBytes + memory.arenaBytes;
    if (!measuresGpu(request)) {
      return bytes <= cacheOfCore() ? 0 : std::min(bytes, kMaxOtherBytes);
    }
    TENON_ASSIGN(uint64_t cache, cacheOfGpu());
    return bytes <= cache ? 0 : std::min(bytes, kCachesBetweenRuns * cache);
  }

  /// Of the one level that is measured; on a GPU with machine code where an assembler is installed,
  /// which takes less time than the driver and runs on all threads.
  pipeline::CompileOptions candidateOptions() const {
    pipeline::CompileOptions compile = request.compile;
    compile.output = scratch + "/race";
    compile.progress = nullptr;
    if (!measuresGpu(request)) {
      compile.levels = {*engine::parseCpuLevel(result.level)};
      compile.addsLevels = false;
      return compile;
    }
    compile.gpus = {measuredGpu()};
    if (Result<Ptxas> ptxas = Ptxas::find(""); ptxas && !compile.assembler) {
      compile.assembler = assemblerOf(std::move(*ptxas));
    }
    return compile;
  }

  const target::Target &measuredGpu() const {
    return *std::ranges::find(request.compile.gpus, result.level, &target::Target::variant);
  }

  Result<Subject> compileUntuned() {
    pipeline::CompileOptions compile = request.compile;
    compile.tuned = nullptr;
    compile.output = scratch + "/untuned.tenon";
    compile.stopAfter.reset();
    TENON_ASSIGN(pipeline::CompileSummary summary, compileModel(compile));
    weightBytes = summary.weightsBytes;
    return subjectOf(compile.output);
  }

  tuning::Record recordOf(const pipeline::TuningProblem &problem,
                          const MeasureOutcome &outcome) const {
    const target::Target &rates = measuresGpu(request) ? measuredGpu() : request.compile.cpu;
    std::span<const target::Target> parts = target::parts();
    bool isByBuiltInRates =
        target::describe(rates) == target::describe(target::cpuTarget()) ||
        std::ranges::any_of(parts, [&](const target::Target &part) {
          return part.isGpu() && target::describe(part) == target::describe(rates);
        });
    std::vector<tuning::Trial> trials;
    for (const MeasuredKernel &kernel : outcome.kernels) {
      if (kernel.microseconds > 0) {
        trials.push_back(
            {kernel.kernel, kernel.microseconds, isByBuiltInRates ? kernel.predicted : 0});
      }
    }
    return {.problem = problem.problem.hash,
            .form = problem.problem.form,
            .sizes = problem.problem.sizes,
            .label = problem.labels.front().substr(0, kMaxLabel),
            .device = device.name,
            .threads = device.threads,
            .level = problem.level,
            .libraries = device.libraries,
            .families = problem.problem.families,
            .kernel = outcome.winner,
            .untuned = outcome.kernels.front().kernel,
            .trials = std::move(trials),
            .time = now()};
  }

  Status remember(const tuning::Record &record) {
    TENON_TRY(store.append(record));
    records.push_back(record);
    database = tuning::TuningDatabase(records, {device});
    return Status::ok();
  }

  static void take(const tuning::Record &record, TunedProblem &problem) {
    problem.kernel = record.kernel;
    problem.untuned = record.untuned;
    problem.microseconds = record.microseconds();
    problem.untunedMicroseconds = record.untunedMicroseconds();
    problem.raced = record.trials.size();
  }

  /// A run by what is known so far.
  void noteBest() {
    double seconds = result.runSeconds;
    for (const TunedProblem &problem : result.problems) {
      seconds -= problem.seconds * (1 - 1 / problem.gain());
    }
    result.best.emplace_back(millisecondsSince(start) / 1000, seconds);
  }

  Status checkDone() const {
    auto count = [&](ProblemState state) {
      return std::ranges::count(result.problems, state, &TunedProblem::state);
    };
    if (count(ProblemState::Measured) + count(ProblemState::Known) > 0) {
      return Status::ok();
    }
    if (count(ProblemState::Undecided) > 0) {
      return Status::error(ErrorId::MachineTooBusy,
                           fmt::format("all measurements were disturbed ({})",
                                       result.problems[firstUndecided()].why),
                           measuresGpu(request)
                               ? "let the GPU cool down and end other programs on it, or keep what "
                                 "is faster in spite of it with --allow-noise"
                               : "stop them, or keep what is faster in spite of them with "
                                 "--allow-noise");
    }
    if (count(ProblemState::Left) > 0) {
      return Status::ok(); // the report says that the time was over
    }
    bool areFree = count(ProblemState::FreeSizes) > 0;
    return Status::error(ErrorId::NothingToTune,
                         areFree ? "all regions with a choice of kernels have sizes that vary"
                                 : "no region of the model has a choice of kernels",
                         areFree ? "fix them with --shape"
                                 : "tenon explain kernels ENGINE says why");
  }

  size_t firstUndecided() const {
    return static_cast<size_t>(
        std::ranges::find(result.problems, ProblemState::Undecided, &TunedProblem::state) -
        result.problems.begin());
  }

  Result<std::string> compileTuned(const std::string &path) {
    pipeline::CompileOptions compile = request.compile;
    compile.tuned = std::make_shared<const tuning::TuningDatabase>(database);
    compile.output = path;
    TENON_ASSIGN(pipeline::CompileSummary summary, compileModel(compile));
    return summary.engine;
  }

  /// The engine by the store. Where it is slower beyond noise than the untuned one, what was
  /// measured now is withdrawn: later records choose the untuned kernels.
  Status finish(Subject &untuned) {
    std::string path =
        request.compile.output.empty() ? scratch + "/tuned.tenon" : request.compile.output;
    bool isTuned = std::ranges::any_of(
        result.problems, [](const TunedProblem &problem) { return problem.isTuned(); });
    if (!isTuned && request.compile.output.empty()) {
      return Status::ok();
    }
    TENON_ASSIGN(std::string engine, compileTuned(path));
    result.engine = request.compile.output.empty() ? "" : engine;
    if (!isTuned) {
      return Status::ok();
    }
    TENON_ASSIGN(WholeGain whole, compareWith(untuned, path));
    showAsPartsOf(whole.untunedSeconds);
    if (whole.isWithdrawn) {
      TENON_TRY(withdraw());
      TENON_ASSIGN(engine, compileTuned(path));
    }
    result.whole = whole;
    return Status::ok();
  }

  Result<WholeGain> compareWith(Subject &untuned, const std::string &path) {
    TENON_ASSIGN(Subject tuned, subjectOf(path));
    TENON_TRY(tuned.isGpu() ? tuned.prepareGpu(/*isCold=*/false, {}) : Status::ok());
    std::vector<Subject> both;
    both.push_back(std::move(untuned));
    both.push_back(std::move(tuned));
    MeasureBudget budget;
    budget.seconds = measuresGpu(request) ? kGpuCompareSeconds : kCompareSeconds;
    TENON_TRY(measureInterleaved(budget, both, listener));
    listener.clearProgress();
    // Above 1: the untuned one takes longer.
    RatioSummary ratio = compareLatency(both[1].samples(), both[0].samples());
    WholeGain whole{.untunedSeconds = summarizeLatency(both[0].samples()).median / 1000,
                    .tunedSeconds = summarizeLatency(both[1].samples()).median / 1000,
                    .ratio = ratio.ofMedians,
                    .low = ratio.low,
                    .high = ratio.high};
    whole.isWithdrawn = ratio.ofMinima < 1 / kNoise && ratio.high < 1;
    return whole;
  }

  /// The times of problems, and predictions by them, as parts of a run of so many seconds.
  void showAsPartsOf(double seconds) {
    double change = result.runSeconds > 0 ? seconds / result.runSeconds : 1;
    for (TunedProblem &problem : result.problems) {
      problem.seconds *= change;
    }
    for (auto &[elapsed, run] : result.best) {
      run *= change;
    }
    result.runSeconds = seconds;
  }

  Status withdraw() {
    for (tuning::Record record : changed) {
      record.kernel = record.untuned;
      record.time = std::max(now(), record.time + 1);
      TENON_TRY(remember(record));
    }
    for (TunedProblem &problem : result.problems) {
      problem.kernel = problem.untuned;
      problem.microseconds = problem.untunedMicroseconds;
    }
    return Status::ok();
  }

  static constexpr size_t kMaxLabel = 200;

  const TuneRequest &request;
  TaskListener &listener;
  tuning::StoreWriter &store;
  std::string scratch;
  tuning::Device device;
  std::vector<tuning::Record> records;
  tuning::TuningDatabase database;
  MeasureOptions measureOptions;
  uint64_t weightBytes = 0; ///< of the untuned engine
  std::map<std::string, double> labelSeconds;
  std::map<std::string, size_t> places; ///< of problems in the result
  std::vector<tuning::Record> changed;  ///< measured now
  BenchClock::time_point start = BenchClock::now();
  size_t left = 0, done = 0;
  TuneResult result;
};

} // namespace

Result<TuneResult> tuneModel(const TuneRequest &request, TaskListener &listener) {
  if (measuresGpu(request) == !request.compile.levels.empty()) {
    return Status::error(ErrorId::BadArgument,
                         "tune measures on one device, but the targets are CPUs and GPUs",
                         "tune for each by itself: the store keeps both, and compile uses both");
  }
  TENON_ASSIGN(tuning::Device device,
               measuresGpu(request) ? localGpuDevice() : Result<tuning::Device>(localCpuDevice()));
  TENON_ASSIGN(tuning::StoreWriter store, tuning::StoreWriter::open(request.store));
  noteFaults(store.found(), listener.notice());
  TENON_ASSIGN(ScratchFolder scratch, ScratchFolder::create("tenon-tune"));
  return Tuner(request, listener, store, scratch.path(), std::move(device)).run();
}

} // namespace tenon::tool
