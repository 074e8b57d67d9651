// A pass is a run and a run with timed steps, between two probes. Passes count where the probe
// ran as fast as ever and no thread of ours waited for a CPU; of these the fastest quarter, as
// neighbours on a machine only ever add.

#include "tools/tenon/profile/Measure.h"

#include "support/threads/ThreadPool.h"
#include "tools/tenon/bench/NoiseProbe.h"
#include "tools/tenon/bench/Statistics.h"
#include "tools/tenon/bench/Subject.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tenon::tool {
namespace {

constexpr size_t kMinPasses = 5, kMaxPasses = 5000, kMinQuiet = 3;
/// Where a pass takes long, fewer passes than kMinPasses have to do.
constexpr double kLongestTimes = 2;
/// Runs shorter than this are timed several in a row, so that the clock does not count.
constexpr double kShortRun = 200e-6;
constexpr unsigned kMaxInARow = 100;
/// Experiments that would take longer are left out.
constexpr double kLongestExperiment = 2.5;
constexpr unsigned kRepeats = 3;
constexpr unsigned kGpuRepeats = 20;
/// A run on a GPU, against its steps, from which on the rest is worth a word.
constexpr double kGaps = 1.1;
/// The steps by themselves, against a run, from which on their times are no evidence: 1.09 at most
/// was seen where nothing disturbed, and some steps may run beside others.
constexpr double kSlowed = 2;

double secondsSince(BenchClock::time_point start) { return millisecondsSince(start) / 1000; }

struct Pass {
  double run = 0;
  double timed = 0;
  std::vector<runtime::StepTime> steps;
  RoundWatch::Seen seen;
};

double timedSum(const std::vector<runtime::StepTime> &steps) {
  return std::accumulate(
      steps.begin(), steps.end(), 0.0,
      [](double sum, const runtime::StepTime &step) { return sum + step.seconds; });
}

Result<double> secondsOfRuns(Runner &runner, unsigned count) {
  BenchClock::time_point start = BenchClock::now();
  for (unsigned i = 0; i < count; ++i) {
    TENON_TRY(runner.run());
  }
  return secondsSince(start) / count;
}

Result<Pass> measurePass(Runner &runner, unsigned inARow) {
  Pass pass;
  RoundWatch watch;
  TENON_ASSIGN(pass.run, secondsOfRuns(runner, inARow));
  TENON_ASSIGN(pass.steps, runner.session().timeSteps(inARow));
  pass.seen = watch.end(runner.session().threads());
  pass.timed = timedSum(pass.steps);
  return pass;
}

/// The fastest quarter by `key`, kMinQuiet at least where there are so many.
template <typename Key>
std::vector<const Pass *> fastestOf(std::vector<const Pass *> passes, Key key) {
  std::ranges::sort(passes, {}, key);
  passes.resize(std::min(passes.size(), std::max(kMinQuiet, passes.size() / 4)));
  return passes;
}

template <typename Key> double meanOf(const std::vector<const Pass *> &passes, Key key) {
  double sum = 0;
  for (const Pass *pass : passes) {
    sum += key(pass);
  }
  return sum / static_cast<double>(passes.size());
}

std::vector<const Pass *> quietOf(const std::vector<Pass> &passes, Measurement &found) {
  std::vector<const Pass *> all, quiet;
  std::vector<double> probes;
  double fastest = HUGE_VAL;
  for (const Pass &pass : passes) {
    fastest = std::min(fastest, pass.seen.probe);
    probes.push_back(pass.seen.probe);
    // A wait may be counted when it ends, after it began in an earlier pass.
    found.othersShare += std::min(pass.seen.waited, 1.0) / static_cast<double>(passes.size());
    found.runs.push_back(pass.run);
  }
  for (const Pass &pass : passes) {
    all.push_back(&pass);
    if (pass.seen.waited <= kMaxWaiting && pass.seen.probe <= fastest * kMaxSlowdown) {
      quiet.push_back(&pass);
    }
  }
  found.passes = passes.size();
  found.discarded = passes.size() - quiet.size();
  found.slowdown = fastest > 0 ? summarizeLatency(probes).median / fastest : 1;
  found.isDisturbed = quiet.size() < std::min(kMinQuiet, passes.size());
  return found.isDisturbed ? all : quiet;
}

void summarize(const std::vector<Pass> &passes, Measurement &found) {
  std::vector<const Pass *> counted = quietOf(passes, found);
  std::vector<const Pass *> timed =
      fastestOf(counted, [](const Pass *pass) { return pass->timed; });
  found.timedSeconds = meanOf(timed, [](const Pass *pass) { return pass->timed; });
  auto run = [](const Pass *pass) { return pass->run; };
  found.runSeconds = meanOf(fastestOf(counted, run), run);
  for (size_t i = 0; i < passes.front().steps.size(); ++i) {
    const runtime::StepTime &step = passes.front().steps[i];
    std::vector<double> seconds;
    for (const Pass *pass : timed) {
      seconds.push_back(pass->steps[i].seconds);
    }
    found.steps.push_back(
        {.instruction = step.instruction,
         .seconds = meanOf(timed, [&](const Pass *pass) { return pass->steps[i].seconds; }),
         .medianSeconds = summarizeLatency(seconds).median,
         .busySeconds = meanOf(timed, [&](const Pass *pass) { return pass->steps[i].busySeconds; }),
         .flops = static_cast<double>(step.flops.value_or(0)),
         .bytes = static_cast<double>(step.bytesMoved.value_or(0)),
         .oneThreadSeconds = std::nullopt,
         .inARowSeconds = std::nullopt});
  }
}

/// The least time of each step over a few passes.
Result<std::vector<double>> leastSteps(Runner &runner, unsigned passes, unsigned count,
                                       runtime::StepOrder order) {
  std::vector<double> least;
  for (unsigned pass = 0; pass < passes; ++pass) {
    TENON_ASSIGN(std::vector<runtime::StepTime> steps, runner.session().timeSteps(count, order));
    least.resize(steps.size(), HUGE_VAL);
    for (size_t i = 0; i < steps.size(); ++i) {
      least[i] = std::min(least[i], steps[i].seconds);
    }
  }
  return least;
}

/// Passes of an experiment of which each takes so long; 0 to leave it out.
unsigned passesOf(double seconds) {
  return seconds > kLongestExperiment
             ? 0
             : static_cast<unsigned>(std::clamp(kLongestExperiment / 3 / seconds, 1.0, 10.0));
}

Result<double> leastRun(Runner &runner, unsigned passes) {
  double least = HUGE_VAL;
  for (unsigned pass = 0; pass < passes; ++pass) {
    TENON_ASSIGN(double seconds, secondsOfRuns(runner, 1));
    least = std::min(least, seconds);
  }
  return least;
}

/// One thread, and all CPUs where the profile is of fewer.
Status tryThreads(unsigned threads, const MakeRunner &make, Measurement &found) {
  if (threads < usableCpus()) {
    TENON_ASSIGN(Runner all, make(usableCpus()));
    TENON_TRY(all.run());
    TENON_ASSIGN(found.allThreadsRun, leastRun(all, std::max(passesOf(found.runSeconds), 2u)));
  }
  unsigned passes = passesOf(found.runSeconds * threads);
  if (threads == 1 || passes == 0) {
    if (threads > 1) {
      found.notes.push_back("runs take too long to be repeated by one thread");
    }
    return Status::ok();
  }
  TENON_ASSIGN(Runner alone, make(1));
  TENON_TRY(alone.run());
  TENON_ASSIGN(found.oneThreadRun, leastRun(alone, passes));
  TENON_ASSIGN(std::vector<double> steps,
               leastSteps(alone, passes, 1, runtime::StepOrder::WithinRuns));
  for (size_t i = 0; i < steps.size() && i < found.steps.size(); ++i) {
    found.steps[i].oneThreadSeconds = steps[i];
  }
  return Status::ok();
}

/// Steps that run again at once find their operands in caches. One that writes over what it reads
/// may then read anything, and fail: nothing is known of caches after that.
void tryCaches(Runner &runner, Measurement &found) {
  unsigned passes = passesOf(found.runSeconds * (kRepeats + 1));
  Result<std::vector<double>> steps =
      leastSteps(runner, passes, kRepeats, runtime::StepOrder::InARow);
  if (passes == 0 || !steps) {
    found.notes.push_back("steps could not be repeated in a row");
    return;
  }
  for (size_t i = 0; i < steps->size() && i < found.steps.size(); ++i) {
    found.steps[i].inARowSeconds = (*steps)[i];
  }
}

Result<Measurement> measureGpu(Runner &runner) {
  Measurement found;
  TENON_ASSIGN(found.runSeconds, runner.session().timeRuns(kGpuRepeats));
  found.runs.push_back(found.runSeconds);
  TENON_ASSIGN(std::vector<runtime::StepTime> steps, runner.session().timeSteps(kGpuRepeats));
  for (const runtime::StepTime &step : steps) {
    found.steps.push_back({.instruction = step.instruction,
                           .seconds = step.seconds,
                           .medianSeconds = step.seconds,
                           .flops = static_cast<double>(step.flops.value_or(0)),
                           .bytes = static_cast<double>(step.bytesMoved.value_or(0)),
                           .oneThreadSeconds = std::nullopt,
                           .inARowSeconds = std::nullopt});
  }
  found.timedSeconds = timedSum(steps);
  found.passes = 1;
  found.notes.push_back("on a GPU each step is timed by itself, with its operands in caches");
  if (found.timedSeconds > kSlowed * found.runSeconds) {
    found.isDisturbed = true;
    found.discarded = found.passes;
    found.notes.push_back(fmt::format("the steps by themselves take {:.1f} x as long as a run: "
                                      "something slows down each start, as a debugger does",
                                      found.timedSeconds / found.runSeconds));
  }
  if (found.runSeconds > kGaps * found.timedSeconds) {
    found.notes.push_back(fmt::format("a run takes {:.2f} x its steps by themselves: between them "
                                      "kernels start, and weights come from memory",
                                      found.runSeconds / found.timedSeconds));
  }
  return found;
}

} // namespace

Result<Measurement> measureSteps(Runner &runner, const MakeRunner &make, double seconds,
                                 TaskListener &listener) {
  TENON_TRY(runner.run());
  if (runner.session().engine().gpu()) {
    return measureGpu(runner);
  }
  TENON_ASSIGN(double first, secondsOfRuns(runner, 1));
  unsigned inARow =
      static_cast<unsigned>(std::clamp(kShortRun / std::max(first, 1e-9), 1.0, double(kMaxInARow)));
  std::vector<Pass> passes;
  BenchClock::time_point start = BenchClock::now();
  auto elapsed = [&] { return secondsSince(start); };
  while (passes.size() < kMaxPasses &&
         (passes.empty() || elapsed() < seconds ||
          (passes.size() < kMinPasses && elapsed() < seconds * kLongestTimes))) {
    TENON_ASSIGN(Pass pass, measurePass(runner, inARow));
    passes.push_back(std::move(pass));
    listener.progress("measuring", std::min(elapsed() / seconds, 1.0));
  }
  Measurement found;
  summarize(passes, found);
  listener.progress("experiments", 0);
  TENON_TRY(tryThreads(runner.session().threads(), make, found));
  tryCaches(runner, found);
  listener.clearProgress();
  return found;
}

} // namespace tenon::tool
