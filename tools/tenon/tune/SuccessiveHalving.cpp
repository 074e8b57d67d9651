// Relies on the timed steps of a session: what a kernel takes, without what a call takes around it.
// On a CPU neighbours only ever add, so the least time of a kernel counts; that another one is
// faster is said by the paired samples too.

#include "tools/tenon/tune/SuccessiveHalving.h"

#include "support/threads/ThreadPool.h"
#include "tools/tenon/bench/Difference.h"
#include "tools/tenon/bench/NoiseProbe.h"
#include "tools/tenon/bench/Statistics.h"
#include "tools/tenon/inputs/Inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tenon::tool {
namespace {

/// Kernels of one region differ by roundings; what differs more computes something else.
constexpr double kMaxDifference = 0.05;
/// Of its time, what a kernel must gain to be taken.
constexpr double kMinGain = 0.01;
/// Samples of kernels whose data stay in the caches are repeated to this length, so that the clock
/// does not count.
constexpr double kSampleSeconds = 100e-6;
constexpr unsigned kMaxRepeats = 50;
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
  std::string kernel;
  double predicted = 0; ///< microseconds
  std::unique_ptr<Runner> runner;
  std::vector<double> microseconds; ///< of rounds that count
  unsigned repeats = 1;

  double least() const { return *std::ranges::min_element(microseconds); }
};

class SuccessiveHalving {
public:
  explicit SuccessiveHalving(const MeasureOptions &measureOptions) : options(measureOptions) {}

  Status open(const std::vector<pipeline::EngineCandidate> &candidates) {
    if (options.otherBytes > 0) {
      TENON_ASSIGN(OtherData data, OtherData::create(options.otherBytes));
      others.emplace(std::move(data));
    }
    for (const pipeline::EngineCandidate &candidate : candidates) {
      Result<Candidate> opened = openOne(candidate);
      if (!opened && all.empty()) {
        return opened.takeStatus();
      }
      if (!opened) {
        outcome.refused.push_back(
            fmt::format("{}: {}", candidate.kernel, opened.status().message()));
        continue;
      }
      double difference =
          all.empty() ? 0 : differenceOfOutputs(*opened->runner, *all.front().runner);
      if (difference <= kMaxDifference) {
        all.push_back(std::move(*opened));
      } else {
        outcome.refused.push_back(
            fmt::format("{}: its results differ by {:.1e}", candidate.kernel, difference));
      }
    }
    return Status::ok();
  }

  Result<MeasureOutcome> run() {
    std::vector<Candidate *> running;
    for (Candidate &candidate : all) {
      running.push_back(&candidate);
    }
    while (outcome.end == MeasureEnd::Decided) {
      TENON_TRY(runStage(running));
      if (running.size() <= 3 || outcome.end != MeasureEnd::Decided) {
        break;
      }
      dropSlower(running);
    }
    outcome.winner = all.front().kernel;
    if (outcome.end == MeasureEnd::Decided) {
      decide(running);
    }
    for (const Candidate &candidate : all) {
      if (!candidate.microseconds.empty()) {
        outcome.trials.push_back({candidate.kernel, candidate.least(), candidate.predicted});
      }
    }
    return std::move(outcome);
  }

private:
  Result<Candidate> openOne(const pipeline::EngineCandidate &given) {
    runtime::EngineOptions engineOptions;
    engineOptions.cacheFolder = "";
    engineOptions.verifyWeights = false; // written just now
    TENON_ASSIGN(std::shared_ptr<const runtime::Engine> engine,
                 runtime::Engine::open(given.engine, engineOptions));
    TENON_ASSIGN(std::vector<Tensor> inputs, makeInputs({}, *engine));
    TENON_ASSIGN(Runner runner, Runner::create(engine, std::move(inputs), {}));
    Candidate candidate{given.kernel,
                        given.predictedMicroseconds,
                        std::make_unique<Runner>(std::move(runner)),
                        {},
                        1};
    TENON_TRY(candidate.runner->run());
    TENON_ASSIGN(double microseconds, sample(candidate));
    if (!others) {
      double repeats = kSampleSeconds * 1e6 / std::max(microseconds, 1e-3);
      candidate.repeats = static_cast<unsigned>(std::clamp(repeats, 1.0, double(kMaxRepeats)));
    }
    return candidate;
  }

  Result<double> sample(Candidate &candidate) {
    if (others) {
      others->read(candidate.runner->inputs());
    }
    TENON_ASSIGN(std::vector<runtime::StepTime> steps,
                 candidate.runner->session().timeSteps(candidate.repeats));
    double seconds = 0;
    for (const runtime::StepTime &step : steps) {
      seconds += step.seconds;
    }
    return seconds * 1e6;
  }

  /// One sample of each, there and back in turn; nothing is kept of a round that was disturbed.
  Status runRound(const std::vector<Candidate *> &running, bool &isKept) {
    std::vector<double> times(running.size());
    RoundWatch watch;
    for (size_t i = 0; i < running.size(); ++i) {
      size_t place = (outcome.rounds + outcome.disturbed) % 2 == 0 ? i : running.size() - 1 - i;
      TENON_ASSIGN(times[place], sample(*running[place]));
    }
    RoundWatch::Seen seen = watch.end(running.front()->runner->session().threads());
    fastestProbe = std::min(fastestProbe, seen.probe);
    bool isQuiet = seen.waited <= kMaxWaiting && seen.probe <= fastestProbe * kMaxSlowdown;
    outcome.disturbed += isQuiet ? 0 : 1;
    isKept = isQuiet || options.allowNoise;
    for (size_t i = 0; i < running.size() && isKept; ++i) {
      running[i]->microseconds.push_back(times[i]);
    }
    outcome.rounds += isKept ? 1 : 0;
    return Status::ok();
  }

  Status runStage(const std::vector<Candidate *> &running) {
    size_t rounds = roundsOf(running.size()), kept = 0;
    for (size_t tried = 0; kept < rounds; ++tried) {
      if (options.cancel && options.cancel->load()) {
        return Status::error(ErrorId::Cancelled, "tuning was cancelled",
                             "start it again: it goes on where it was");
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
    const Candidate *best = *std::ranges::min_element(
        last, {}, [](const Candidate *candidate) { return candidate->least(); });
    if (best == &untuned) {
      return;
    }
    RatioSummary ratio = compareLatency(pairedSamples(untuned, *best), best->microseconds);
    if (ratio.ofMinima < 1 - kMinGain && ratio.high < 1) {
      outcome.winner = best->kernel;
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
