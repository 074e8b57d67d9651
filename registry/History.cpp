#include "registry/History.h"

#include "registry/Sha256.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <charconv>
#include <ctime>

namespace tenon::registry {

std::string hashOf(const Event &event) {
  // A list in JSON keeps its parts apart, whatever they hold.
  Json parts = {event.id,      event.time,  event.by,   event.action,           event.object,
                event.version, event.alias, event.from, dumpJson(event.detail), event.previous};
  return sha256Of(dumpJson(parts));
}

Status append(Database &database, Event &event) {
  Query last(database, "SELECT id, hash FROM event ORDER BY id DESC LIMIT 1");
  TENON_ASSIGN(bool hasLast, last.next());
  event.id = hasLast ? last.number(0) + 1 : 1;
  event.previous = hasLast ? last.text(1) : "";
  event.hash = hashOf(event);
  return Query(database,
               "INSERT INTO event (id, time, by, action, object, version, alias, origin, detail, "
               "previous, hash) "
               "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
               event.id, event.time, event.by, event.action, event.object, event.version,
               event.alias, event.from, dumpJson(event.detail), event.previous, event.hash)
      .run();
}

Event readEvent(const Query &query) {
  Event event;
  event.id = query.number(0);
  event.time = query.number(1);
  event.by = query.text(2);
  event.action = query.text(3);
  event.object = query.text(4);
  event.version = query.number(5);
  event.alias = query.text(6);
  event.from = query.number(7);
  event.detail = parseJson(query.text(8));
  event.previous = query.text(9);
  event.hash = query.text(10);
  return event;
}

Json describe(const Event &event) {
  return {{"id", event.id},         {"time", timeText(event.time)}, {"by", event.by},
          {"action", event.action}, {"object", event.object},       {"version", event.version},
          {"alias", event.alias},   {"from", event.from},           {"detail", event.detail},
          {"hash", event.hash}};
}

std::string timeText(int64_t milliseconds) {
  time_t seconds = static_cast<time_t>(milliseconds / 1000);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(seconds), milliseconds % 1000);
}

Result<int64_t> parseTime(std::string_view text) {
  std::string copy(text);
  std::tm parts = {};
  const char *rest = ::strptime(copy.c_str(), "%Y-%m-%d", &parts);
  int64_t milliseconds = 0;
  if (rest && *rest == 'T') {
    rest = ::strptime(rest, "T%H:%M:%S", &parts);
    if (rest && *rest == '.') {
      std::from_chars_result parsed = std::from_chars(rest + 1, rest + 4, milliseconds);
      rest = parsed.ptr == rest + 4 ? parsed.ptr : nullptr;
    }
    rest = rest && *rest == 'Z' ? rest + 1 : nullptr;
  }
  int day = parts.tm_mday;
  time_t seconds = ::timegm(&parts); // which makes 3 March of 31 February
  if (!rest || *rest || parts.tm_mday != day || seconds < 0) {
    return Status::error(ErrorId::BadArgument, fmt::format("'{}' is not a time", copy),
                         "write 2027-01-31, or 2027-01-31T12:00:00Z");
  }
  return int64_t(seconds) * 1000 + milliseconds;
}

} // namespace tenon::registry
