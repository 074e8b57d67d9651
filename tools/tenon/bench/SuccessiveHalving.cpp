// Relies on the timed steps of a session: what a kernel takes, without what a call takes around it.
// Neighbours only ever add, so the least time of a kernel counts; that another one is faster is
// said by the paired samples too.

#include "tools/tenon/bench/SuccessiveHalving.h"

#include "support/threads/ThreadPool.h"
#include "tools/tenon/bench/Difference.h"
#include "tools/tenon/bench/GpuRace.h"
#include "tools/tenon/bench/NoiseProbe.h"
#include "tools/tenon/bench/Statistics.h"
#include "tools/tenon/inputs/Inputs.h"
#include "tools/tenon/target/LocalGpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <optional>

namespace tenon::tool {
namespace {

/// Of its time, what a kernel must gain to be taken.
constexpr double kMinGain = 0.01;
/// Samples of kernels whose data stay in the caches are repeated to this length, so that the clock
/// does not count.
constexpr double kSampleSeconds = 100e-6;
constexpr unsigned kMaxRepeats = 50;
/// On a GPU, so that starting a graph does not count, which takes more than a small kernel:
/// launches in a row, as they follow each other in a model.
constexpr double kGpuSampleSeconds = 2e-3;
/// From the fastest run of a kernel that counts the GPU's clock: beyond, a round was disturbed.
constexpr double kMaxGpuSlowdown = 1.02;
/// Where no operand is to be in the caches: so many times what these hold.
constexpr uint64_t kCachesOfOthers = 2;
/// A stage ends without a decision when so many times its rounds were disturbed, and a few more.
constexpr size_t kPatience = 8, kMorePatience = 4;

/// Rounds of a stage with so many kernels: all of 16, 8, 4 and 2 cost the same.
size_t roundsOf(size_t kernels) { return kernels > 9 ? 2 : kernels > 5 ? 4 : kernels > 3 ? 8 : 16; }
/// Kernels of the next stage, besides the one without tuning.
size_t kernelsAfter(size_t kernels) { return kernels > 9 ? 8 : kernels > 5 ? 4 : 2; }

/// Puts other data into the caches of all threads, as other regions of the model do between two
/// runs.
class OtherData {
public:
  static Result<OtherData> create(uint64_t bytes) {
    OtherData data;
    data.buffer.assign(bytes / sizeof(uint64_t), 1);
    TENON_ASSIGN(data.pool, ThreadPool::create(usableCpus()));
    return data;
  }

  /// `kept` are read last: inputs come from the region before.
  void read(const std::vector<Tensor> &kept) {
    constexpr int64_t kBlock = int64_t{1} << 13; // words, so that threads take turns
    int64_t blocks = static_cast<int64_t>(buffer.size()) / kBlock;
    pool->parallelFor(blocks, [&](int64_t begin, int64_t end, unsigned) {
      uint64_t sum = 0;
      for (int64_t i = begin * kBlock; i < end * kBlock; ++i) {
        sum += buffer[static_cast<size_t>(i)];
      }
      sink.fetch_add(sum, std::memory_order_relaxed);
    });
    for (const Tensor &tensor : kept) {
      Bytes bytes = tensor.data.bytes();
      pool->parallelFor(static_cast<int64_t>(bytes.size() / kLine),
                        [&](int64_t begin, int64_t end, unsigned) {
                          uint64_t sum = 0;
                          for (int64_t i = begin; i < end; ++i) {
                            sum += static_cast<uint64_t>(bytes[static_cast<size_t>(i) * kLine]);
                          }
                          sink.fetch_add(sum, std::memory_order_relaxed);
                        });
    }
  }

private:
  static constexpr size_t kLine = 64;
  static inline std::atomic<uint64_t> sink = 0; ///< so that reads are not left out

  std::vector<uint64_t> buffer;
  std::unique_ptr<ThreadPool> pool;
};

struct Candidate {
  size_t index = 0;                  ///< of the candidates given
  std::unique_ptr<Runner> runner;    ///< on a CPU
  std::unique_ptr<GpuContender> gpu; ///< on a GPU
  std::vector<double> microseconds;  ///< of rounds that count
  unsigned repeats = 1;

  runtime::Session &session() const { return gpu ? gpu->session() : runner->session(); }
  double least() const { return *std::ranges::min_element(microseconds); }
};

class SuccessiveHalving {
public:
  explicit SuccessiveHalving(const MeasureOptions &measureOptions) : options(measureOptions) {}

  Status open(const std::vector<pipeline::EngineCandidate> &candidates) {
    std::vector<Loading> engines;
    for (const pipeline::EngineCandidate &candidate : candidates) {
      engines.push_back(load(candidate));
    }
    for (size_t i = 0; i < candidates.size(); ++i) {
      MeasuredKernel kernel{.kernel = candidates[i].kernel,
                            .predicted = candidates[i].predictedMicroseconds,
                            .status = Status::ok()};
      Result<std::shared_ptr<const runtime::Engine>> engine = engines[i].get();
      kernel.status = engine ? openOne(std::move(*engine), kernel) : engine.takeStatus();
      outcome.kernels.push_back(std::move(kernel));
    }
    return Status::ok();
  }

  Result<MeasureOutcome> run() {
    std::vector<Candidate *> running;
    for (Candidate &candidate : all) {
      running.push_back(&candidate);
    }
    while (!all.empty() && outcome.end == MeasureEnd::Decided) {
      TENON_TRY(runStage(running));
      if (running.size() <= 3 || outcome.end != MeasureEnd::Decided) {
        break;
      }
      dropSlower(running);
    }
    if (!all.empty()) {
      decide(running);
    }
    for (const Candidate &candidate : all) {
      outcome.kernels[candidate.index].microseconds =
          candidate.microseconds.empty() ? 0 : candidate.least();
    }
    return std::move(outcome);
  }

private:
  using Loading = std::future<Result<std::shared_ptr<const runtime::Engine>>>;

  Loading load(const pipeline::EngineCandidate &given) const {
    return std::async(options.loadsTogether ? std::launch::async : std::launch::deferred,
                      [&given]() -> Result<std::shared_ptr<const runtime::Engine>> {
                        TENON_TRY(Status(given.compiled));
                        runtime::EngineOptions engineOptions;
                        engineOptions.cacheFolder = "";
                        engineOptions.verifyWeights = false; // written just now
                        return runtime::Engine::open(given.engine, engineOptions);
                      });
  }

  /// What runs and sees between the runs on the device of the first engine.
  Status openDevice(const runtime::Engine &engine) {
    if (!engine.gpu()) {
      if (options.otherBytes > 0) {
        TENON_ASSIGN(OtherData data, OtherData::create(options.otherBytes));
        others.emplace(std::move(data));
      }
      return Status::ok();
    }
    GpuRaceOptions raceOptions{
        .gpu = *engine.gpu(), .otherBytes = options.otherBytes, .writesInputs = !options.isCold};
    if (options.isCold) {
      TENON_ASSIGN(uint64_t cache, cacheOfGpu());
      raceOptions.otherBytes = kCachesOfOthers * cache;
    }
    TENON_ASSIGN(std::vector<Tensor> inputs, seededInputs(engine));
    TENON_ASSIGN(race, GpuRace::create(raceOptions, inputs));
    return Status::ok();
  }

  Result<std::vector<Tensor>> seededInputs(const runtime::Engine &engine) const {
    InputFlags flags;
    flags.seed = options.seed;
    return makeInputs(flags, engine);
  }

  /// A session with the results of a first run, or why this kernel is not timed.
  Status openOne(std::shared_ptr<const runtime::Engine> engine, MeasuredKernel &kernel) {
    if (!isOpen) {
      TENON_TRY(openDevice(*engine));
      isOpen = true;
    }
    Candidate candidate;
    candidate.index = outcome.kernels.size();
    if (race) {
      TENON_ASSIGN(candidate.gpu, race->add(engine, options.session));
    } else {
      TENON_ASSIGN(std::vector<Tensor> inputs, seededInputs(*engine));
      TENON_ASSIGN(Runner runner, Runner::create(engine, std::move(inputs), options.session));
      candidate.runner = std::make_unique<Runner>(std::move(runner));
      TENON_TRY(candidate.runner->run());
    }
    TENON_TRY(compare(candidate, kernel));
    TENON_ASSIGN(double microseconds, sample(candidate));
    if (!others) {
      double seconds = engine->gpu() ? kGpuSampleSeconds : kSampleSeconds;
      double repeats = seconds * 1e6 / std::max(microseconds, 1e-3);
      candidate.repeats = static_cast<unsigned>(std::clamp(repeats, 1.0, double(kMaxRepeats)));
    }
    all.push_back(std::move(candidate));
    return Status::ok();
  }

  /// With the results of the first kernel that runs.
  Status compare(const Candidate &candidate, MeasuredKernel &kernel) {
    std::vector<Tensor> fetched;
    if (candidate.gpu) {
      TENON_ASSIGN(fetched, candidate.gpu->outputs());
    }
    const std::vector<Tensor> &outputs = candidate.gpu ? fetched : candidate.runner->outputs();
    const std::vector<Tensor> &reference = all.empty()       ? outputs
                                           : all.front().gpu ? firstOutputs
                                                             : all.front().runner->outputs();
    kernel.difference = differenceOfOutputs(outputs, reference);
    if (kernel.difference > options.maxDifference.value_or(largestRounding(outputs))) {
      return Status::error(ErrorId::VerifyFailed,
                           fmt::format("its results differ by {:.1e}", kernel.difference));
    }
    if (all.empty()) {
      firstOutputs = std::move(fetched);
    }
    return Status::ok();
  }

  Result<double> sample(Candidate &candidate) {
    if (others) {
      others->read(candidate.runner->inputs());
    }
    if (candidate.gpu && (options.isCold || options.otherBytes > 0)) {
      TENON_ASSIGN(double seconds, candidate.gpu->seconds());
      return seconds * 1e6;
    }
    TENON_ASSIGN(std::vector<runtime::StepTime> steps,
                 candidate.session().timeSteps(candidate.repeats));
    double seconds = 0;
    for (const runtime::StepTime &step : steps) {
      seconds += step.seconds;
    }
    return seconds * 1e6;
  }

  /// One sample of each, there and back in turn; nothing is kept of a round that was disturbed.
  Status runRound(const std::vector<Candidate *> &running, bool &isKept) {
    std::vector<double> times(running.size());
    TENON_ASSIGN(double clockBefore, race ? race->clockSeconds() : Result<double>(0.0));
    RoundWatch watch;
    for (size_t i = 0; i < running.size(); ++i) {
      size_t place = (outcome.rounds + outcome.disturbed) % 2 == 0 ? i : running.size() - 1 - i;
      TENON_ASSIGN(times[place], sample(*running[place]));
    }
    RoundWatch::Seen seen = watch.end(running.front()->session().threads());
    if (race) { // which does not wait for CPUs
      TENON_ASSIGN(double clockAfter, race->clockSeconds());
      seen = {.waited = 0, .probe = std::max(clockBefore, clockAfter)};
    }
    fastestProbe = std::min(fastestProbe, seen.probe);
    double slowdown = race ? kMaxGpuSlowdown : kMaxSlowdown;
    bool isQuiet = seen.waited <= kMaxWaiting && seen.probe <= fastestProbe * slowdown;
    outcome.disturbed += isQuiet ? 0 : 1;
    isKept = isQuiet || options.allowNoise;
    for (size_t i = 0; i < running.size() && isKept; ++i) {
      running[i]->microseconds.push_back(times[i]);
    }
    outcome.rounds += isKept ? 1 : 0;
    return Status::ok();
  }

  Status runStage(const std::vector<Candidate *> &running) {
    size_t rounds = std::max(roundsOf(running.size()), options.minRounds), kept = 0;
    for (size_t tried = 0; kept < rounds; ++tried) {
      if (options.cancel && options.cancel->load()) {
        return Status::error(ErrorId::Cancelled, "tuning was cancelled",
                             "start it again to continue where it stopped");
      }
      bool isLate = BenchClock::now() >= options.deadline;
      if (isLate || tried >= kPatience * rounds + kMorePatience) {
        outcome.end = isLate ? MeasureEnd::TimeOver : MeasureEnd::Disturbed;
        return Status::ok();
      }
      bool isKept = false;
      TENON_TRY(runRound(running, isKept));
      kept += isKept ? 1 : 0;
    }
    return Status::ok();
  }

  /// The kernel without tuning stays, as what the others are compared with.
  void dropSlower(std::vector<Candidate *> &running) {
    Candidate *untuned = running.front();
    std::stable_sort(running.begin(), running.end(), [](const Candidate *a, const Candidate *b) {
      return a->least() < b->least();
    });
    running.resize(std::min(running.size(), kernelsAfter(running.size())));
    std::erase(running, untuned);
    running.insert(running.begin(), untuned);
  }

  void decide(const std::vector<Candidate *> &last) {
    const Candidate &untuned = all.front();
    outcome.winner = outcome.kernels[untuned.index].kernel;
    if (outcome.end != MeasureEnd::Decided) {
      return;
    }
    const Candidate *best = *std::ranges::min_element(
        last, {}, [](const Candidate *candidate) { return candidate->least(); });
    if (best == &untuned) {
      return;
    }
    RatioSummary ratio = compareLatency(pairedSamples(untuned, *best), best->microseconds);
    if (ratio.ofMinima < 1 - kMinGain && ratio.high < 1) {
      outcome.winner = outcome.kernels[best->index].kernel;
    }
  }

  /// Both ran in every round up to the last of `other`.
  static std::vector<double> pairedSamples(const Candidate &candidate, const Candidate &other) {
    std::vector<double> samples = candidate.microseconds;
    samples.resize(std::min(samples.size(), other.microseconds.size()));
    return samples;
  }

  const MeasureOptions &options;
  std::optional<OtherData> others;
  std::unique_ptr<GpuRace> race;    ///< on a GPU
  bool isOpen = false;              ///< of the two above, the one that is wanted
  std::vector<Tensor> firstOutputs; ///< on a GPU, of the first candidate that runs
  std::vector<Candidate> all;
  MeasureOutcome outcome;
  double fastestProbe = HUGE_VAL;
};

} // namespace

Result<MeasureOutcome> measureCandidates(const std::vector<pipeline::EngineCandidate> &candidates,
                                         const MeasureOptions &options) {
  SuccessiveHalving halving(options);
  TENON_TRY(halving.open(candidates));
  return halving.run();
}

} // namespace tenon::tool
