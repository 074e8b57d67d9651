// The multiple-choice knapsack of the search: of each group one choice, times and errors add up;
// all selections that none other beats in both. Relies on nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tenon::quant {

/// A treatment of a group: what it takes beside the widest form (negative where it gains), and the
/// error that it adds, at least 0.
struct Choice {
  double time = 0;
  double error = 0;
};

struct Selection {
  double time = 0;
  double error = 0;
  std::vector<uint8_t> choices; ///< of each group
};

/// Partial selections that are carried on from a group to the next. Below it the front is exact,
/// above neighbours are thinned out.
inline constexpr size_t kMaxSelections = 1 << 13;

/// The front, from the least error to the least time; of selections that are equal in both the one
/// with the lower choices. A group has a choice at least. Time grows by `changeTime` wherever one
/// of two groups in a row has choice 0 and the other has not; before the first and behind the last
/// one stands choice 0. (Nemhauser and Ullmann, Management Science 15, 1969: selections that are
/// beaten are dropped after each group.)
std::vector<Selection> findFront(std::span<const std::vector<Choice>> groups, double changeTime = 0,
                                 size_t mostSelections = kMaxSelections);

} // namespace tenon::quant
