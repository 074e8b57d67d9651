#include "support/text/ByteCount.h"

#include "support/text/Text.h"

#include <array>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <string_view>

namespace tenon {

std::string formatBytes(uint64_t bytes) {
  static constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) {
    value /= 1024;
  }
  std::array<char, 32> text;
  int length = std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f " : "%.1f ", value);
  return strCat(std::string_view(text.data(), static_cast<size_t>(length)), kUnits[unit]);
}

} // namespace tenon
