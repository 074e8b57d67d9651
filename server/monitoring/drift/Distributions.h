// Statistics of counts and their distributions under no change, as bindings/python/tenon/drift.py
// computes them: the two give equal numbers. Free of everything else.

#pragma once

#include <cstdint>
#include <span>

namespace tenon::server {

/// Population stability index of two lists of counts over the same bins, each count half a row
/// larger.
double psiOf(std::span<const uint64_t> reference, std::span<const uint64_t> window);

/// P(chi2(freedom) > x).
double chi2Tail(double x, unsigned freedom);
/// The x with chi2Tail(x, freedom) = tail.
double chi2Quantile(double tail, unsigned freedom);
/// P(K > x) of Kolmogorov's distribution.
double kolmogorovTail(double x);
double kolmogorovQuantile(double tail);
/// By which the two-sample statistic of n and m values has Kolmogorov's distribution (M. A.
/// Stephens, J. R. Stat. Soc. B 32, 1970).
double kolmogorovFactor(double n, double m);

/// P(so many or more of `rows` have a property), given how many of all have it: Fisher's exact
/// test, one side.
double moreOftenTail(uint64_t count, uint64_t rows, uint64_t referenceCount,
                     uint64_t referenceRows);
/// P(so many or more of `rows` new values lie outside of all of `referenceRows`), for samples of
/// one continuous distribution.
double outsideTail(uint64_t count, uint64_t rows, uint64_t referenceRows);

struct ShareInterval {
  double low = 0, high = 1;
};
/// Wilson's score interval of `right` of `rows`, 95 %. Source: J. Am. Stat. Assoc. 22 (1927).
ShareInterval wilsonInterval(uint64_t right, uint64_t rows);

} // namespace tenon::server
