// One engine under measurement by `bench`: how a sample of it is taken, and what is said of its
// samples.

#pragma once

#include "support/json/Json.h"
#include "tools/tenon/bench/GpuBench.h"
#include "tools/tenon/bench/Runner.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace tenon::tool {

using BenchClock = std::chrono::steady_clock;

double millisecondsSince(BenchClock::time_point start);

/// What is told beyond times and memory.
struct BenchDetails {
  bool probes = false; ///< of a GPU
  bool regions = false;
  bool intervals = false;
};

struct Subject {
  std::string path;
  double compileSeconds = 0;
  double contextMs = 0;     ///< starting the GPU's driver and context
  double engineMs = 0;      ///< from opening the file to code and weights in place, without that
  double loadMs = 0;        ///< to a session prepared for the shapes, without it too
  double firstResultMs = 0; ///< from starting to the first outputs
  std::shared_ptr<const runtime::Engine> engine;
  std::unique_ptr<Runner> runner;
  std::vector<double> times; ///< of the caller, with host tensors
  std::vector<double> gpuTimes;
  unsigned inARow = 1; ///< runs of one sample of the GPU's clock
  std::unique_ptr<ColdRuns> cold;

  bool isGpu() const { return engine->gpu().has_value(); }
  /// What decides how long to measure.
  const std::vector<double> &samples() const { return isGpu() ? gpuTimes : times; }
  size_t runsOfSample() const { return !isGpu() ? 1 : cold ? cold->sets() : inARow; }

  /// Once, after the first run.
  Status prepareGpu(bool isCold, const runtime::SessionOptions &options);
  Status runOnce(bool keep);

  /// The latencies and what belongs to them, as `bench --json` has it.
  Result<Json> describe(const BenchDetails &details);

private:
  double hostMs = 0; ///< of all runs through the host so far
  Status sampleGpu(bool keep);
  Json describeRuns() const;
  Result<Json> describeGpu(const BenchDetails &details);
  Result<Json> describeRegions();
};

/// Of the times that decide how long to measure: median, p99 and throughput with 95 % intervals.
Json describeIntervals(const Subject &subject);
/// The same of `other` by those of `own`, which ran in turn with it.
Json describeRatios(const Subject &own, const Subject &other);

/// A description for people.
std::string benchText(const Json &result);

} // namespace tenon::tool
