// Joins strings and numbers into messages without a formatting library, which the small runtime
// does not carry. It relies on std::string only.

#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace tenon {

inline void appendText(std::string &out, std::string_view text) { out += text; }
inline void appendText(std::string &out, char character) { out += character; }
inline void appendText(std::string &out, std::integral auto number) {
  out += std::to_string(number);
}

/// strCat("input '", name, "' has rank ", 3).
template <typename... Parts> std::string strCat(const Parts &...parts) {
  std::string out;
  (appendText(out, parts), ...);
  return out;
}

} // namespace tenon
