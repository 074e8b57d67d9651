// What versions were asked in the last seconds, by which a person sorts them: the counters of now
// less those of ten to twenty seconds ago. It is looked at while somebody asks, and costs nothing
// else.

#pragma once

#include "server/residency/ModelCatalog.h"

#include <map>
#include <memory>

namespace tenon::server {

class RecentTraffic {
public:
  struct Counters {
    uint64_t ok = 0, lost = 0;
    std::array<uint64_t, Histogram::kBounds.size()> request = {}; ///< up to the end of each bin
  };
  struct Recent {
    uint64_t ok = 0, lost = 0;
    uint64_t p99 = 0; ///< the end of the bin that it is in, in microseconds; 0: nothing came
  };

  /// Remembers the counters where those that it has are old.
  void look(const ModelCatalog &catalog, Clock::time_point now);
  Recent of(const Version &version) const;

private:
  using Snapshot = std::map<std::shared_ptr<VersionStatistics>, Counters>;

  Snapshot before, latest;
  Clock::time_point taken;
};

} // namespace tenon::server
