#include "registry/SearchIndex.h"

#include "registry/History.h"
#include "registry/Registry.h"
#include "registry/Schema.h"

#include <cmath>

namespace tenon::registry {
namespace {

Status fill(Database &database) {
  std::map<std::pair<std::string, int64_t>, Version> versions;
  Query rows(database, std::string(kVersionColumns) + "WHERE blob IS NOT NULL");
  while (true) {
    TENON_ASSIGN(bool hasRow, rows.next());
    if (!hasRow) {
      break;
    }
    Version version = readVersion(rows);
    versions.emplace(std::pair(version.name, version.number), std::move(version));
  }
  for (const auto &[key, version] : versions) {
    TENON_TRY(addTags(database, version));
  }
  std::vector<Event> gates;
  Query events(database, std::string(kEventColumns) + "WHERE action = 'gate' ORDER BY id");
  while (true) {
    TENON_ASSIGN(bool hasRow, events.next());
    if (!hasRow) {
      break;
    }
    gates.push_back(readEvent(events));
  }
  for (const Event &event : gates) {
    auto version = versions.find({event.object, event.version});
    if (version != versions.end()) {
      TENON_TRY(setMetrics(database, version->second, resultOf(event).figures));
    }
  }
  return Status::ok();
}

} // namespace

std::vector<Tag> tagsOf(const std::string &kind, const Json &facts) {
  std::vector<Tag> tags = {{"", ""}, {"", kind}};
  Json meta = facts.is_object() ? facts.value("meta", Json::object()) : Json::object();
  for (const auto &[key, value] : meta.items()) {
    if (value.is_string() && !key.empty()) {
      tags.emplace_back(key, value.get<std::string>());
    }
  }
  return tags;
}

std::map<std::string, double> metricsOf(const Json &figures) {
  std::map<std::string, double> metrics;
  for (const Json &row : figures) {
    Json text = row.is_object() ? row.value("rule", Json()) : Json();
    Json value = row.is_object() ? row.value("value", Json()) : Json();
    Result<Rule> rule = parseRule(text.is_string() ? text.get<std::string>() : "");
    if (value.is_number() && rule.isOk() && rule->kind == LimitKind::Value &&
        rule->baseline == Baseline::None) {
      metrics[rule->metric] = value.get<double>();
    }
  }
  return metrics;
}

Status addTags(Database &database, const Version &version) {
  for (const auto &[key, value] : tagsOf(version.kind, version.facts)) {
    TENON_TRY(Query(database, "INSERT INTO tag VALUES ($1, $2, $3, $4, $5)", key, value,
                    version.created, version.name, version.number)
                  .run());
  }
  return Status::ok();
}

Status setMetrics(Database &database, const Version &version, const Json &figures) {
  for (const auto &[name, value] : metricsOf(figures)) {
    TENON_TRY(Query(database,
                    "INSERT INTO metric VALUES ($1, $2, $3, $4, $5) ON CONFLICT (object, version, "
                    "name) DO UPDATE SET value = excluded.value",
                    version.name, version.number, name, version.created, value)
                  .run());
  }
  return Status::ok();
}

Status removeFromIndex(Database &database, const Version &version) {
  for (const auto &[key, value] : tagsOf(version.kind, version.facts)) {
    TENON_TRY(Query(database,
                    "DELETE FROM tag WHERE key = $1 AND value = $2 AND created = $3 AND object = "
                    "$4 AND version = $5",
                    key, value, version.created, version.name, version.number)
                  .run());
  }
  return Query(database, "DELETE FROM metric WHERE object = $1 AND version = $2", version.name,
               version.number)
      .run();
}

Status makeSearchTables(Database &database) {
  TENON_ASSIGN(bool isThere, database.hasTable("metric"));
  if (isThere) {
    return Status::ok();
  }
  Result<Transaction> transaction = Transaction::begin(database);
  if (!transaction.isOk()) {
    return Status::ok();
  }
  TENON_ASSIGN(isThere, database.hasTable("metric")); // somebody else was first
  if (isThere || !database.define(kSearchTables).isOk()) {
    return Status::ok();
  }
  TENON_TRY(fill(database));
  return transaction->commit();
}

} // namespace tenon::registry
