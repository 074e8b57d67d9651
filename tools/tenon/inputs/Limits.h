// Numbers and words that options may have, for the command line and for whoever is given them
// otherwise.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::tool {

/// Both ends are allowed.
template <typename T> struct Range {
  T low;
  T high;
};

/// As many threads as any machine of today has.
inline constexpr Range<uint64_t> kThreads = {1, 1024};

/// A day.
inline constexpr double kLongestSeconds = 86400;

/// Why `text` is none of `choices`; empty if it is.
std::string choiceProblem(const std::string &text, const std::vector<std::string> &choices);

} // namespace tenon::tool
