// One compilation under observation: after which pass the numbers are wrong, with all rewrites of a
// pass or the first few only. MLIR announces each try of a pattern as an action, which may be
// refused.
#pragma once

#include "tools/debug/Trial.h"

#include <limits>

namespace tenon::debug {

/// Which tries of patterns are let through.
struct Limit {
  static constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  size_t step =
      std::numeric_limits<size_t>::max(); ///< the numbers are looked at after this one only
  uint64_t tries = kNone;                 ///< in that step
};

/// Where a compilation went wrong, or ended.
struct Sighting {
  Outcome outcome;
  size_t step =
      0; ///< counted from import; of a compilation that failed, the one after the last whole
  std::string pass;    ///< of the step; for a failure that of the step before
  unsigned turn = 1;   ///< how often that pass had run
  uint64_t tries = 0;  ///< of patterns in the step
  std::string pattern; ///< of the last try that was let through
  std::string place;   ///< the operation that it was tried on
  std::string suspect; ///< the first operation whose value differs from before the step
};

/// Compiles up to dispatch in a child. Same if nothing is wrong up to there.
Sighting probe(const Trial &trial, const Limit &limit, double seconds);

/// Runs the engine with the results of all regions as outputs, in a child. Different: `site` has
/// the first region that is wrong. Same: with those outputs nothing is.
Outcome probeRegions(const Trial &trial, double seconds, std::string &site);

} // namespace tenon::debug
