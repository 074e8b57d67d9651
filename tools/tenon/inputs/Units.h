// Numbers with a unit behind them, as options have them.

#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace tenon::tool {

/// What a number before `name` counts, in the unit of the result.
struct Unit {
  std::string_view name;
  double size;
};

/// In milliseconds.
inline constexpr Unit kTimes[] = {{"us", 1e-3}, {"ms", 1}, {"s", 1e3}};

/// A number from 0 to below 1e9 before one of the units, of which the first that fits counts; none
/// for another text.
std::optional<double> numberWithUnit(std::string_view text, std::span<const Unit> units);

} // namespace tenon::tool
