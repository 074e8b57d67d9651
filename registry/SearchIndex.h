// The tables that `search` reads, which follow from versions and the events of gates: tags of
// `push --meta`, and the values of metrics that gates measured last.

#pragma once

#include "registry/Database.h"
#include "registry/Search.h"
#include "support/json/Json.h"

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <vector>

namespace tenon::registry {

struct Version;

/// Tags of a version: what of `facts.meta` is text, its kind, and the one that all have (Schema.h).
std::vector<Tag> tagsOf(const std::string &kind, const Json &facts);
/// By the rows of a gate's figures: what was measured of the version itself, not beside another.
std::map<std::string, double> metricsOf(const Json &figures);

Status addTags(Database &database, const Version &version);
Status setMetrics(Database &database, const Version &version, const Json &figures);
/// Of a version that is deleted.
Status removeFromIndex(Database &database, const Version &version);

/// Makes the tables, and fills them, where a registry from before they were has none; nothing where
/// this user may not.
Status makeSearchTables(Database &database);

} // namespace tenon::registry
