// Factors G = R * transpose(R) with R upper triangular, from the last row up; U is R's inverse.
// Sums are of doubles: matrices of rows that are alike are nearly singular.
#include "compiler/quant/Gram.h"

#include <algorithm>
#include <cmath>

namespace tenon::quant {

void Gram::add(std::span<const float> rows) {
  for (size_t row = 0; row + size <= rows.size() && size > 0; row += size) {
    std::span<const float> x = rows.subspan(row, size);
    for (size_t i = 0; i < size; ++i) {
      float factor = x[i];
      float *sum = sums.data() + i * size;
      for (size_t j = i; factor != 0 && j < size; ++j) {
        sum[j] += factor * x[j];
      }
    }
    ++count;
  }
}

std::vector<float> inverseFactor(const Gram &gram) {
  constexpr double kDamping = 0.01;
  size_t n = gram.depth();
  double mean = 0;
  for (size_t i = 0; i < n; ++i) {
    mean += gram.at(i, i) / static_cast<double>(n);
  }
  double added = mean > 0 ? kDamping * mean : 1;
  std::vector<double> r(n * n);
  for (size_t j = n; j-- > 0;) {
    double *own = r.data() + j * n;
    for (size_t i = j + 1; i-- > 0;) {
      double *other = r.data() + i * n;
      double sum = gram.at(i, j) + (i == j ? added : 0);
      for (size_t k = j + 1; k < n; ++k) {
        sum -= other[k] * own[k];
      }
      other[j] = i == j ? std::sqrt(std::max(sum, added * 1e-6)) : sum / own[j];
    }
  }
  // Columns of the inverse, upper triangular too, from the diagonal up.
  std::vector<float> u(n * n);
  std::vector<double> column(n);
  for (size_t j = 0; j < n; ++j) {
    column[j] = 1 / r[j * n + j];
    u[j * n + j] = static_cast<float>(column[j]);
    for (size_t i = j; i-- > 0;) {
      double sum = 0;
      for (size_t k = i + 1; k <= j; ++k) {
        sum += r[i * n + k] * column[k];
      }
      column[i] = -sum / r[i * n + i];
      u[i * n + j] = static_cast<float>(column[i]);
    }
  }
  return u;
}

} // namespace tenon::quant
