// What an engine with observers counts of a value. Free of MLIR.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tenon::opt {

/// Bins of `tn.histogram` by the highest bits of an f32: sign, exponent and 4 bits of mantissa.
inline constexpr int64_t kHistogramBits = 13;
inline constexpr int64_t kHistogramBins = int64_t{1} << kHistogramBits;

struct Observation {
  std::string name; ///< of an input or a result
  /// Its minimum, maximum and histogram: NAME:min and NAME:max f32 [1], NAME:histogram i32
  /// [1, kHistogramBins].
  bool hasHistogram = true;
  /// Of each index along this axis (from the last one where below 0) mean, minimum, maximum and
  /// mean square: NAME:means, NAME:lows, NAME:highs, NAME:squares, all f32 [channels].
  std::optional<int64_t> channels;

  /// "x", "x!" without a histogram, "x@1" with channels: for keys of caches.
  std::string text() const {
    return name + (hasHistogram ? "" : "!") + (channels ? "@" + std::to_string(*channels) : "");
  }
};

} // namespace tenon::opt
