// What the machine reaches at the time of a profile: the floors under every operator's time.

#pragma once

#include "support/Result.h"
#include "support/json/Json.h"
#include "tools/tenon/bench/CpuUnits.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::tool {

struct ComputeLimit {
  std::string unit; ///< "FMA, 256 bits"
  Numbers numbers = Numbers::F32;
  uint32_t features = 0; ///< of a CPU, that code must ask for to use the unit
  double operations = 0; ///< a second, of all threads; a multiply-add counts as two
};

struct MemoryLimit {
  std::string level;   ///< "L2", "L3" or "memory"
  double capacity = 0; ///< bytes of all threads' caches together; infinite for memory
  double bytes = 0;    ///< read a second by all threads
};

/// Rates are measured within the run of the profile, but those of a GPU's FP32 cores, which are the
/// table's, and of numbers whose rate has a fixed ratio to bf16's; their names say so.
struct Limits {
  unsigned threads = 1;
  int multiprocessors = 0; ///< of a GPU
  std::vector<ComputeLimit> compute;
  std::vector<MemoryLimit> memory; ///< the nearest first; the last one holds everything
  /// From giving a task to all threads until they have met (a CPU), or from the start of a kernel
  /// to that of the next (a GPU).
  double launchSeconds = 0;

  /// The best unit for these numbers by code of these features; for numbers without one FP32's.
  /// Null where nothing was measured.
  const ComputeLimit *best(Numbers numbers, uint32_t features) const;
  /// The nearest level that holds so many bytes.
  const MemoryLimit &holding(double bytes) const;
  /// The better of each limit, of two measurements of the same machine.
  void take(const Limits &other);
  /// Of a unit or a level, by its name.
  void raise(std::string_view limit, double times);
};

/// Takes about a second of all `threads`.
Result<Limits> measureCpuLimits(unsigned threads);
Result<Limits> measureGpuLimits(int gpu);

Json toJson(const Limits &limits);

} // namespace tenon::tool
