// Implements the closed forms, and the bootstrap with a fixed seed: equal scores give equal
// intervals.

#include "tools/tenon/accuracy/Intervals.h"

#include "tools/tenon/bench/Statistics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

namespace tenon::tool {
namespace {

/// Of the normal distribution at 97.5 %.
constexpr double kZ = 1.959963984540054;
constexpr size_t kMaxResamples = 2000;
constexpr size_t kFewestResamples = 400;
/// Predictions in all resamples together, so that a million samples take seconds.
constexpr size_t kMaxWork = 200'000'000;

Interval bootstrap(size_t samples, size_t parts,
                   const std::function<double(std::span<const uint32_t>)> &statistic) {
  size_t resamples =
      std::clamp(kMaxWork / std::max<size_t>(parts, 1), kFewestResamples, kMaxResamples);
  std::mt19937_64 random(1);
  std::vector<uint32_t> times(samples);
  std::vector<double> values;
  for (size_t i = 0; i < resamples; ++i) {
    std::ranges::fill(times, 0);
    for (size_t pick = 0; pick < samples; ++pick) {
      ++times[random() % samples];
    }
    double value = statistic(times);
    if (!std::isnan(value)) {
      values.push_back(value);
    }
  }
  if (values.empty()) {
    return {std::nan(""), std::nan("")};
  }
  std::ranges::sort(values);
  return {quantile(values, 0.025), quantile(values, 0.975)};
}

/// The four cells of two models' right and wrong answers.
struct Pairs {
  double both = 0, firstOnly = 0, otherOnly = 0, none = 0;
  double samples() const { return both + firstOnly + otherOnly + none; }
  double first() const { return (both + firstOnly) / samples(); }
  double other() const { return (both + otherOnly) / samples(); }
};

/// The correlation of the pairs, corrected for continuity as method 10 has it.
double correlation(const Pairs &pairs) {
  double margins = (pairs.both + pairs.firstOnly) * (pairs.otherOnly + pairs.none) *
                   (pairs.both + pairs.otherOnly) * (pairs.firstOnly + pairs.none);
  if (margins == 0) {
    return 0;
  }
  double product = pairs.both * pairs.none - pairs.firstOnly * pairs.otherOnly;
  double corrected = product > 0 ? std::max(product - pairs.samples() / 2, 0.0) : product;
  return corrected / std::sqrt(margins);
}

Interval pairedShares(const Pairs &pairs) {
  double samples = pairs.samples(), p1 = pairs.other(), p2 = pairs.first();
  Interval one = shareInterval(p1 * samples, samples);
  Interval two = shareInterval(p2 * samples, samples);
  double phi = correlation(pairs);
  auto reach = [&](double a, double b) {
    return std::sqrt(std::max(a * a - 2 * phi * a * b + b * b, 0.0));
  };
  double difference = p1 - p2;
  return {difference - reach(p1 - one.low, two.high - p2),
          difference + reach(one.high - p1, p2 - two.low)};
}

} // namespace

Interval shareInterval(double right, double samples) {
  double share = right / samples;
  double scale = 1 + kZ * kZ / samples;
  double center = (share + kZ * kZ / (2 * samples)) / scale;
  double reach =
      kZ / scale * std::sqrt(share * (1 - share) / samples + kZ * kZ / (4 * samples * samples));
  // The ends are exact where nothing or everything is right, which rounding would not leave so.
  return {right == 0 ? 0 : center - reach, right == samples ? 1 : center + reach};
}

Interval intervalOf(const Scores &scores) {
  if (scores.isShare()) {
    double samples = static_cast<double>(scores.samples());
    return shareInterval(scores.overall() * samples, samples);
  }
  return bootstrap(scores.samples(), scores.parts(),
                   [&](std::span<const uint32_t> times) { return scores.value(times); });
}

Interval intervalOfDifference(const Scores &first, const Scores &other) {
  if (!first.isShare() || !other.isShare()) {
    return bootstrap(
        first.samples(), first.parts() + other.parts(),
        [&](std::span<const uint32_t> times) { return other.value(times) - first.value(times); });
  }
  Pairs pairs;
  for (size_t i = 0; i < first.samples(); ++i) {
    bool a = first.isRight(i), b = other.isRight(i);
    (a && b ? pairs.both : a ? pairs.firstOnly : b ? pairs.otherOnly : pairs.none) += 1;
  }
  return pairedShares(pairs);
}

std::optional<bool> differ(double first, double other, const Interval &ofDifference) {
  bool isFirst = std::isfinite(first), isOther = std::isfinite(other);
  if (isFirst != isOther) {
    return true;
  }
  bool isKnown = isFirst && !std::isnan(ofDifference.low) && !std::isnan(ofDifference.high);
  return isKnown ? std::optional(!ofDifference.contains(0)) : std::nullopt;
}

} // namespace tenon::tool
