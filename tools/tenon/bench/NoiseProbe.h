// What tells whether others disturbed a measurement: work of ours that should always take as long,
// and the time in which our threads waited for a CPU.

#pragma once

#include "tools/tenon/bench/Subject.h"

namespace tenon::tool {

/// Of the threads' time, and from the fastest probe: beyond, a round was disturbed.
inline constexpr double kMaxWaiting = 0.02, kMaxSlowdown = 1.05;

/// Seconds of a loop of arithmetic; 0 where there is none for this architecture.
double noiseProbeSeconds();
/// Seconds that threads of this process have waited for a CPU while they could have run, so far; 0
/// where the system does not count it.
double waitedForCpu();

/// Watches a round from its beginning on, between two probes.
class RoundWatch {
public:
  RoundWatch()
      : before(noiseProbeSeconds()), waitedBefore(waitedForCpu()), start(BenchClock::now()) {}

  struct Seen {
    double waited = 0; ///< part of the threads' time
    double probe = 0;  ///< the slower one
  };
  /// At the end of a round of so many threads.
  Seen end(unsigned threads) const;

private:
  double before, waitedBefore;
  BenchClock::time_point start;
};

} // namespace tenon::tool
