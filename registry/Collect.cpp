// What gc does: versions that nobody needs lose their files, then files without a version go. Rows
// first, each on the disk before a file is removed.

#include "registry/Registry.h"
#include "registry/SearchIndex.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace tenon::registry {
namespace {

/// Facts of a version that name another one.
constexpr const char *kReferenceFacts[] = {"parent", "data", "tuning"};

} // namespace

Result<std::set<Registry::Number>> Registry::needed() {
  std::vector<Number> reached; // where each alias is, and where a rollback of it goes
  Query aliases(*database, "SELECT object, name, version FROM alias");
  while (true) {
    TENON_ASSIGN(bool hasRow, aliases.next());
    if (!hasRow) {
      break;
    }
    reached.emplace_back(aliases.text(0), aliases.number(2));
    TENON_ASSIGN(std::vector<int64_t> stack, earlier(aliases.text(0), aliases.text(1)));
    if (!stack.empty()) {
      reached.emplace_back(aliases.text(0), stack.back());
    }
  }
  auto reach = [&](std::string_view text) {
    Result<Reference> named = parseReference(text);
    if (named.isOk() && named->version != 0) {
      reached.emplace_back(named->name, named->version);
    }
  };
  Query pins(*database, "SELECT text FROM rule WHERE text LIKE 'data = registry:%'");
  while (true) {
    TENON_ASSIGN(bool hasRow, pins.next());
    if (!hasRow) {
      break;
    }
    std::string text = pins.text(0);
    size_t begin = text.find(':') + 1;
    reach(std::string_view(text).substr(begin, text.rfind(' ') - begin));
  }
  std::set<Number> needed;
  while (!reached.empty()) {
    Number version = std::move(reached.back());
    reached.pop_back();
    if (!needed.insert(version).second) {
      continue;
    }
    Query facts(*database, "SELECT facts FROM version WHERE object = $1 AND number = $2",
                version.first, version.second);
    TENON_ASSIGN(bool isThere, facts.next());
    Json named = isThere ? parseJson(facts.text(0)) : Json::object();
    for (const char *fact : kReferenceFacts) {
      if (named.contains(fact) && named[fact].is_string()) {
        reach(named[fact].get<std::string>());
      }
    }
  }
  return needed;
}

Result<std::vector<Version>> Registry::superfluous(int64_t keep) {
  TENON_ASSIGN(std::set<Number> needed, this->needed());
  std::vector<Version> found;
  std::map<std::string, int64_t> kept;
  Query query(*database, "SELECT object, number, created, facts, kind FROM version WHERE blob IS "
                         "NOT NULL ORDER BY object, number DESC");
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      return found;
    }
    Version version;
    version.name = query.text(0);
    version.number = query.number(1);
    version.created = query.number(2);
    version.facts = parseJson(query.text(3));
    version.kind = query.text(4);
    if (++kept[version.name] > keep && !needed.contains({version.name, version.number})) {
      found.push_back(std::move(version));
    }
  }
}

Status Registry::collectFiles(bool isDryRun, Collected &collected) {
  // From versions and what the history says is deleted, neither of which anybody can change.
  std::set<Number> deleted;
  Query events(*database, "SELECT object, version FROM event WHERE action = 'delete'");
  while (true) {
    TENON_ASSIGN(bool hasRow, events.next());
    if (!hasRow) {
      break;
    }
    deleted.emplace(events.text(0), events.number(1));
  }
  std::set<std::string> used;
  Query versions(*database, "SELECT object, number, hash FROM version");
  while (true) {
    TENON_ASSIGN(bool hasRow, versions.next());
    if (!hasRow) {
      break;
    }
    if (!deleted.contains({versions.text(0), versions.number(1)})) {
      used.insert(versions.text(2));
    }
  }
  TENON_ASSIGN(std::vector<Blob> present, blobs->all());
  for (const Blob &blob : present) {
    if (used.contains(blob.hash)) {
      continue;
    }
    collected.bytes += blob.bytes;
    ++collected.files;
    if (!isDryRun) {
      TENON_TRY(blobs->remove(blob.hash));
    }
  }
  return isDryRun ? Status::ok() : blobs->removeUnfinished();
}

Result<Collected> Registry::collect(std::optional<int64_t> keep, bool isDryRun) {
  TENON_TRY(allow(Role::Admin, ""));
  TENON_ASSIGN(FilesLock lock, database->lockFiles(LockKind::Alone));
  TENON_ASSIGN(Transaction transaction, beginAs(Role::Admin, ""));
  Collected collected;
  if (keep) {
    TENON_ASSIGN(std::vector<Version> going, superfluous(*keep));
    for (const Version &version : going) {
      collected.versions.push_back(version.text());
      TENON_TRY(Query(*database, "UPDATE version SET blob = NULL WHERE object = $1 AND number = $2",
                      version.name, version.number)
                    .run());
      TENON_TRY(removeFromIndex(*database, version));
      Event event;
      event.action = "delete";
      event.object = version.name;
      event.version = version.number;
      event.detail = Json::object();
      TENON_TRY(add(std::move(event)));
    }
  }
  TENON_TRY(database->run(
      "DELETE FROM blob WHERE NOT EXISTS (SELECT 1 FROM version WHERE version.blob = blob.hash)"));
  if (isDryRun) {
    TENON_TRY(collectFiles(true, collected)); // the transaction goes back, and nothing has happened
    return collected;
  }
  int64_t connections = database->connectionsMade();
  TENON_TRY(finish(transaction));
  if (database->connectionsMade() != connections) { // a push may have begun since the lock was lost
    TENON_ASSIGN(lock, database->lockFiles(LockKind::Alone));
  }
  TENON_TRY(collectFiles(false, collected));
  return collected;
}

} // namespace tenon::registry
