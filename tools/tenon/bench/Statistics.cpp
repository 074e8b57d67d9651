// Implements quantiles and intervals by batch means.

#include "tools/tenon/bench/Statistics.h"

#include <algorithm>
#include <cmath>

namespace tenon::tool {
namespace {

/// Batches in a row, and Student's t for one less of them at 97.5 %.
constexpr size_t kBatches = 10;
constexpr double kStudent = 2.262;
constexpr double kMinBeyond = 5;

/// As `quantile` of values that are not sorted, which it reorders.
double quantileOf(std::vector<double> &values, double fraction) {
  double position = fraction * static_cast<double>(values.size() - 1);
  std::vector<double>::iterator at = values.begin() + static_cast<std::ptrdiff_t>(position);
  std::nth_element(values.begin(), at, values.end());
  double above = at + 1 == values.end() ? *at : *std::min_element(at + 1, values.end());
  return *at + (above - *at) * (position - std::floor(position));
}

double meanOf(std::vector<double> &values) {
  double sum = 0;
  for (double value : values) {
    sum += value;
  }
  return sum / static_cast<double>(values.size());
}

/// `statistic` is positive. Its spread over batches in a row is on a logarithmic scale, which suits
/// times and ratios.
template <typename Statistic>
Estimate estimate(std::span<const double> own, std::span<const double> other, Statistic statistic) {
  size_t count = std::min(own.size(), other.size());
  auto of = [&](size_t first, size_t size) {
    std::vector<double> left(own.begin() + first, own.begin() + first + size);
    std::vector<double> right(other.begin() + first, other.begin() + first + size);
    return statistic(left, right);
  };
  Estimate result;
  result.value = of(0, count);
  result.low = result.high = std::nan("");
  size_t length = count / kBatches;
  if (length == 0) {
    return result;
  }
  std::vector<double> parts;
  double mean = 0, squares = 0;
  for (size_t i = 0; i < kBatches; ++i) {
    parts.push_back(std::log(of(i * length, length)));
    mean += parts.back() / kBatches;
  }
  for (double part : parts) {
    squares += (part - mean) * (part - mean);
  }
  double half = kStudent * std::sqrt(squares / (kBatches - 1) / kBatches);
  result.low = result.value * std::exp(-half);
  result.high = result.value * std::exp(half);
  return result;
}

/// An interval of a quantile that few times lie beyond says too much.
Estimate withEnough(Estimate found, size_t count, double fraction) {
  if (static_cast<double>(count) * (1 - fraction) < kMinBeyond) {
    found.low = found.high = std::nan("");
  }
  return found;
}

} // namespace

Estimate estimateQuantile(std::span<const double> times, double fraction) {
  Estimate found = estimate(times, times, [&](std::vector<double> &values, std::vector<double> &) {
    return quantileOf(values, fraction);
  });
  return withEnough(found, times.size(), fraction);
}

Estimate estimateMean(std::span<const double> times) {
  return estimate(times, times, [](std::vector<double> &values, std::vector<double> &) {
    return meanOf(values);
  });
}

Estimate estimateQuantileRatio(std::span<const double> own, std::span<const double> other,
                               double fraction) {
  Estimate found = estimate(own, other, [&](std::vector<double> &left, std::vector<double> &right) {
    return quantileOf(right, fraction) / quantileOf(left, fraction);
  });
  return withEnough(found, std::min(own.size(), other.size()), fraction);
}

Estimate estimateMeanRatio(std::span<const double> own, std::span<const double> other) {
  return estimate(own, other, [](std::vector<double> &left, std::vector<double> &right) {
    return meanOf(right) / meanOf(left);
  });
}

double quantile(std::span<const double> sorted, double fraction) {
  double position = fraction * static_cast<double>(sorted.size() - 1);
  size_t below = static_cast<size_t>(std::floor(position));
  size_t above = std::min(below + 1, sorted.size() - 1);
  double part = position - static_cast<double>(below);
  return sorted[below] * (1 - part) + sorted[above] * part;
}

LatencySummary summarizeLatency(std::vector<double> milliseconds) {
  std::sort(milliseconds.begin(), milliseconds.end());
  return {milliseconds.front(), quantile(milliseconds, 0.5), quantile(milliseconds, 0.9),
          quantile(milliseconds, 0.99)};
}

RatioSummary compareLatency(std::span<const double> own, std::span<const double> other) {
  Estimate median = estimateQuantileRatio(own, other, 0.5);
  RatioSummary summary;
  summary.ofMedians = median.value;
  summary.ofMinima =
      *std::min_element(other.begin(), other.end()) / *std::min_element(own.begin(), own.end());
  summary.low = median.low;
  summary.high = median.high;
  if (std::isnan(median.low)) {
    // The median of pairs lies outside of all n of them once in 2^(n - 1): less than 5 % from six
    // on.
    constexpr size_t kMinPairs = 6;
    size_t count = std::min(own.size(), other.size());
    summary.low = count < kMinPairs ? 0 : HUGE_VAL;
    summary.high = count < kMinPairs ? HUGE_VAL : 0;
    for (size_t i = 0; i < count && count >= kMinPairs; ++i) {
      summary.low = std::min(summary.low, other[i] / own[i]);
      summary.high = std::max(summary.high, other[i] / own[i]);
    }
  }
  return summary;
}

} // namespace tenon::tool
