// What the text of a string or a number may be, as automata: formats, bounds and multiples of JSON
// Schema.
#pragma once

#include "generate/grammar/Dfa.h"
#include "support/Result.h"
#include "support/json/Json.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string_view>

namespace tenon::generate::grammar {

/// The expression of a format, anchored; empty for one that any text has, none for one that is not
/// held.
std::optional<std::string_view> regexOfFormat(std::string_view name);

/// A bound of a number.
struct Bound {
  Json value; ///< a number
  bool isExclusive = false;
};
struct NumberRange {
  bool isInteger = false;
  std::vector<Bound> least = {}, most = {};
  uint64_t multiple = 1;
  std::vector<Json> excluded = {}; ///< numbers

  bool isFree() const { return least.empty() && most.empty() && multiple == 1 && excluded.empty(); }
};

/// The numbers of a range as decimals without an exponent. TN0256 where it is too large.
Result<Dfa> numbersOf(const NumberRange &range, Budget &budget);

} // namespace tenon::generate::grammar
