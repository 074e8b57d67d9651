// How far what a finite number of samples says can be from the truth: 95 % intervals of a score,
// and of the difference of two models' scores on the same samples.
//
// Shares (each sample right or wrong) have closed forms that hold near 0 and 1 too: Wilson's score
// interval (J. Am. Stat. Assoc. 22, 1927), and for the difference of two shares of the same samples
// Newcombe's hybrid of two of them, with the correlation of the pairs (method 10 in Statistics in
// Medicine 17, 1998, 2635-2650). Everything else is resampled: the percentile bootstrap over
// samples, both models with the same ones (Efron and Tibshirani, An Introduction to the Bootstrap,
// 1993).

#pragma once

#include "tools/tenon/accuracy/Scores.h"

#include <optional>

namespace tenon::tool {

struct Interval {
  double low = 0;
  double high = 0;
  bool contains(double value) const { return low <= value && value <= high; }
};

Interval intervalOf(const Scores &scores);
/// Of `other` minus `first`. Both are of the same samples.
Interval intervalOfDifference(const Scores &first, const Scores &other);

/// Whether the values of two models differ, by the interval of their difference. A value that is no
/// finite number, as of outputs that are none, differs from any that is one; none where nothing can
/// be said: both values are such, or an end of the interval is not a number.
std::optional<bool> differ(double first, double other, const Interval &ofDifference);

/// Wilson's, of `right` of `samples`.
Interval shareInterval(double right, double samples);

} // namespace tenon::tool
