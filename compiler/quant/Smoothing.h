// SmoothQuant (Xiao et al., 2022): channels of an activation are divided by factors that the
// weights take, so that outliers in a few channels do not take the levels of all others.
#pragma once

#include "compiler/quant/Range.h"
#include "compiler/quant/Weights.h"

#include <optional>
#include <span>
#include <vector>

namespace tenon::quant {

/// What observers say of each channel of a tensor, over all runs.
struct Channels {
  std::vector<double> means, lows, highs, squares;
  size_t runs = 0;

  void add(std::span<const float> mean, std::span<const float> low, std::span<const float> high,
           std::span<const float> square);
};

struct Smoothing {
  double alpha = 0;             ///< how much of an outlier the weights take
  std::vector<float> factors;   ///< of each channel
  Range range;                  ///< of the activation divided by them
  double before = 0, after = 0; ///< predicted signal over noise of the product, in decibels
};

/// Weights of one reader, and the axis along which the channels are.
struct Reader {
  Floats weight; ///< of rank 2
  size_t axis = 0;
};

/// The alpha with the least noise of the products, if that is worth it; `error` is the mean squared
/// error of the activation as it is.
std::optional<Smoothing> findSmoothing(const Channels &channels, std::span<const Reader> readers,
                                       double error);

/// Multiplies the weights by the factors of their channels.
void smooth(Floats &weight, size_t axis, std::span<const float> factors);

} // namespace tenon::quant
