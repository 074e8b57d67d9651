// Statistics of counts and their distributions under no change, as
// bindings/python/tenon/_distributions.py computes them: the two give equal numbers. Free of
// everything else.

#pragma once

#include <cstdint>
#include <span>
#include <utility>

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

/// At least P(so many or more of `rows` have values that none of `otherRows` has), for samples of
/// one distribution. `groups`: (size, how many) of the values of both samples together. Chernoff's
/// bound, which negative association allows (K. Joag-Dev, F. Proschan, Ann. Stat. 11, 1983).
double onlyInOneTail(uint64_t count, uint64_t rows, uint64_t otherRows,
                     std::span<const std::pair<uint64_t, uint64_t>> groups);

struct ShareInterval {
  double low = 0, high = 1;
};
/// Wilson's score interval of `right` of `rows`, 95 %. Source: J. Am. Stat. Assoc. 22 (1927).
ShareInterval wilsonInterval(uint64_t right, uint64_t rows);

} // namespace tenon::server
