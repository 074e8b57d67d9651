// Implements quantiles and the bootstrap of the ratio of medians, with a fixed seed.

#include "tools/tenon/bench/Statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

namespace tenon::tool {
namespace {

constexpr int kResamples = 1000;

double medianOf(std::vector<double> &values) {
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

std::vector<double> resample(std::span<const double> values, std::mt19937_64 &random) {
  std::vector<double> picked;
  picked.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    picked.push_back(values[random() % values.size()]);
  }
  return picked;
}

constexpr size_t kBlocks = 32;
constexpr double kLeastBeyond = 5;

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

/// The statistic of lists that are resampled by the same blocks.
template <typename Statistic>
Estimate estimate(std::span<const double> own, std::span<const double> other, Statistic statistic) {
  size_t count = std::min(own.size(), other.size());
  size_t length = std::max<size_t>(1, count / kBlocks);
  auto part = [](std::span<const double> of) { return std::vector<double>(of.begin(), of.end()); };
  std::vector<double> left = part(own.first(count)), right = part(other.first(count));
  Estimate result;
  result.value = statistic(left, right);
  std::mt19937_64 random(1);
  std::vector<double> found;
  for (int i = 0; i < kResamples; ++i) {
    left.clear();
    right.clear();
    while (left.size() < count) {
      size_t start = random() % (count - length + 1);
      size_t taken = std::min(length, count - left.size());
      left.insert(left.end(), own.begin() + start, own.begin() + start + taken);
      right.insert(right.end(), other.begin() + start, other.begin() + start + taken);
    }
    found.push_back(statistic(left, right));
  }
  std::sort(found.begin(), found.end());
  result.low = quantile(found, 0.025);
  result.high = quantile(found, 0.975);
  return result;
}

/// An interval of a quantile that few times lie beyond says too much.
Estimate withEnough(Estimate found, size_t count, double fraction) {
  if (static_cast<double>(count) * (1 - fraction) < kLeastBeyond) {
    found.low = found.high = std::nan("");
  }
  return found;
}

} // namespace

Estimate estimateQuantile(std::span<const double> times, double fraction) {
  Estimate found = estimate(times, times, [&](std::vector<double> &values, std::vector<double> &) { return quantileOf(values, fraction); });
  return withEnough(found, times.size(), fraction);
}

Estimate estimateMean(std::span<const double> times) {
  return estimate(times, times, [](std::vector<double> &values, std::vector<double> &) { return meanOf(values); });
}

Estimate estimateQuantileRatio(std::span<const double> own, std::span<const double> other, double fraction) {
  Estimate found = estimate(own, other, [&](std::vector<double> &left, std::vector<double> &right) { return quantileOf(right, fraction) / quantileOf(left, fraction); });
  return withEnough(found, std::min(own.size(), other.size()), fraction);
}

Estimate estimateMeanRatio(std::span<const double> own, std::span<const double> other) {
  return estimate(own, other, [](std::vector<double> &left, std::vector<double> &right) { return meanOf(right) / meanOf(left); });
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
  std::vector<double> ownTimes(own.begin(), own.end());
  std::vector<double> otherTimes(other.begin(), other.end());
  RatioSummary summary;
  summary.ofMedians = medianOf(otherTimes) / medianOf(ownTimes);
  summary.ofMinima = otherTimes.front() / ownTimes.front();
  std::mt19937_64 random(1);
  std::vector<double> ratios;
  for (int i = 0; i < kResamples; ++i) {
    std::vector<double> left = resample(own, random);
    std::vector<double> right = resample(other, random);
    ratios.push_back(medianOf(right) / medianOf(left));
  }
  std::sort(ratios.begin(), ratios.end());
  summary.low = quantile(ratios, 0.025);
  summary.high = quantile(ratios, 0.975);
  return summary;
}

} // namespace tenon::tool
