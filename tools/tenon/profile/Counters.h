// What a GPU's counters say of each step of an engine, by CUPTI. Optional: where it is missing, or
// the driver leaves counters to root, the error says so and a profile goes on without.

#pragma once

#include "support/json/Json.h"
#include "tools/tenon/bench/Runner.h"

#include <cstdint>
#include <vector>

namespace tenon::tool {

/// Shares of the most that a unit sustains over a step's time, from 0 to 1.
struct StepCounters {
  uint32_t instruction = 0;
  double processors = 0; ///< of what multiprocessors issue and their pipes take
  double memory = 0;     ///< of caches and memory, the busiest of them
  double dram = 0, tensorPipe = 0;
  double warps = 0; ///< of the warps that multiprocessors may hold, in the time they are active
};

/// An object, for a process that counts and the one that asked it to.
Json toJson(const std::vector<StepCounters> &steps);
std::vector<StepCounters> countersOf(const Json &json);

/// Runs the steps some times, as the counters are read in several passes. Results of the run and
/// the state of `runner` are undefined after it.
Result<std::vector<StepCounters>> countSteps(Runner &runner);

} // namespace tenon::tool
