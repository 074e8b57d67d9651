// What gc does: versions that nobody needs lose their files, then files without a version go. Rows
// first, each on the disk before a file is removed.

#include "registry/Registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace tenon::registry {

Result<std::vector<Version>> Registry::superfluous(int64_t keep) {
  // Where each alias is, and where a rollback of it goes.
  std::set<std::pair<std::string, int64_t>> needed;
  Query aliases(*database, "SELECT object, name, version FROM alias");
  while (true) {
    TENON_ASSIGN(bool hasRow, aliases.next());
    if (!hasRow) {
      break;
    }
    needed.emplace(aliases.text(0), aliases.number(2));
    TENON_ASSIGN(std::vector<int64_t> stack, earlier(aliases.text(0), aliases.text(1)));
    if (!stack.empty()) {
      needed.emplace(aliases.text(0), stack.back());
    }
  }
  std::vector<Version> found;
  std::map<std::string, int64_t> kept;
  Query query(*database, "SELECT object, number, hash, bytes FROM version WHERE blob IS NOT NULL "
                         "ORDER BY object, number DESC");
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      return found;
    }
    Version version;
    version.name = query.text(0);
    version.number = query.number(1);
    if (++kept[version.name] > keep && !needed.contains({version.name, version.number})) {
      found.push_back(std::move(version));
    }
  }
}

Status Registry::collectFiles(bool isDryRun, Collected &collected) {
  TENON_ASSIGN(std::vector<Blob> present, blobs->all());
  for (const Blob &blob : present) {
    Query used(*database, "SELECT 1 FROM blob WHERE hash = $1", blob.hash);
    TENON_ASSIGN(bool isUsed, used.next());
    if (isUsed) {
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
  TENON_TRY(allow(Role::Admin));
  TENON_ASSIGN(FilesLock lock, database->lockFiles(LockKind::Alone));
  TENON_ASSIGN(Transaction transaction, Transaction::begin(*database));
  Collected collected;
  if (keep) {
    TENON_ASSIGN(std::vector<Version> going, superfluous(*keep));
    for (const Version &version : going) {
      collected.versions.push_back(version.text());
      TENON_TRY(Query(*database, "UPDATE version SET blob = NULL WHERE object = $1 AND number = $2",
                      version.name, version.number)
                    .run());
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
