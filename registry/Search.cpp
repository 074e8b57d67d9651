// One statement for each search: it walks an index from the newest version on, of a tag, of a
// metric or of the time, looks each version up in the tables of the other conditions, and ends with
// the page.

#include "registry/Search.h"

#include "registry/Registry.h"
#include "support/text/Printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace tenon::registry {
namespace {

constexpr int64_t kHour = 3'600'000, kDay = 24 * kHour;

Status badSearch(std::string_view text, std::string_view why, std::string_view hint) {
  return Status::error(ErrorId::BadArgument,
                       fmt::format("'{}' {}", withoutControls(text.substr(0, 200)), why), hint);
}

/// A number that is all of the text.
std::optional<int64_t> wholeNumber(std::string_view text) {
  int64_t number = 0;
  std::from_chars_result parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  bool isWhole = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
  return isWhole && number >= 0 ? std::optional(number) : std::nullopt;
}

/// A statement as it is put together.
struct Statement {
  std::string text;
  std::vector<Value> arguments;

  std::string argument(Value value) {
    arguments.push_back(std::move(value));
    return fmt::format("${}", arguments.size());
  }
};

/// The first text behind all that begin so.
std::string behind(std::string prefix) {
  ++prefix.back();
  return prefix;
}

/// Conditions on the row `d` that is walked, whose version's number is in the column `number`.
std::string conditions(const Search &search, const std::string &number, Statement &made) {
  std::string text;
  if (search.since > 0) {
    text += fmt::format(" AND d.created >= {}", made.argument(search.since));
  }
  if (search.before < std::numeric_limits<int64_t>::max()) {
    text += fmt::format(" AND d.created < {}", made.argument(search.before));
  }
  if (search.after.version > 0) {
    std::string created = made.argument(search.after.created);
    std::string name = made.argument(search.after.name);
    text += fmt::format(" AND (d.created, d.object, d.{}) < ({}, {}, {})", number, created, name,
                        made.argument(search.after.version));
  }
  if (std::optional<std::string> pattern = likeOf(search.name)) {
    std::string prefix = search.name.substr(0, search.name.find_first_of("*?"));
    if (!prefix.empty()) { // compared faster than a pattern
      text += fmt::format(" AND d.object >= {}", made.argument(prefix));
      text += fmt::format(" AND d.object < {}", made.argument(behind(prefix)));
    }
    text += fmt::format(" AND d.object LIKE {} ESCAPE '!'", made.argument(*pattern));
  }
  if (!search.alias.empty()) {
    text += fmt::format(" AND EXISTS (SELECT 1 FROM alias a WHERE a.object = d.object AND a.name = "
                        "{} AND a.version = d.{})",
                        made.argument(search.alias), number);
  }
  return text;
}

std::string hasTag(const Tag &tag, const std::string &number, Statement &made) {
  std::string key = made.argument(tag.first);
  return fmt::format(" AND EXISTS (SELECT 1 FROM tag t WHERE t.key = {} AND t.value = {} AND "
                     "t.created = d.created AND t.object = d.object AND t.version = d.{})",
                     key, made.argument(tag.second), number);
}

std::string hasMetric(const Rule &bound, const std::string &number, Statement &made) {
  std::string name = made.argument(bound.metric);
  return fmt::format(" AND EXISTS (SELECT 1 FROM metric m WHERE m.object = d.object AND m.version "
                     "= d.{} AND m.name = {} AND m.value {} {})",
                     number, name, bound.isAtLeast ? ">=" : "<=", made.argument(bound.limit));
}

/// `isSeen`: the condition on the objects that somebody may look at.
Statement statementOf(const Search &search, const std::string &isSeen) {
  Statement made;
  std::string number = "version", from;
  std::vector<Tag> tags = search.tags;
  std::vector<Rule> bounds = search.bounds;
  if (!search.kind.empty()) {
    tags.emplace_back("", search.kind);
  }
  if (!search.name.empty() && !likeOf(search.name)) {
    number = "number";
    from = fmt::format("version d WHERE d.object = {} AND d.blob IS NOT NULL",
                       made.argument(search.name));
  } else if (tags.empty() && !bounds.empty()) {
    std::string name = made.argument(bounds[0].metric);
    from = fmt::format("metric d WHERE d.name = {} AND d.value {} {}", name,
                       bounds[0].isAtLeast ? ">=" : "<=", made.argument(bounds[0].limit));
    bounds.erase(bounds.begin());
  } else {
    Tag first = tags.empty() ? Tag() : tags.front();
    std::string key = made.argument(first.first);
    from = fmt::format("tag d WHERE d.key = {} AND d.value = {}", key, made.argument(first.second));
    tags.erase(tags.begin(), tags.begin() + (tags.empty() ? 0 : 1));
  }
  from += " AND " + isSeen + conditions(search, number, made);
  for (const Tag &tag : tags) {
    from += hasTag(tag, number, made);
  }
  for (const Rule &bound : bounds) {
    from += hasMetric(bound, number, made);
  }
  made.text = fmt::format(
      "WITH page AS MATERIALIZED (SELECT d.created AS created, d.object AS object, d.{0} AS number "
      "FROM {1} ORDER BY d.created DESC, d.object DESC, d.{0} DESC LIMIT {2}) "
      "SELECT 0 AS part, v.object, v.number, v.kind, v.hash, v.bytes, v.file, v.created, v.facts, "
      "v.note, 0.0 AS value FROM page p JOIN version v ON v.object = p.object AND v.number = "
      "p.number UNION ALL SELECT 1, m.object, m.version, m.name, '', 0, '', 0, '', '', m.value "
      "FROM page p JOIN metric m ON m.object = p.object AND m.version = p.number UNION ALL "
      "SELECT 2, a.object, a.version, a.name, '', 0, '', 0, '', '', 0.0 FROM page p JOIN alias a "
      "ON a.object = p.object AND a.version = p.number",
      number, from, made.argument(search.most));
  return made;
}

/// Tables that came later are missing where only readers have opened the registry since.
Status explain(Database &database, Status status) {
  Result<bool> isThere = status.isOk() ? Result<bool>(true) : database.hasTable("metric");
  return isThere.isOk() && !*isThere
             ? Status::error(
                   ErrorId::BadRegistry, "the registry was made by a Tenon without search",
                   "a user who may write must open it once, for example by `tenon registry list`")
             : status;
}

} // namespace

Result<Tag> parseTag(std::string_view text) {
  size_t equals = text.find('=');
  if (equals == text.npos || equals == 0) {
    return badSearch(text, "is not KEY=VALUE",
                     "for example team=vision, as given to `tenon registry push --meta`");
  }
  return Tag(text.substr(0, equals), text.substr(equals + 1));
}

Result<int64_t> parseTime(std::string_view text, int64_t now) {
  constexpr const char *kHint = "for example 2026-11-01, 2026-11-01T12:30:00Z, 7d or 12h";
  if (text.ends_with('d') || text.ends_with('h')) {
    std::optional<int64_t> count = wholeNumber(text.substr(0, text.size() - 1));
    int64_t unit = text.ends_with('d') ? kDay : kHour;
    return count && *count <= now / unit ? Result<int64_t>(now - *count * unit)
                                         : badSearch(text, "is not a time", kHint);
  }
  return parseTime(text);
}

std::string SearchPlace::text() const { return fmt::format("{}:{}:{}", created, version, name); }

Result<SearchPlace> parsePlace(std::string_view text) {
  size_t first = text.find(':'), second = text.find(':', std::min(first, text.size() - 1) + 1);
  std::optional<int64_t> created, version;
  if (!text.empty() && second != text.npos) {
    created = wholeNumber(text.substr(0, first));
    version = wholeNumber(text.substr(first + 1, second - first - 1));
  }
  return created && version && *version > 0
             ? Result<SearchPlace>(
                   SearchPlace{*created, std::string(text.substr(second + 1)), *version})
             : badSearch(text, "is not a position from an earlier page",
                         "use `next` from the page before");
}

Status addCondition(std::string_view text, Search &search) {
  if (text.find(">=") != text.npos || text.find("<=") != text.npos) {
    TENON_ASSIGN(Rule bound, parseBound(text));
    search.bounds.push_back(std::move(bound));
    return Status::ok();
  }
  TENON_ASSIGN(Tag tag, parseTag(text));
  search.tags.push_back(std::move(tag));
  return Status::ok();
}

std::optional<std::string> likeOf(std::string_view name) {
  if (name.find_first_of("*?") == name.npos) {
    return std::nullopt;
  }
  std::string pattern;
  for (char c : name) {
    pattern += c == '*'                           ? "%"
               : c == '?'                         ? "_"
               : c == '%' || c == '_' || c == '!' ? std::string{'!', c}
                                                  : std::string{c};
  }
  return pattern;
}

Result<Found> Registry::search(const Search &search) {
  Statement statement = statementOf(search, isSeen("d.object"));
  Query rows(*database, statement.text, statement.arguments);
  std::map<std::pair<std::string, int64_t>, FoundVersion> found;
  while (true) {
    Result<bool> hasRow = rows.next();
    if (!hasRow.isOk()) {
      return explain(*database, hasRow.takeStatus());
    }
    if (!*hasRow) {
      break;
    }
    FoundVersion &each = found[{rows.text(1), rows.number(2)}];
    if (rows.number(0) == 1) {
      each.metrics[rows.text(3)] = rows.real(10);
    } else if (rows.number(0) == 2) {
      each.aliases.push_back(rows.text(3));
    } else {
      Version &version = each.version;
      version.name = rows.text(1);
      version.number = rows.number(2);
      version.kind = rows.text(3);
      version.blob = {rows.text(4), static_cast<uint64_t>(rows.number(5))};
      version.file = rows.text(6);
      version.created = rows.number(7);
      version.facts = parseJson(rows.text(8));
      version.note = rows.text(9);
    }
  }
  Found page;
  for (auto &[key, each] : found) {
    page.versions.push_back(std::move(each));
  }
  auto placeOf = [](const FoundVersion &each) {
    return std::tuple(each.version.created, std::cref(each.version.name).get(),
                      each.version.number);
  };
  std::ranges::sort(page.versions, std::greater(), placeOf);
  if (static_cast<int64_t>(page.versions.size()) == search.most && search.most > 0) {
    const Version &last = page.versions.back().version;
    page.next = SearchPlace{last.created, last.name, last.number};
  }
  return page;
}

} // namespace tenon::registry
