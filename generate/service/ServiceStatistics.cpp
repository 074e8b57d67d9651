// Finds the bucket.
#include "generate/service/ServiceStatistics.h"

#include <algorithm>

namespace tenon::generate {

void LatencyHistogram::add(double seconds) {
  ++counts[static_cast<size_t>(std::ranges::lower_bound(kBounds, seconds) - kBounds.begin())];
  sum += seconds;
}

} // namespace tenon::generate
