// Repairs failed conditions in turn. Relies on them naming few values each, as shapes' constraints
// do.
#include "support/random/ConstraintSearch.h"

#include <algorithm>

namespace tenon {
namespace {

constexpr size_t kRounds = 64;
constexpr int64_t kFarthest = 4096;

/// Moves one value as little as possible so that the condition holds; larger ones first.
bool repair(std::span<int64_t> values, std::span<const SymbolRange> ranges, size_t condition,
            const std::function<bool(size_t, std::span<const int64_t>)> &holds) {
  for (int64_t distance = 1; distance <= kFarthest; ++distance) {
    for (size_t i = 0; i < values.size(); ++i) {
      int64_t before = values[i];
      for (int64_t tried : {before + distance, before - distance}) {
        values[i] = tried;
        if (tried >= ranges[i].min && tried <= ranges[i].max && holds(condition, values)) {
          return true;
        }
      }
      values[i] = before;
    }
  }
  return false;
}

} // namespace

bool satisfy(std::span<int64_t> values, std::span<const SymbolRange> ranges, size_t conditions,
             const std::function<bool(size_t, std::span<const int64_t>)> &holds) {
  for (size_t round = 0; round < kRounds; ++round) {
    bool all = true;
    for (size_t condition = 0; condition < conditions; ++condition) {
      if (holds(condition, values)) {
        continue;
      }
      all = false;
      if (!repair(values, ranges, condition, holds)) {
        return false;
      }
    }
    if (all) {
      return true;
    }
  }
  return false;
}

} // namespace tenon
