#include "registry/Describe.h"

namespace tenon::registry {

std::vector<std::string> aliasesAt(const Object &object, int64_t version) {
  std::vector<std::string> names;
  for (const Alias &alias : object.aliases) {
    if (alias.version == version) {
      names.push_back(alias.name);
    }
  }
  return names;
}

Json describe(const Version &version, const std::vector<std::string> &aliases) {
  return {{"name", version.name},
          {"version", version.number},
          {"kind", version.kind},
          {"hash", version.blob.hash},
          {"bytes", version.blob.bytes},
          {"file", version.file},
          {"files", rowsOf(version.parts)},
          {"created", timeText(version.created)},
          {"facts", version.facts},
          {"note", version.note},
          {"aliases", aliases},
          {"deleted", version.isDeleted}};
}

Json describe(const Object &object) {
  Json aliases = Json::object();
  for (const Alias &alias : object.aliases) {
    aliases[alias.name] = alias.version;
  }
  return {{"name", object.name},
          {"kind", object.kind},
          {"newest", object.newest},
          {"aliases", aliases}};
}

Json describe(const Move &move) {
  return {{"name", move.name},
          {"alias", move.alias},
          {"from", move.from ? Json(move.from) : Json()},
          {"to", move.to}};
}

Json describe(const Found &found) {
  Json rows = Json::array();
  for (const FoundVersion &each : found.versions) {
    Json row = describe(each.version, each.aliases);
    row["metrics"] = each.metrics;
    rows.push_back(std::move(row));
  }
  return {{"versions", std::move(rows)}, {"next", found.next ? Json(found.next->text()) : Json()}};
}

Json describe(const Pushed &pushed) {
  const Version &version = pushed.version;
  return {{"name", version.name},         {"version", version.number},
          {"kind", version.kind},         {"hash", version.blob.hash},
          {"bytes", version.blob.bytes},  {"files", rowsOf(version.parts)},
          {"existing", pushed.isExisting}};
}

} // namespace tenon::registry
