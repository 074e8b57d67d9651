// Implements the rounds. A block of runs follows one that does not count, which brings back the
// caches and threads that the others used.

#include "tools/tenon/bench/InTurn.h"

#include <algorithm>

namespace tenon::tool {
namespace {

constexpr size_t kMinRuns = 10;
constexpr size_t kMaxRuns = 100000;
/// Runs in a row before the other contender has its turn.
constexpr size_t kBlock = 5;
constexpr double kWarmupShare = 0.2;
constexpr size_t kMinGpuRuns = 200;

size_t ceilDiv(size_t a, size_t b) { return (a + b - 1) / b; }

/// A few runs in a row, the first of which only brings back the caches and threads that the other
/// used.
Status runBlock(Contender &contender, size_t runs, bool isAlone) {
  if (!isAlone) {
    TENON_TRY(contender.runOnce(false));
  }
  for (size_t i = 0; i < runs; ++i) {
    TENON_TRY(contender.runOnce(true));
  }
  return Status::ok();
}

} // namespace

Status measureInTurn(const MeasureBudget &allowed, std::vector<Contender> &contenders,
                     Terminal &terminal) {
  double budget = allowed.seconds * 1000;
  double warmup = budget * kWarmupShare;
  BenchClock::time_point start = BenchClock::now();
  for (int round = 0; round < 3 || (allowed.runs == 0 && millisecondsSince(start) < warmup);
       ++round) {
    for (Contender &contender : contenders) {
      TENON_TRY(contender.runOnce(false));
    }
  }
  start = BenchClock::now();
  const Contender &first = contenders.front();
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
    for (size_t i = 0; i < contenders.size(); ++i) {
      TENON_TRY(
          runBlock(contenders[(i + round) % contenders.size()], runs, contenders.size() == 1));
    }
    double part = allowed.runs > 0
                      ? static_cast<double>(counted.size()) / static_cast<double>(wanted)
                      : millisecondsSince(start) / budget;
    terminal.progress("bench", std::min(part, 1.0));
  }
  return Status::ok();
}

} // namespace tenon::tool
