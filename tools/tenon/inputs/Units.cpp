// Implements reading them.

#include "tools/tenon/inputs/Units.h"

#include <charconv>

namespace tenon::tool {

std::optional<double> numberWithUnit(std::string_view text, std::span<const Unit> units) {
  for (const Unit &unit : units) {
    if (!text.ends_with(unit.name)) {
      continue;
    }
    std::string_view number = text.substr(0, text.size() - unit.name.size());
    double value = 0;
    auto parsed = std::from_chars(number.data(), number.data() + number.size(), value);
    if (parsed.ec == std::errc() && parsed.ptr == number.data() + number.size() && value >= 0 &&
        value < 1e9) {
      return value * unit.size;
    }
  }
  return std::nullopt;
}

} // namespace tenon::tool
