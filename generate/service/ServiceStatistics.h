// What a service counts of its requests.
#pragma once

#include "generate/scheduler/Scheduler.h"

#include <array>
#include <cstdint>

namespace tenon::generate {

/// How often something took how long.
struct LatencyHistogram {
  /// Upper bounds of the buckets in seconds; one more bucket has what is longer.
  static constexpr std::array<double, 14> kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                     0.25,  0.5,    1,     2.5,  5,     10,   30};
  std::array<uint64_t, kBounds.size() + 1> counts = {};
  double sum = 0; ///< seconds

  void add(double seconds);
};

struct ServiceStatistics {
  int64_t running = 0, waiting = 0; ///< requests, now
  int64_t pages = 0;                ///< of the engine
  int64_t pagesUsed = 0;            ///< of requests that run, now
  int64_t pagesKept = 0;            ///< of nobody, full of tokens that a request may share, now
  uint64_t steps = 0;
  uint64_t submitted = 0, finished = 0, cancelled = 0, failed = 0; ///< requests
  uint64_t promptTokens = 0;    ///< of requests that were submitted
  uint64_t generatedTokens = 0; ///< that were drawn
  SchedulerCounts scheduler;
  LatencyHistogram firstToken; ///< from submit to the first piece
  LatencyHistogram nextToken;  ///< from a piece to the next of its request
};

} // namespace tenon::generate
