// Implements the rounds. A block of runs follows one that does not count, which brings back the
// caches and threads that the others used.

#include "tools/tenon/bench/Interleaved.h"

#include <algorithm>

namespace tenon::tool {
namespace {

constexpr size_t kMinRuns = 10;
constexpr size_t kMaxRuns = 100000;
/// Runs in a row before the other subject has its turn.
constexpr size_t kBlock = 5;
constexpr double kWarmupShare = 0.2;
constexpr size_t kMinGpuRuns = 200;

size_t ceilDiv(size_t a, size_t b) { return (a + b - 1) / b; }

/// A few runs in a row, the first of which only brings back the caches and threads that the other
/// used.
Status runBlock(Subject &subject, size_t runs, bool isAlone) {
  if (!isAlone) {
    TENON_TRY(subject.runOnce(false));
  }
  for (size_t i = 0; i < runs; ++i) {
    TENON_TRY(subject.runOnce(true));
  }
  return Status::ok();
}

} // namespace

Status measureInterleaved(const MeasureBudget &allowed, std::vector<Subject> &subjects,
                          TaskListener &listener) {
  double budget = allowed.seconds * 1000;
  double warmup = budget * kWarmupShare;
  BenchClock::time_point start = BenchClock::now();
  for (int round = 0; round < 3 || (allowed.runs == 0 && millisecondsSince(start) < warmup);
       ++round) {
    for (Subject &subject : subjects) {
      TENON_TRY(subject.runOnce(false));
    }
  }
  start = BenchClock::now();
  const Subject &first = subjects.front();
  size_t sample = first.runsOfSample();
  size_t wanted = allowed.runs > 0 ? ceilDiv(allowed.runs, sample) : kMaxRuns;
  size_t least = allowed.runs > 0 ? wanted
                 : first.isGpu()  ? ceilDiv(kMinGpuRuns, sample)
                                  : kMinRuns;
  const std::vector<double> &counted = first.samples();
  for (size_t round = 0;
       counted.size() < wanted && (counted.size() < least || millisecondsSince(start) < budget);
       ++round) {
    size_t runs = std::min(kBlock, wanted - counted.size());
    for (size_t i = 0; i < subjects.size(); ++i) {
      TENON_TRY(runBlock(subjects[(i + round) % subjects.size()], runs, subjects.size() == 1));
    }
    double part = allowed.runs > 0
                      ? static_cast<double>(counted.size()) / static_cast<double>(wanted)
                      : millisecondsSince(start) / budget;
    listener.progress("bench", std::min(part, 1.0));
  }
  return Status::ok();
}

} // namespace tenon::tool
