// What gc does: versions that nobody needs lose their files, then files without a version go. Rows
// first, each on the disk before a file is removed; files in batches.
//
// Pushes go on meanwhile, and need no lock for it. That no push is acknowledged whose file gc has
// removed follows from this, where each "commits" is a transaction that has the right to write
// alone:
//
//   gc                                          push
//   G1 commits marks for the files of a         P1 reads how many batches were removed so far
//      batch that no version has                P2 stores its files
//   G2 removes them                             P3 commits its rows, unless a file is marked, or
//   G3 once it has the answer, commits the         the count is another and a file is not there;
//      batch's count and takes the marks away      then it begins again at P1
//
// A file F is removed between G1 and G3 alone. Let P3 find no mark of F. If G1 comes after P3, it
// sees the version, and marks no F. Else G3 came before P3. If it came before P1, F was stored
// after it was removed. Else the count is another than at P1, and P3 looks whether F is there; as
// it has the right to write, G1 cannot come until its rows are there.
//
// Where the store did not answer, or gc was killed, G2 may still happen: the marks stay, and pushes
// of these bytes are refused until the next gc, or for as long as no request lasts
// (Registry::areStored).

#include "registry/Registry.h"
#include "registry/Schema.h"
#include "registry/SearchIndex.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace tenon::registry {

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
    for (const char *fact : kRelations) {
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
  Query query(*database,
              std::string(kVersionColumns) + "WHERE blob IS NOT NULL ORDER BY object, number DESC");
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      return found;
    }
    Version version = readVersion(query);
    if (++kept[version.name] > keep && !needed.contains({version.name, version.number})) {
      found.push_back(std::move(version));
    }
  }
}

Result<std::set<std::string>> Registry::usedFiles(int64_t &lastEvent) {
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
  TENON_ASSIGN(int64_t format, database->format());
  for (const char *statement :
       {"SELECT object, number, hash FROM version", "SELECT object, number, hash FROM part"}) {
    Query files(*database, statement);
    while (true) {
      TENON_ASSIGN(bool hasRow, files.next());
      if (!hasRow) {
        break;
      }
      if (!deleted.contains({files.text(0), files.number(1)})) {
        used.insert(files.text(2));
      }
    }
    if (format == kFirstFormat) {
      break;
    }
  }
  Query last(*database, "SELECT max(id) FROM event");
  TENON_TRY(last.next().takeStatus());
  lastEvent = last.number(0);
  return used;
}

Status Registry::deleteVersions(std::optional<int64_t> keep, std::vector<std::string> &deleted) {
  std::vector<Version> going;
  if (keep) {
    TENON_ASSIGN(going, superfluous(*keep));
  }
  TENON_ASSIGN(int64_t format, database->format());
  for (const Version &version : going) {
    deleted.push_back(version.text());
    for (const char *statement :
         {"UPDATE version SET blob = NULL WHERE object = $1 AND number = $2",
          "UPDATE part SET blob = NULL WHERE object = $1 AND number = $2"}) {
      TENON_TRY(Query(*database, statement, version.name, version.number).run());
      if (format == kFirstFormat) {
        break;
      }
    }
    TENON_TRY(removeFromIndex(*database, version));
    Event event;
    event.action = "delete";
    event.object = version.name;
    event.version = version.number;
    event.detail = Json::object();
    TENON_TRY(add(std::move(event)));
  }
  return database->run(
      format == kFirstFormat
          ? "DELETE FROM blob WHERE NOT EXISTS (SELECT 1 FROM version WHERE version.blob = "
            "blob.hash)"
          : "DELETE FROM blob WHERE NOT EXISTS (SELECT 1 FROM version WHERE version.blob = "
            "blob.hash) AND NOT EXISTS (SELECT 1 FROM part WHERE part.blob = blob.hash)");
}

Result<std::vector<std::string>> Registry::mark(const std::vector<std::string> &unused,
                                                std::set<std::string> &used, int64_t &lastEvent) {
  TENON_ASSIGN(Transaction transaction, beginAs(Role::Admin, ""));
  Query pushed(*database, "SELECT id, detail FROM event WHERE id > $1 AND action = 'push'",
               lastEvent);
  while (true) {
    TENON_ASSIGN(bool hasRow, pushed.next());
    if (!hasRow) {
      break;
    }
    lastEvent = std::max(lastEvent, pushed.number(0));
    Json detail = parseJson(pushed.text(1));
    used.insert(detail.value("hash", ""));
    Json files = detail.value("files", Json::array());
    for (const Json &file : files) {
      used.insert(file.value("sha256", ""));
    }
  }
  std::vector<std::string> marked;
  std::ranges::copy_if(unused, std::back_inserter(marked),
                       [&](const std::string &hash) { return !used.contains(hash); });
  TENON_ASSIGN(int64_t now, this->now());
  // One statement: others wait for the right to write meanwhile. Hashes are digits
  // (BlobStore::all).
  std::string rows;
  for (const std::string &hash : marked) {
    rows += fmt::format("{}('{}', {})", rows.empty() ? "" : ", ", hash, now);
  }
  if (!marked.empty()) {
    TENON_TRY(database->run(fmt::format("INSERT INTO removal VALUES {} ON CONFLICT (hash) DO "
                                        "UPDATE SET since = excluded.since",
                                        rows)
                                .c_str()));
  }
  TENON_TRY(transaction.commit());
  return marked;
}

Status Registry::unmark(const std::vector<std::string> &removed) {
  TENON_ASSIGN(Transaction transaction, Transaction::begin(*database));
  TENON_TRY(database->run(
      fmt::format("DELETE FROM removal WHERE hash IN ('{}')", fmt::join(removed, "', '")).c_str()));
  TENON_TRY(database->run("UPDATE removal SET since = since + 1 WHERE hash = ''"));
  return transaction.commit();
}

Result<Collected> Registry::collect(std::optional<int64_t> keep, bool isDryRun) {
  TENON_TRY(allow(Role::Admin, ""));
  if (!isDryRun) {
    TENON_TRY(raiseFormat());
  }
  Collected collected;
  int64_t lastEvent = 0;
  std::set<std::string> used;
  {
    TENON_ASSIGN(FilesLock lock, database->lockFiles(LockKind::Alone));
    TENON_ASSIGN(Transaction transaction, beginAs(Role::Admin, ""));
    TENON_TRY(deleteVersions(keep, collected.versions));
    TENON_ASSIGN(used, usedFiles(lastEvent));
    TENON_TRY(isDryRun ? Status::ok() : finish(transaction)); // else nothing has happened
  }
  TENON_ASSIGN(std::vector<Blob> present, blobs->all());
  std::erase_if(present, [&](const Blob &blob) { return used.contains(blob.hash); });
  for (size_t from = 0; from < present.size() && !isDryRun; from += BlobStore::kMaxRemoved) {
    std::vector<std::string> batch;
    size_t end = std::min(from + BlobStore::kMaxRemoved, present.size());
    for (size_t i = from; i < end; ++i) {
      batch.push_back(present[i].hash);
    }
    TENON_ASSIGN(FilesLock lock, database->lockFiles(LockKind::Alone)); // against readers
    TENON_ASSIGN(std::vector<std::string> marked, mark(batch, used, lastEvent));
    if (!marked.empty()) {
      TENON_TRY(blobs->remove(marked));
      TENON_TRY(unmark(marked));
    }
  }
  std::erase_if(present, [&](const Blob &blob) { return used.contains(blob.hash); });
  for (const Blob &blob : present) {
    ++collected.files;
    collected.bytes += blob.bytes;
  }
  TENON_TRY(isDryRun ? Status::ok() : blobs->removeUnfinished());
  return collected;
}

} // namespace tenon::registry
