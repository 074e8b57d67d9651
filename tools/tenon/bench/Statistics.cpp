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

} // namespace

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
