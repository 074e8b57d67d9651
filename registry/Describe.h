// What a registry has as JSON, the same in commands with --json, in replies of servers and in
// Python.

#pragma once

#include "registry/Registry.h"

namespace tenon::registry {

/// Of the aliases of an object those that are at the version.
std::vector<std::string> aliasesAt(const Object &object, int64_t version);

/// {"name", "version", "kind", "hash", "bytes", "file", "files", "created", "facts", "note",
/// "aliases", "deleted"}
Json describe(const Version &version, const std::vector<std::string> &aliases);
/// {"name", "kind", "newest", "aliases": {"production": 3}}
Json describe(const Object &object);
/// {"name", "alias", "from", "to"}; `from` is null where the alias was at none.
Json describe(const Move &move);
/// {"versions": [a version with "metrics"], "next": null or where the next page begins}
Json describe(const Found &found);
/// {"name", "version", "kind", "hash", "bytes", "files", "existing"}
Json describe(const Pushed &pushed);

} // namespace tenon::registry
