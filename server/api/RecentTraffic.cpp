#include "server/api/RecentTraffic.h"

namespace tenon::server {
namespace {

constexpr std::chrono::seconds kWindow{10};

RecentTraffic::Counters countersOf(const VersionStatistics &counted) {
  RecentTraffic::Counters counters = {
      counted.success.count, counted.rejected + counted.timedOut + counted.failed(), {}};
  for (size_t bin = 0; bin < counters.request.size(); ++bin) {
    counters.request[bin] = counted.request.upTo(bin);
  }
  return counters;
}

} // namespace

void RecentTraffic::look(const ModelCatalog &catalog, Clock::time_point now) {
  if (!latest.empty() && now - taken < kWindow) {
    return;
  }
  taken = now;
  before = std::move(latest);
  latest.clear();
  for (const auto &[name, model] : catalog.all()) {
    for (const auto &[number, version] : model.versions) {
      latest.emplace(version->statistics, countersOf(*version->statistics));
    }
  }
}

RecentTraffic::Recent RecentTraffic::of(const Version &version) const {
  Counters now = countersOf(*version.statistics), then;
  if (Snapshot::const_iterator found = before.find(version.statistics); found != before.end()) {
    then = found->second;
  }
  Recent recent = {now.ok - then.ok, now.lost - then.lost, 0};
  uint64_t all = now.request.back() - then.request.back();
  for (size_t bin = 0; bin < now.request.size() && all > 0 && recent.p99 == 0; ++bin) {
    constexpr double kShare = 0.99;
    bool isReached = static_cast<double>(now.request[bin] - then.request[bin]) >=
                     kShare * static_cast<double>(all);
    recent.p99 = isReached ? Histogram::kBounds[bin] : 0;
  }
  return recent;
}

} // namespace tenon::server
