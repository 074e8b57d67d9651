// Which version answers requests that name none: the newest, or a split by weight; and a version
// that computes along in their shadow.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tenon::server {

struct Traffic {
  std::map<int64_t, int64_t> weights; ///< by version; empty: all to the newest
  std::optional<int64_t> shadow;
};

struct ShadowDifference {
  uint64_t different = 0; ///< requests of which some bit of the output differed
  double largest = 0;     ///< between two elements
};

/// Requests that a shadow computed too.
struct ShadowStatistics {
  uint64_t compared = 0;
  uint64_t different = 0; ///< in some output
  uint64_t failed = 0;    ///< by the shadow alone
  uint64_t dropped = 0;   ///< the shadow's queue was full, or it was not ready
  std::map<std::string, ShadowDifference> outputs;
};

/// The traffic of a model, and what it was before.
struct TrafficState {
  Traffic now;
  std::vector<Traffic> before;
  ShadowStatistics shadow;
};

} // namespace tenon::server
