// What versions are looked for by: tags, metrics of gates, names, kinds, dates and aliases, in the
// words that commands, servers and requests share.

#pragma once

#include "registry/Rule.h"
#include "support/Result.h"

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::registry {

using Tag = std::pair<std::string, std::string>;

/// KEY=VALUE, as `push --meta` gave it: TN0105.
Result<Tag> parseTag(std::string_view text);
/// A date, 2026-11-01, a time of it, 2026-11-01T12:30:00Z, or days or hours until now, 7d, 12h: in
/// milliseconds since 1970. TN0105.
Result<int64_t> parseTime(std::string_view text, int64_t now);

/// Where a page of results ends, which the next one begins behind.
struct SearchPlace {
  int64_t created = std::numeric_limits<int64_t>::max();
  std::string name;
  int64_t version = 0;

  std::string text() const;
};
/// Of `SearchPlace::text`: TN0105.
Result<SearchPlace> parsePlace(std::string_view text);

struct Search {
  std::vector<Tag> tags;    ///< that a version has, all of them
  std::vector<Rule> bounds; ///< of what gates measured last
  std::string name;         ///< of the object; with * and ? in it a pattern
  std::string kind, alias;  ///< empty: any
  int64_t since = 0;        ///< when it was pushed
  int64_t before = std::numeric_limits<int64_t>::max();
  SearchPlace after;
  int64_t most = 100; ///< of a page
};

/// Adds a condition, a tag or a bound of a metric, whichever the text is: TN0105, TN1009.
Status addCondition(std::string_view text, Search &search);

/// The pattern of LIKE that a name with * and ? is; none where the name has neither.
std::optional<std::string> likeOf(std::string_view name);

} // namespace tenon::registry
