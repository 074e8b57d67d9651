// Bits first: in most cases they are equal.

#include "server/ipc/TensorDifference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tenon::server {

TensorDifference differenceOf(const Tensor &a, const Tensor &b) {
  TensorDifference difference;
  difference.isAny = a.bytes().size() > 0 &&
                     std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) != 0;
  if (difference.isAny && !isNumeric(a.dtype)) {
    difference.largest = HUGE_VAL;
    return difference;
  }
  for (int64_t i = 0; difference.isAny && i < a.elements(); ++i) {
    double left = elementAsDouble(a, i), right = elementAsDouble(b, i);
    bool isSame = left == right || (std::isnan(left) && std::isnan(right));
    double here = isSame ? 0 : std::abs(left - right);
    difference.largest = std::max(difference.largest, std::isfinite(here) ? here : HUGE_VAL);
  }
  return difference;
}

} // namespace tenon::server
