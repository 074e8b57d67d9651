// Finds values that satisfy conditions, for whoever must choose the sizes of a model's dims.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace tenon {

struct SymbolRange {
  int64_t min = 0;
  int64_t max = 0; ///< inclusive
};

/// Changes one value at a time, to the nearest one in its range for which a condition that failed
/// holds, until all of `conditions` hold. A search of bounded length over the first thousands of
/// each range: false if it ends without success, and then the values are as tried last.
bool satisfy(std::span<int64_t> values, std::span<const SymbolRange> ranges, size_t conditions,
             const std::function<bool(size_t, std::span<const int64_t>)> &holds);

} // namespace tenon
