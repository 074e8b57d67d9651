// Noise is predicted from sums over channels: the error of a level of the activation times the
// weights that it meets, and the error of a level of the weights times the activation.
#include "compiler/quant/Smoothing.h"

#include <algorithm>
#include <cmath>

namespace tenon::quant {
namespace {

constexpr double kSmoothingLevels = 255;
/// Noise that is left at most where smoothing is worth a multiplication: a decibel less.
constexpr double kWorth = 0.8;

/// Visits each weight with its channel and output.
template <typename Visit> void forEach(const Reader &reader, const Visit &visit) {
  size_t rows = static_cast<size_t>(reader.weight.dims[0]);
  size_t columns = static_cast<size_t>(reader.weight.dims[1]), index = 0;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      double value = reader.weight.values[index++];
      reader.axis == 0 ? visit(row, column, value) : visit(column, row, value);
    }
  }
}

struct Sums {
  double signal = 0;
  std::vector<double> energy, most; ///< of the weights of each channel, of all readers
};

Sums sumsOf(const Channels &channels, std::span<const Reader> readers) {
  Sums sums;
  sums.energy.resize(channels.means.size());
  sums.most.resize(channels.means.size());
  for (const Reader &reader : readers) {
    forEach(reader, [&](size_t channel, size_t, double value) {
      sums.energy[channel] += value * value;
      sums.most[channel] = std::max(sums.most[channel], std::fabs(value));
    });
  }
  for (size_t i = 0; i < channels.means.size(); ++i) {
    sums.signal += channels.squares[i] * sums.energy[i];
  }
  return sums;
}

/// Noise of the products by what rounding does to weights that were multiplied by factors.
double weightNoise(const Channels &channels, std::span<const Reader> readers,
                   std::span<const float> factors) {
  double input = 0, noise = 0;
  for (size_t i = 0; i < factors.size(); ++i) {
    input += channels.squares[i] / (double(factors[i]) * factors[i]);
  }
  for (const Reader &reader : readers) {
    std::vector<double> most(static_cast<size_t>(reader.weight.dims[1 - reader.axis]));
    forEach(reader, [&](size_t channel, size_t output, double value) {
      most[output] = std::max(most[output], std::fabs(value * factors[channel]));
    });
    for (double each : most) {
      noise += input * (each / kMaxWeight) * (each / kMaxWeight) / 12;
    }
  }
  return noise;
}

double decibels(double signal, double noise) {
  return 10 * std::log10(signal / std::max(noise, 1e-30));
}

} // namespace

void Channels::add(std::span<const float> mean, std::span<const float> low,
                   std::span<const float> high, std::span<const float> square) {
  means.resize(mean.size());
  squares.resize(mean.size());
  if (runs == 0) {
    lows.assign(low.begin(), low.end());
    highs.assign(high.begin(), high.end());
  }
  ++runs;
  for (size_t i = 0; i < mean.size(); ++i) {
    means[i] += (mean[i] - means[i]) / static_cast<double>(runs);
    squares[i] += (square[i] - squares[i]) / static_cast<double>(runs);
    lows[i] = std::min<double>(lows[i], low[i]);
    highs[i] = std::max<double>(highs[i], high[i]);
  }
}

std::optional<Smoothing> findSmoothing(const Channels &channels, std::span<const Reader> readers,
                                       double error) {
  Sums sums = sumsOf(channels, readers);
  size_t count = channels.means.size();
  double energy = 0;
  for (double each : sums.energy) {
    energy += each;
  }
  std::vector<float> ones(count, 1);
  double before = error * energy + weightNoise(channels, readers, ones), least = before * kWorth;
  std::optional<Smoothing> found;
  for (int tenth = 1; tenth < 10; ++tenth) {
    Smoothing tried;
    tried.alpha = tenth / 10.0;
    double noise = 0;
    for (size_t i = 0; i < count; ++i) {
      double most = std::max(std::fabs(channels.lows[i]), std::fabs(channels.highs[i]));
      double factor = most > 0 && sums.most[i] > 0
                          ? std::pow(most, tried.alpha) / std::pow(sums.most[i], 1 - tried.alpha)
                          : 1;
      tried.factors.push_back(static_cast<float>(std::clamp(factor, 1e-5, 1e5)));
      double own = tried.factors.back();
      tried.range.low = std::min(tried.range.low, channels.lows[i] / own);
      tried.range.high = std::max(tried.range.high, channels.highs[i] / own);
      noise += own * own * sums.energy[i];
    }
    double step = (tried.range.high - tried.range.low) / kSmoothingLevels;
    noise = noise * step * step / 12 + weightNoise(channels, readers, tried.factors);
    if (noise < least) {
      least = noise;
      tried.before = decibels(sums.signal, before);
      tried.after = decibels(sums.signal, noise);
      found = std::move(tried);
    }
  }
  return found;
}

void smooth(Floats &weight, size_t axis, std::span<const float> factors) {
  size_t columns = static_cast<size_t>(weight.dims[1]);
  for (size_t i = 0; i < weight.values.size(); ++i) {
    weight.values[i] *= factors[axis == 0 ? i / columns : i % columns];
  }
}

} // namespace tenon::quant
