// What benchmarks say about a list of times. It relies on nothing; equal lists give equal numbers.

#pragma once

#include <span>
#include <vector>

namespace tenon::tool {

struct LatencySummary {
  double min = 0;
  double median = 0;
  double p90 = 0;
  double p99 = 0;
};

/// The value below which `fraction` of the sorted values lie, interpolated. `sorted` is not empty.
double quantile(std::span<const double> sorted, double fraction);
LatencySummary summarizeLatency(std::vector<double> milliseconds);

/// How two lists of times, measured alternately, compare: numbers above 1 mean that `other` is
/// slower.
struct RatioSummary {
  double ofMinima = 1;
  double ofMedians = 1;
  /// 95 % interval of the ratio of medians, as an Estimate's; of fewer than ten runs from the least
  /// ratio of a pair to the largest, and of fewer than six from 0 to infinity.
  double low = 1;
  double high = 1;

  /// Whether the interval leaves out 1.
  bool differs() const { return low > 1 || high < 1; }
};

RatioSummary compareLatency(std::span<const double> own, std::span<const double> other);

/// A number with its 95 % interval, by batch means (Schmeiser, Operations Research 30, 1982): what
/// disturbs a machine lasts longer than a run, so runs are not independent, but ten batches of them
/// in a row nearly are. Of two engines that ran in turn the same batches. The ends are not numbers
/// where there are fewer than ten runs.
struct Estimate {
  double value = 0;
  double low = 0;
  double high = 0;
};

/// The value below which `fraction` of the times lie. The ends are not numbers either where fewer
/// than five times lie beyond it.
Estimate estimateQuantile(std::span<const double> times, double fraction);
Estimate estimateMean(std::span<const double> times);
/// Of `other` by that of `own`; the two are as many, measured in turn.
Estimate estimateQuantileRatio(std::span<const double> own, std::span<const double> other,
                               double fraction);
Estimate estimateMeanRatio(std::span<const double> own, std::span<const double> other);

} // namespace tenon::tool
