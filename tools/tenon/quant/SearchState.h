// What a search has measured so far, in a file that one that was ended goes on from. Relies on the
// key: it names all that the numbers depend on.

#pragma once

#include "support/Result.h"
#include "tools/tenon/accuracy/Intervals.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tenon::tool {

/// A form of the model that was measured as a whole.
struct MeasuredForm {
  double value = 0, drop = 0;
  std::optional<Interval> interval; ///< of the drop
  double milliseconds = 0;          ///< that of the model itself, times the ratio
  double ratio = 1, low = 1, high = 1;
};

/// Of one treatment of a candidate.
struct MeasuredTreatment {
  double milliseconds = 0;     ///< of its regions, with conversions
  std::optional<double> error; ///< squared, relative, at the output; none before it was measured
};

struct SearchState {
  std::string key;
  double modelMilliseconds = 0; ///< 0 before it was measured
  std::vector<std::vector<MeasuredTreatment>>
      treatments; ///< of each candidate; empty before times were measured
  std::map<std::string, MeasuredForm> forms; ///< by the letters of their treatments

  /// Whether the file can be written, and is a state if it is there.
  static Status check(const std::string &path);
  /// What is in the file, if it is there. An error for what is no state, is damaged, or has another
  /// key or other candidates than `treatmentsOf` has the letters of.
  static Result<SearchState> load(const std::string &path, const std::string &key,
                                  const std::vector<std::string> &treatmentsOf);
  Status save(const std::string &path) const;
};

} // namespace tenon::tool
