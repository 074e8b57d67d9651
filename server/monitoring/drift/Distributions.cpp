// Tails by series and continued fractions, quantiles by bisection.

#include "server/monitoring/drift/Distributions.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace tenon::server {
namespace {

/// std::lgamma writes a global.
double logGamma(double x) {
  int sign = 0;
  return lgamma_r(x, &sign);
}

double logChoose(double n, double k) {
  return logGamma(n + 1) - logGamma(k + 1) - logGamma(n - k + 1);
}

template <typename Tail> double inverse(const Tail &tailOf, double tail, double high) {
  while (tailOf(high) > tail) {
    high *= 2;
  }
  double low = 0;
  for (int i = 0; i < 200 && low < high; ++i) {
    double middle = (low + high) / 2;
    (tailOf(middle) > tail ? low : high) = middle;
  }
  return high;
}

double sumOf(std::span<const uint64_t> counts) {
  double sum = 0;
  for (uint64_t count : counts) {
    sum += static_cast<double>(count);
  }
  return sum;
}

} // namespace

double psiOf(std::span<const uint64_t> reference, std::span<const uint64_t> window) {
  double bins = static_cast<double>(reference.size()), n = sumOf(window) + 0.5 * bins,
         m = sumOf(reference) + 0.5 * bins, sum = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    double p = (static_cast<double>(reference[i]) + 0.5) / m,
           q = (static_cast<double>(window[i]) + 0.5) / n;
    sum += (p - q) * std::log(p / q);
  }
  return sum;
}

double chi2Tail(double value, unsigned freedom) {
  // The upper incomplete gamma function: its series below the mean, its continued fraction above.
  double a = freedom / 2.0, x = value / 2;
  if (x <= 0) {
    return 1;
  }
  double scale = std::exp(a * std::log(x) - x - logGamma(a));
  if (x < a + 1) {
    double term = 1 / a, total = term, index = a;
    while (std::abs(term) > 1e-17 * total) {
      index += 1;
      term *= x / index;
      total += term;
    }
    return std::max(0.0, 1 - scale * total);
  }
  double b = x + 1 - a, c = 1e300, d = 1 / b, fraction = d; // Lentz's evaluation
  for (int index = 1; index < 10000; ++index) {
    double step = -index * (index - a);
    b += 2;
    d = 1 / (step * d + b);
    c = b + step / c;
    fraction *= c * d;
    if (std::abs(c * d - 1) < 1e-16) {
      break;
    }
  }
  return scale * fraction;
}

double chi2Quantile(double tail, unsigned freedom) {
  return inverse([freedom](double x) { return chi2Tail(x, freedom); }, tail, freedom + 20.0);
}

double kolmogorovTail(double x) {
  constexpr double kPi = std::numbers::pi;
  if (x < 0.04) {
    return 1;
  }
  double total = 0;
  if (x < 1) { // the series for small x, by the theta function's other form
    for (int k = 1; k < 20; ++k) {
      total += std::exp(-std::pow(2 * k - 1, 2) * kPi * kPi / (8 * x * x));
    }
    return 1 - std::sqrt(2 * kPi) / x * total;
  }
  for (int k = 1; k < 20; ++k) {
    total += (k % 2 ? 1 : -1) * std::exp(-2.0 * k * k * x * x);
  }
  return 2 * total;
}

double kolmogorovQuantile(double tail) { return inverse(kolmogorovTail, tail, 2); }

double kolmogorovFactor(double n, double m) {
  double root = std::sqrt(n * m / (n + m));
  return root + 0.12 + 0.11 / root;
}

double moreOftenTail(uint64_t count, uint64_t rows, uint64_t referenceCount,
                     uint64_t referenceRows) {
  if (count == 0) {
    return 1;
  }
  uint64_t having = count + referenceCount, all = rows + referenceRows;
  double whole = logChoose(static_cast<double>(all), static_cast<double>(rows)), sum = 0;
  for (uint64_t k = count; k <= std::min(having, rows); ++k) {
    if (rows - k <= all - having) {
      sum += std::exp(logChoose(static_cast<double>(having), static_cast<double>(k)) +
                      logChoose(static_cast<double>(all - having), static_cast<double>(rows - k)) -
                      whole);
    }
  }
  return std::min(1.0, sum);
}

double outsideTail(uint64_t count, uint64_t rows, uint64_t referenceRows) {
  // All orders of the n + m values are as likely: k new ones are outside if i of them are the
  // lowest and k - i the highest of all, with two of the reference next to them.
  double n = static_cast<double>(rows), m = static_cast<double>(referenceRows);
  if (count == 0 || referenceRows < 2) {
    return 1;
  }
  double inside = 0, probability = m * (m - 1) / ((n + m) * (n + m - 1));
  for (uint64_t i = 0; i < count; ++i) {
    double k = static_cast<double>(i);
    inside += (k + 1) * probability;
    probability *= (n - k) / (n + m - 2 - k);
  }
  return std::clamp(1 - inside, 0.0, 1.0);
}

double onlyInOneTail(uint64_t count, uint64_t rows, uint64_t otherRows,
                     std::span<const std::pair<uint64_t, uint64_t>> groups) {
  if (count == 0) {
    return 1;
  }
  struct Chance {
    double size, many, logarithm; ///< that all rows of a value are in the sample
  };
  std::vector<Chance> chances;
  double n = static_cast<double>(rows), all = static_cast<double>(rows + otherRows);
  for (const auto &[size, many] : groups) {
    if (size <= rows) {
      double k = static_cast<double>(size);
      chances.push_back({k, static_cast<double>(many), logChoose(n, k) - logChoose(all, k)});
    }
  }
  auto exponent = [&](double t) {
    double total = -t * static_cast<double>(count);
    for (const Chance &each : chances) {
      // log(1 + p (e^(t size) - 1)), without an overflow
      double high = each.logarithm + t * each.size;
      total +=
          each.many * (high > 0 ? high + std::log(std::exp(-high) * -std::expm1(each.logarithm) + 1)
                                : std::log1p(std::exp(high) - std::exp(each.logarithm)));
    }
    return total;
  };
  double low = 0, high = 1;
  while (high < 1024 && exponent(2 * high) < exponent(high)) {
    high *= 2;
  }
  high *= 2;
  for (int i = 0; i < 100; ++i) { // it is convex
    double left = low + (high - low) / 3, right = high - (high - low) / 3;
    bool isLeft = exponent(left) <= exponent(right);
    (isLeft ? high : low) = isLeft ? right : left;
  }
  return std::exp(std::min(0.0, exponent((low + high) / 2)));
}

ShareInterval wilsonInterval(uint64_t right, uint64_t rows) {
  if (rows == 0) {
    return {};
  }
  constexpr double z = 1.959963984540054;
  double n = static_cast<double>(rows), p = static_cast<double>(right) / n;
  double middle = (p + z * z / (2 * n)) / (1 + z * z / n),
         half = z / (1 + z * z / n) * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  return {std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

} // namespace tenon::server
