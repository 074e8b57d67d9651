// The nearest choice is named, since most wrong words are misspelled ones.

#include "tools/tenon/inputs/Limits.h"

#include "support/text/NearestName.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tenon::tool {

std::string choiceProblem(const std::string &text, const std::vector<std::string> &choices) {
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) {
    return std::string();
  }
  std::string list = fmt::format("give one of {}, not '{}'", fmt::join(choices, ", "), text);
  std::string nearest = nearestName(text, choices);
  return nearest.empty() ? list : fmt::format("{}; did you mean '{}'?", list, nearest);
}

} // namespace tenon::tool
