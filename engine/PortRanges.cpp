#include "engine/PortRanges.h"

#include <algorithm>
#include <limits>

namespace tenon::engine {

// Dims of outputs are expressions, which need not be monotone:
// all corners of the symbols' ranges are tried, and where there are too many, only the two ends.
PortRanges rangesOf(const Plan &plan, const Port &port) {
  constexpr size_t maxSymbols = 10;
  size_t count = plan.symbols.size();
  uint64_t corners = count <= maxSymbols ? uint64_t(1) << count : 2;
  PortRanges ranges;
  for (ExprId dim : port.dims) {
    int64_t least = std::numeric_limits<int64_t>::max();
    int64_t most = 0;
    for (uint64_t corner = 0; corner < corners; ++corner) {
      std::vector<int64_t> symbols;
      for (size_t i = 0; i < count; ++i) {
        bool high = count <= maxSymbols ? (corner >> i & 1) != 0 : corner != 0;
        symbols.push_back(high ? plan.symbols[i].max : plan.symbols[i].min);
      }
      int64_t value = evaluate(plan.exprs.program(dim), symbols).value_or(0);
      least = std::min(least, value);
      most = std::max(most, value);
    }
    ranges.least.push_back(least);
    ranges.most.push_back(most);
  }
  return ranges;
}

} // namespace tenon::engine
