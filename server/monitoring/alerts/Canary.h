// Whether a new version that gets a part of the traffic is worse than the one that gets the rest.

#pragma once

#include "server/admission/Statistics.h"

#include <array>
#include <cstdint>
#include <string>

namespace tenon::server {

/// Requests of a version in some time.
struct RequestCounts {
  uint64_t ok = 0, failed = 0;
  std::array<uint64_t, Histogram::kBounds.size()> upTo =
      {}; ///< those answered, by their time: up to each bound

  uint64_t all() const { return ok + failed; }
  RequestCounts since(const RequestCounts &before) const;
};
RequestCounts countsOf(const VersionStatistics &statistics);

/// Requests that each of the two must have had.
constexpr uint64_t kMinCanaryRequests = 200;
/// How often a canary as good as the other is called worse, by one look.
constexpr double kCanaryFalseAlarms = 1e-4;

/// Why the canary is worse: more of its requests fail, or its p99 is more than a bound of the
/// histogram above that of the stable version; each beyond noise, by the exact test for two shares.
/// Empty where nothing shows that.
std::string evaluateCanary(const RequestCounts &canary, const RequestCounts &stable);

} // namespace tenon::server
