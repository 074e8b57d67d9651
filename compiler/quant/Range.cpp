// The estimators work on the histogram alone. MSE: Nahshan et al., "Loss aware post-training
// quantization"; entropy: Migacz, "8-bit inference with TensorRT" (GTC 2017).
#include "compiler/quant/Range.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tenon::quant {
namespace {

constexpr int kLevels = 256;

using Bins = std::vector<Histogram::Bin>;

/// The f32 whose highest bits are those of the bin, the others 0.
double startOf(uint32_t bin, int shift) {
  return static_cast<double>(std::bit_cast<float>(bin << shift));
}

/// Mean square of what levels `scale` apart lose of values that are spread evenly from `from` to
/// `to`.
double errorInside(double from, double to, double scale) {
  double width = to - from;
  if (width >= scale) {
    return scale * scale / 12;
  }
  double sum = 0;
  constexpr int kPoints = 3;
  for (int i = 0; i < kPoints; ++i) {
    double x = from + width * (2 * i + 1) / (2 * kPoints);
    double error = x - std::nearbyint(x / scale) * scale;
    sum += error * error;
  }
  return sum / kPoints;
}

/// The same of values that are all beyond `end`, which they become.
double errorBeyond(double from, double to, double end) {
  double beyond = (from + to) / 2 - end, width = to - from;
  return beyond * beyond + width * width / 12;
}

/// Sum of squared errors of a bin's elements, which are taken as spread evenly.
double errorOf(const Histogram::Bin &bin, double scale, double low, double high) {
  double from = std::clamp(bin.low, low, high), to = std::clamp(bin.high, low, high);
  double width = bin.high - bin.low;
  auto share = [&](double part) { return width > 0 ? part / width : 0; };
  double inside = width > 0 ? share(to - from) : (bin.low >= low && bin.low <= high ? 1 : 0);
  double below = bin.low < low && inside == 0 ? 1 : share(std::max(low - bin.low, 0.0));
  double above = bin.high > high && inside == 0 ? 1 : share(std::max(bin.high - high, 0.0));
  double error = inside > 0 ? inside * errorInside(from, to, scale) : 0;
  error += below > 0 ? below * errorBeyond(bin.low, std::min(bin.high, low), low) : 0;
  error += above > 0 ? above * errorBeyond(std::max(bin.low, high), bin.high, high) : 0;
  return static_cast<double>(bin.count) * error;
}

double errorOf(const Bins &bins, Range range) {
  Affine affine = affineOf(range);
  double scale = affine.scale, low = -double(affine.zero) * scale;
  double high = low + (kLevels - 1) * scale, sum = 0;
  for (const Histogram::Bin &bin : bins) {
    sum += errorOf(bin, scale, low, high);
  }
  return sum;
}

/// The best of `count` ranges that `at` gives.
template <typename At> Range best(const Bins &bins, Range start, int count, const At &at) {
  Range found = start;
  double least = errorOf(bins, start);
  for (int i = 0; i < count; ++i) {
    Range range = at(i);
    double error = errorOf(bins, range);
    if (error < least) {
      least = error;
      found = range;
    }
  }
  return found;
}

/// Both ends shrink together, then each by itself, in finer steps.
Range leastError(const Bins &bins, Range whole) {
  constexpr int kOctaves = 12, kCoarse = 8, kFine = 64;
  Range range = best(bins, whole, kOctaves * kCoarse, [&](int i) {
    double factor = std::exp2(-double(i) / kCoarse);
    return Range{whole.low * factor, whole.high * factor};
  });
  for (int round = 0; round < 2; ++round) {
    Range from = range;
    range = best(bins, range, 2 * kFine, [&](int i) {
      double high = from.high * std::exp2(double(i - kFine) / kFine);
      return Range{from.low, std::min(high, whole.high)};
    });
    from = range;
    range = best(bins, range, 2 * kFine, [&](int i) {
      double low = from.low * std::exp2(double(i - kFine) / kFine);
      return Range{std::max(low, whole.low), from.high};
    });
  }
  return range;
}

/// The value below which this share of the elements lies.
double quantile(const Bins &bins, uint64_t total, double share) {
  double left = share * static_cast<double>(total);
  for (const Histogram::Bin &bin : bins) {
    double count = static_cast<double>(bin.count);
    if (left <= count) {
      return bin.low + (bin.high - bin.low) * left / count;
    }
    left -= count;
  }
  return bins.empty() ? 0 : bins.back().high;
}

/// Elements of equal parts of a range; what is beyond counts into the ends.
std::vector<double> evenly(const Bins &bins, Range range, int parts) {
  std::vector<double> counts(static_cast<size_t>(parts));
  double width = (range.high - range.low) / parts;
  auto partOf = [&](double x) {
    return std::clamp(static_cast<int>((x - range.low) / width), 0, parts - 1);
  };
  for (const Histogram::Bin &bin : bins) {
    int first = partOf(bin.low), last = partOf(bin.high);
    for (int part = first; part <= last; ++part) {
      counts[static_cast<size_t>(part)] += static_cast<double>(bin.count) / (last - first + 1);
    }
  }
  return counts;
}

/// How much of the distribution is lost when it is kept by 256 levels.
double divergence(const Bins &bins, Range range) {
  constexpr int kParts = 2048, kPerLevel = kParts / kLevels;
  std::vector<double> kept = evenly(bins, range, kParts);
  Bins inside;
  std::copy_if(bins.begin(), bins.end(), std::back_inserter(inside),
               [&](const auto &bin) { return bin.low >= range.low && bin.high <= range.high; });
  std::vector<double> clipped = evenly(inside, range, kParts);
  double total = 0, lost = 0;
  for (double count : kept) {
    total += count;
  }
  for (int level = 0; level < kLevels; ++level) {
    double sum = 0;
    int filled = 0;
    for (int i = 0; i < kPerLevel; ++i) {
      sum += clipped[static_cast<size_t>(level * kPerLevel + i)];
      filled += kept[static_cast<size_t>(level * kPerLevel + i)] > 0;
    }
    for (int i = 0; i < kPerLevel; ++i) {
      double p = kept[static_cast<size_t>(level * kPerLevel + i)] / total;
      if (p > 0) {
        double q = std::max(sum / filled / total, 1e-12);
        lost += p * std::log(p / q);
      }
    }
  }
  return lost;
}

Range leastDivergence(const Bins &bins, Range whole) {
  constexpr int kCandidates = 128;
  Range found = whole;
  double least = std::numeric_limits<double>::infinity();
  for (int i = kCandidates; i > kCandidates / 16; --i) {
    double factor = double(i) / kCandidates;
    Range range{whole.low * factor, whole.high * factor};
    double lost = divergence(bins, range);
    if (lost < least) {
      least = lost;
      found = range;
    }
  }
  return found;
}

} // namespace

void Histogram::add(std::span<const int32_t> run, float lowest, float highest) {
  bool isFirst = total == 0;
  counts.resize(run.size());
  for (size_t i = 0; i < run.size(); ++i) {
    counts[i] += static_cast<uint64_t>(run[i]);
    total += static_cast<uint64_t>(run[i]);
  }
  double low = lowest, high = highest;
  least = isFirst ? low : std::min(least, low);
  most = isFirst ? high : std::max(most, high);
  meanLow = isFirst ? low : kMomentum * meanLow + (1 - kMomentum) * low;
  meanHigh = isFirst ? high : kMomentum * meanHigh + (1 - kMomentum) * high;
}

void Histogram::merge(const Histogram &other) {
  if (total == 0) {
    *this = other;
    return;
  }
  for (size_t i = 0; i < other.counts.size(); ++i) {
    counts[i] += other.counts[i];
  }
  total += other.total;
  least = std::min(least, other.least);
  most = std::max(most, other.most);
  meanLow = std::min(meanLow, other.meanLow);
  meanHigh = std::max(meanHigh, other.meanHigh);
}

std::vector<Histogram::Bin> Histogram::bins() const {
  std::vector<Bin> result;
  int shift = 32 - std::countr_zero(counts.size());
  uint32_t half = static_cast<uint32_t>(counts.size() / 2);
  auto take = [&](uint32_t bin, double nearZero, double far, uint64_t count) {
    bool isNegative = bin >= half;
    if (count != 0 && std::isfinite(far)) {
      // What observers saw of the extremes is exact.
      result.push_back({std::max(isNegative ? far : nearZero, least),
                        std::min(isNegative ? nearZero : far, most), count});
    }
  };
  for (uint32_t i = half; i-- > 0;) {
    take(half + i, startOf(half + i, shift), startOf(half + i + 1, shift), counts[half + i]);
  }
  for (uint32_t i = 0; i < half; ++i) {
    take(i, startOf(i, shift), startOf(i + 1, shift), counts[i]);
  }
  // The bins of the greatest finite numbers end at infinity, and so have none of calibration.
  return result;
}

uint64_t Histogram::notFinite() const {
  uint64_t sum = 0;
  int shift = 32 - std::countr_zero(counts.size());
  for (uint32_t i = 0; i < counts.size(); ++i) {
    sum += std::isfinite(startOf(i, shift)) ? 0 : counts[i];
  }
  return sum;
}

Affine affineOf(Range range) {
  double low = std::min(range.low, 0.0), high = std::max(range.high, 0.0);
  // Below this a scale would be denormal; what is always 0 has any scale.
  double scale = std::max((high - low) / (kLevels - 1), 1e-30);
  if (high == low) {
    scale = 1;
  }
  double zero = std::clamp(std::nearbyint(-low / scale), 0.0, double(kLevels - 1));
  return {static_cast<float>(scale), static_cast<uint8_t>(zero)};
}

std::string_view nameOf(RangeMethod method) {
  switch (method) {
  case RangeMethod::MinMax:
    return "minmax";
  case RangeMethod::MovingAverage:
    return "moving-average";
  case RangeMethod::Percentile:
    return "percentile";
  case RangeMethod::Mse:
    return "mse";
  case RangeMethod::Entropy:
    return "entropy";
  }
  return "";
}

Range estimateRange(const Histogram &histogram, RangeMethod method, double percentile) {
  Range whole{std::min(histogram.low(), 0.0), std::max(histogram.high(), 0.0)};
  if (whole.low == whole.high) {
    return whole;
  }
  Bins bins = histogram.bins();
  switch (method) {
  case RangeMethod::MinMax:
    return whole;
  case RangeMethod::MovingAverage:
    return {std::min(histogram.averageLow(), 0.0), std::max(histogram.averageHigh(), 0.0)};
  case RangeMethod::Percentile: {
    double share = percentile / 100;
    return {std::min(quantile(bins, histogram.elements(), 1 - share), 0.0),
            std::max(quantile(bins, histogram.elements(), share), 0.0)};
  }
  case RangeMethod::Mse:
    return leastError(bins, whole);
  case RangeMethod::Entropy:
    return leastDivergence(bins, whole);
  }
  return whole;
}

double squaredError(const Histogram &histogram, Range range) {
  double count = static_cast<double>(std::max<uint64_t>(histogram.elements(), 1));
  return errorOf(histogram.bins(), range) / count;
}

double levelsOfMost(const Histogram &histogram, Range range) {
  constexpr double kOutside = 0.025;
  Bins bins = histogram.bins();
  double low = quantile(bins, histogram.elements(), kOutside);
  double high = quantile(bins, histogram.elements(), 1 - kOutside);
  return std::min((high - low) / affineOf(range).scale, double(kLevels));
}

double shareOutside(const Histogram &histogram, Range range) {
  double outside = 0;
  for (const Histogram::Bin &bin : histogram.bins()) {
    double inside = std::min(bin.high, range.high) - std::max(bin.low, range.low);
    double width = bin.high - bin.low;
    bool isPoint = width <= 0;
    double share = isPoint ? double(inside < 0) : 1 - std::clamp(inside / width, 0.0, 1.0);
    outside += share * static_cast<double>(bin.count);
  }
  return outside / static_cast<double>(std::max<uint64_t>(histogram.elements(), 1));
}

double signalToNoise(const Histogram &histogram, Range range) {
  double signal = 0;
  Bins bins = histogram.bins();
  for (const Histogram::Bin &bin : bins) {
    double middle = (bin.low + bin.high) / 2;
    signal += middle * middle * static_cast<double>(bin.count);
  }
  double noise = errorOf(bins, range);
  return noise > 0 && signal > 0 ? 10 * std::log10(signal / noise)
                                 : std::numeric_limits<double>::infinity();
}

} // namespace tenon::quant
