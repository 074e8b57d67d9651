// From what observers counted to the range that 8 bits stand for: the range estimators.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tenon::quant {

/// What observers say of a tensor over all samples. Bins are those of `tn.histogram`: the highest
/// bits of an f32.
class Histogram {
public:
  /// One run: counts of the bins (a power of two of them), and the extremes.
  void add(std::span<const int32_t> run, float lowest, float highest);
  /// What another tensor's observers say, as if both were one.
  void merge(const Histogram &other);

  /// Elements in a part of the range of numbers.
  struct Bin {
    double low = 0, high = 0;
    uint64_t count = 0;
  };
  /// Those that are not empty, ascending, without what is not finite.
  std::vector<Bin> bins() const;

  uint64_t elements() const { return total; }
  uint64_t notFinite() const;
  double low() const { return least; }
  double high() const { return most; }
  /// Extremes of a run, averaged over runs with `kMomentum`.
  double averageLow() const { return meanLow; }
  double averageHigh() const { return meanHigh; }

private:
  static constexpr double kMomentum = 0.9;

  std::vector<uint64_t> counts;
  uint64_t total = 0;
  double least = 0, most = 0, meanLow = 0, meanHigh = 0;
};

/// A range that contains 0, which is a level of its own: padding and ReLU are exact.
struct Range {
  double low = 0, high = 0;
};

/// x = (q - zero) * scale, q from 0 to 255.
struct Affine {
  float scale = 1;
  uint8_t zero = 0;
};
Affine affineOf(Range range);

enum class RangeMethod : uint8_t { MinMax, MovingAverage, Percentile, Mse, Entropy };
/// "minmax", "moving-average", "percentile", "mse", "entropy".
std::string_view nameOf(RangeMethod method);
inline constexpr RangeMethod kRangeMethods[] = {RangeMethod::Mse, RangeMethod::MinMax,
                                                RangeMethod::MovingAverage, RangeMethod::Percentile,
                                                RangeMethod::Entropy};

/// `percentile` is of 100; only that method reads it.
Range estimateRange(const Histogram &histogram, RangeMethod method, double percentile);

/// Mean square of x minus what 8 bits keep of it.
double squaredError(const Histogram &histogram, Range range);
/// On how many of the levels the middle 95 % of the values lie: few where an outlier stretches the
/// range.
double levelsOfMost(const Histogram &histogram, Range range);
/// Share of the values that the range leaves out; within a bin they count as evenly spread.
double shareOutside(const Histogram &histogram, Range range);
/// Signal to quantization noise in decibels: the mean square of x over that error.
double signalToNoise(const Histogram &histogram, Range range);

} // namespace tenon::quant
