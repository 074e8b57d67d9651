// The features of a row: its elements, or four figures of them. Equal to those of feature_columns
// of bindings/python/tenon/drift.py to the bit.

#include "server/monitoring/drift/DriftReference.h"

#include "runtime/tensors/VisitType.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

namespace tenon::server {
namespace {

template <typename T> double load(const std::byte *elements, size_t i) {
  T value;
  std::memcpy(&value, elements + i * sizeof(T), sizeof(T));
  return static_cast<double>(value);
}

/// Adds as NumPy does, so that figures of a row have equal bits: pairwise, in blocks of eight
/// running sums.
double pairwiseSum(const double *values, size_t count) {
  constexpr size_t kBlock = 128;
  if (count > kBlock) {
    size_t half = count / 2 - count / 2 % 8;
    double left = pairwiseSum(values, half);
    return left + pairwiseSum(values + half, count - half);
  }
  double sums[8] = {}, total = 0;
  size_t at = 0;
  if (count >= 8) {
    std::copy_n(values, 8, sums);
    for (at = 8; at + 8 <= count; at += 8) {
      for (size_t k = 0; k < 8; ++k) {
        sums[k] += values[at + k];
      }
    }
    total =
        ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  }
  for (; at < count; ++at) {
    total += values[at];
  }
  return total;
}

void findRange(const double *values, size_t count, double &least, double &largest) {
  double low[8], high[8];
  std::fill_n(low, 8, values[0]);
  std::fill_n(high, 8, values[0]);
  size_t whole = count - count % 8;
  for (size_t i = 0; i < whole; i += 8) {
    for (size_t k = 0; k < 8; ++k) {
      low[k] = values[i + k] < low[k] ? values[i + k] : low[k];
      high[k] = values[i + k] > high[k] ? values[i + k] : high[k];
    }
  }
  least = *std::min_element(low, low + 8);
  largest = *std::max_element(high, high + 8);
  for (size_t i = whole; i < count; ++i) {
    least = std::min(least, values[i]);
    largest = std::max(largest, values[i]);
  }
}

void squareDistances(double *values, size_t count, double mean) {
  for (size_t i = 0; i < count; ++i) {
    values[i] = (values[i] - mean) * (values[i] - mean);
  }
}

/// Mean, standard deviation, least and largest. Each loop does one thing, so that compilers make
/// vectors of it.
template <typename T> void summarize(const std::byte *elements, size_t count, double *figures) {
  std::unique_ptr<double[]> row = std::make_unique_for_overwrite<double[]>(count);
  double *values = row.get(), size = static_cast<double>(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = load<T>(elements, i);
  }
  double mean = pairwiseSum(values, count) / size;
  // The sum also is no number where infinities of both signs are.
  if (std::isnan(mean) &&
      std::any_of(values, values + count, [](double each) { return std::isnan(each); })) {
    std::fill_n(figures, 4, std::numeric_limits<double>::quiet_NaN());
    return;
  }
  figures[0] = mean;
  findRange(values, count, figures[2], figures[3]);
  squareDistances(values, count, mean);
  figures[1] = std::sqrt(pairwiseSum(values, count) / size);
}

} // namespace

void featuresOfRow(const MonitoredPort &port, Bytes elements, double *features) {
  size_t count = elements.size() / (bitWidth(port.dtype) / 8);
  visitType(port.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (port.isSummarized) {
      summarize<T>(elements.data(), count, features);
      return;
    }
    for (size_t i = 0; i < count; ++i) {
      features[i] = load<T>(elements.data(), i);
    }
  });
}

} // namespace tenon::server
