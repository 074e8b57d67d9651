// `tenon profile --ab`: two engines in turn, and which of their operators make the difference.

#pragma once

#include "tools/tenon/bench/Statistics.h"
#include "tools/tenon/profile/Profile.h"

namespace tenon::tool {

struct ProfileDifference {
  RatioSummary ratio; ///< of the other's runs to the first's
  /// Groups of equal names, the largest difference first; a side without the group has 0.
  struct Row {
    std::string name;
    double seconds = 0, otherSeconds = 0;
  };
  std::vector<Row> rows;
};

/// Refuses engines whose inputs have other names or dims.
Status checkComparable(const Profile &first, const Profile &second);
/// Runs both in turn for so many seconds.
Result<ProfileDifference> compareProfiles(const Profile &first, Runner &firstRunner,
                                          const Profile &second, Runner &secondRunner,
                                          double seconds);

Json toJson(const ProfileDifference &difference, const Profile &second);
std::string differenceText(const ProfileDifference &difference, const Profile &second, size_t top);

} // namespace tenon::tool
