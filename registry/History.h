// The events of a registry: each has the hash of the one before in its own, so that none can be
// changed, left out or put between without all later hashes changing.

#pragma once

#include "registry/Database.h"
#include "support/json/Json.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::registry {

struct Event {
  int64_t id = 0;
  int64_t time = 0; ///< milliseconds since 1970
  std::string by;
  std::string action; ///< push, sign, tag, promote, rollback, rules, gate, delete, token, revoke
  std::string object;
  int64_t version = 0; ///< 0 where it is of none
  std::string alias;
  int64_t from = 0; ///< of a promotion or rollback: where the alias was
  Json detail;
  std::string previous; ///< hash of the event before; empty for the first
  std::string hash;
};

/// SHA-256 of everything but the hash itself.
std::string hashOf(const Event &event);

/// Appends in the transaction that is open: fills id, previous and hash. Events are in the order of
/// their ids; a clock that was wrong shows in their times.
Status append(Database &database, Event &event);

/// Events for `SELECT` below, in the order of the query.
inline constexpr const char *kEventColumns = "SELECT id, time, by, action, object, version, alias, "
                                             "origin, detail, previous, hash FROM event ";
Event readEvent(const Query &query);

/// As commands and webhooks have it: {"id", "time", "by", "action", "object", "version", "alias",
/// "from", "detail", "hash"}.
Json describe(const Event &event);

/// 2026-11-26T12:00:00.000Z.
std::string timeText(int64_t milliseconds);
/// The same back, also without milliseconds, or the first moment of a day: 2026-11-26. TN0105.
Result<int64_t> parseTime(std::string_view text);

} // namespace tenon::registry
