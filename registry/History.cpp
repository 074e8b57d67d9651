#include "registry/History.h"

#include "registry/Sha256.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

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

std::string timeText(int64_t milliseconds) {
  time_t seconds = static_cast<time_t>(milliseconds / 1000);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(seconds), milliseconds % 1000);
}

} // namespace tenon::registry
