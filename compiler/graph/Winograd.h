// Winograd's minimal filtering F(m x m, 3 x 3) by Toom and Cook (Lavin and Gray, "Fast Algorithms
// for Convolutional Neural Networks", 2015): its points and how filters are transformed.
// All who transform filters, inputs or sums must agree on it; nothing here needs MLIR.
#pragma once

#include <array>
#include <cstdint>

namespace tenon::winograd {

inline constexpr int64_t kTaps = 3;
/// The m that there are: output pixels of a tile's side.
inline constexpr int64_t kSizes[] = {2, 4};
/// Of a transformed filter.
inline constexpr int64_t kMaxSide = 6;

/// The points are 0, +-inner and, for m = 4, +-outer, then infinity: in this order the rows of all
/// transforms. With 3/4 and 3/2 sums of 512 channels are off by 2.6e-6 of the largest result, with
/// the usual 1 and 2 by 1.1e-5, and added up one by one by 1.7e-6; F(2 x 2) is exact to 6e-7. Their
/// squares and products are exact in FP32.
struct Points {
  double inner = 1, outer = 0;
};
constexpr Points pointsOf(int64_t m) { return m == 4 ? Points{0.75, 1.5} : Points{}; }

/// Of a row: its point, and what the filter's polynomial is divided by.
struct Row {
  double point = 0, divisor = 1;
};
constexpr Row rowOf(int64_t m, int64_t row) {
  auto [a, b] = pointsOf(m);
  double inner = a * a, outer = b * b;
  switch (row) {
  case 0:
    return {0, m == 4 ? inner * outer : -inner};
  case 1:
  case 2:
    return {row == 1 ? a : -a, 2 * inner * (m == 4 ? inner - outer : 1)};
  default:
    return {row == 3 ? b : -b, 2 * outer * (outer - inner)};
  }
}

/// Three taps to m + 2 values.
inline void transformFilter(int64_t m, const std::array<double, kTaps> &taps, double *out) {
  for (int64_t row = 0; row <= m; ++row) {
    auto [point, divisor] = rowOf(m, row);
    out[row] = (taps[0] + point * (taps[1] + point * taps[2])) / divisor;
  }
  out[m + 1] = taps[2];
}

/// The three taps behind m + 2 values.
inline std::array<double, kTaps> originalFilter(int64_t m, const double *values) {
  auto [point, divisor] = rowOf(m, 1);
  return {values[0] * rowOf(m, 0).divisor, (values[1] - values[2]) * divisor / (2 * point),
          values[m + 1]};
}

} // namespace tenon::winograd
