// Each look is at the requests since the one before: a canary that turns bad late is not hidden by
// what it did well before.

#include "server/monitoring/alerts/Canary.h"

#include "server/monitoring/drift/Distributions.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::server {
namespace {

constexpr double kEach = kCanaryFalseAlarms / 2; // errors and times

double percent(uint64_t part, uint64_t whole) {
  return whole ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

} // namespace

RequestCounts RequestCounts::since(const RequestCounts &before) const {
  RequestCounts counts = {ok - before.ok, failed - before.failed, upTo};
  for (size_t i = 0; i < upTo.size(); ++i) {
    counts.upTo[i] -= before.upTo[i];
  }
  return counts;
}

RequestCounts countsOf(const VersionStatistics &statistics) {
  RequestCounts counts = {statistics.success.count, statistics.failed(), {}};
  for (size_t i = 0; i < counts.upTo.size(); ++i) {
    counts.upTo[i] = statistics.request.upTo(i);
  }
  return counts;
}

std::string evaluateCanary(const RequestCounts &canary, const RequestCounts &stable) {
  if (canary.all() < kMinCanaryRequests || stable.all() < kMinCanaryRequests) {
    return {};
  }
  if (moreOftenTail(canary.failed, canary.all(), stable.failed, stable.all()) < kEach) {
    return fmt::format("{:.2f} % of its {} requests failed, {:.2f} % of {} of the stable version",
                       percent(canary.failed, canary.all()), canary.all(),
                       percent(stable.failed, stable.all()), stable.all());
  }
  // The stable version's p99 lies at a bound; the next one leaves room for what no user notices.
  size_t p99 = 0;
  while (p99 < stable.upTo.size() && 100 * (stable.ok - stable.upTo[p99]) > stable.ok) {
    ++p99;
  }
  size_t bound = p99 + 1;
  if (bound >= stable.upTo.size() || canary.ok == 0) {
    return {};
  }
  // A share of 1 % is what p99 means: fewer above the bound are no worse, whatever the stable
  // version has.
  uint64_t slow = canary.ok - canary.upTo[bound],
           slowStable = std::max(stable.ok - stable.upTo[bound], stable.ok / 100);
  if (moreOftenTail(slow, canary.ok, slowStable, stable.ok) < kEach) {
    return fmt::format("its p99 is above {} ms ({:.1f} % of {} requests are), while that of the "
                       "stable version is at most {} ms",
                       static_cast<double>(Histogram::kBounds[bound]) / 1e3,
                       percent(slow, canary.ok), canary.ok,
                       static_cast<double>(Histogram::kBounds[p99]) / 1e3);
  }
  return {};
}

} // namespace tenon::server
