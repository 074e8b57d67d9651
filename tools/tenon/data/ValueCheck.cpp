// Implements the look at values, for each type at its own speed.

#include "tools/tenon/data/ValueCheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace tenon::tool {
namespace {

/// bfloat16 is the upper half of float32.
struct BFloat16 {
  uint16_t bits;
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

} // namespace

template <typename T> void ValueCheck::addAll(Bytes row, size_t sample) {
  size_t count = row.size() / sizeof(T);
  for (size_t i = 0; i < count; ++i) {
    T stored;
    std::memcpy(&stored, row.data() + i * sizeof(T), sizeof(T));
    double value = static_cast<double>(stored);
    if (std::isfinite(value)) {
      lowest = std::min(lowest, value);
      highest = std::max(highest, value);
      hasOtherThanZero |= value != 0;
    } else if (std::isnan(value)) {
      nan = nan ? nan : std::optional<Place>({sample, i});
    } else {
      infinite = infinite ? infinite : std::optional<Place>({sample, i});
    }
  }
}

void ValueCheck::add(Bytes row, size_t sample) {
  switch (dtype) {
  case DType::F32:
    return addAll<float>(row, sample);
  case DType::F64:
    return addAll<double>(row, sample);
  case DType::F16:
    return addAll<_Float16>(row, sample);
  case DType::BF16:
    return addAll<BFloat16>(row, sample);
  default:
    return;
  }
}

Status ValueCheck::verdict(const std::string &where) const {
  std::optional<Place> place = nan ? nan : hasOtherThanZero ? infinite : std::nullopt;
  if (!place) {
    return Status::ok();
  }
  return Status::error(ErrorId::BadSampleValue,
                       fmt::format("{} is {} in sample {}, element {}", where,
                                   nan ? "not a number" : "infinite", place->sample,
                                   place->element),
                       "numpy.isfinite finds such values: fix them where the data is made");
}

} // namespace tenon::tool
