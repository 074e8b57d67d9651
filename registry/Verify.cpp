// Holds every table of a registry against what its history says (Replay.h), and hashes the files.

#include "registry/Registry.h"
#include "registry/Replay.h"
#include "registry/Schema.h"
#include "registry/SearchIndex.h"
#include "registry/Sha256.h"

#include <fmt/format.h>

#include <map>

namespace tenon::registry {
namespace {

Status altered(std::string_view what) {
  return Status::error(
      ErrorId::HistoryAltered, what,
      "restore the registry from a backup; something other than Tenon has changed its database");
}

/// A table as text, by its key.
using Table = std::map<std::string, Json>;

/// The rows of a query, whose first `keys` columns are the key; `isNumber` of the others has a
/// digit for each, 'r' for a real number.
Result<Table> read(Database &database, std::string_view query, int keys,
                   std::string_view isNumber) {
  Table table;
  Query rows(database, query);
  while (true) {
    TENON_ASSIGN(bool hasRow, rows.next());
    if (!hasRow) {
      return table;
    }
    std::string key = rows.text(0);
    for (int i = 1; i < keys; ++i) {
      key += ":" + rows.text(i);
    }
    Json row = Json::array();
    for (int i = 0; i < static_cast<int>(isNumber.size()); ++i) {
      int column = keys + i;
      row.push_back(rows.isNull(column) ? Json()
                    : isNumber[static_cast<size_t>(i)] == '1'
                        ? Json(static_cast<uint64_t>(rows.number(column)))
                    : isNumber[static_cast<size_t>(i)] == 'r' ? Json(rows.real(column))
                                                              : Json(rows.text(column)));
    }
    table.emplace(std::move(key), std::move(row));
  }
}

/// TN1011 with the first row that is not the same.
Status compare(std::string_view what, const Table &has, const Table &should) {
  for (const auto &[key, row] : should) {
    Table::const_iterator found = has.find(key);
    if (found == has.end() || found->second != row) {
      return altered(fmt::format("{} {} is {}", what, key,
                                 found == has.end() ? "gone" : "not as in the history"));
    }
  }
  for (const auto &[key, row] : has) {
    if (!should.contains(key)) {
      return altered(fmt::format("the history has no {} {}", what, key));
    }
  }
  return Status::ok();
}

std::string keyOf(const Replay::Number &version) {
  return fmt::format("{}:{}", version.first, version.second);
}

/// What gc removes now, or did when it was killed: no file that a version has.
Status compareRemovals(Database &database, const Table &blobs) {
  TENON_ASSIGN(Table removals, read(database, "SELECT hash, since FROM removal", 1, "1"));
  if (!removals.contains("")) {
    return altered("the count of files that gc has removed is gone");
  }
  removals.erase("");
  for (const auto &[hash, since] : removals) {
    if (!isSha256(hash) || blobs.contains(hash)) {
      return altered(fmt::format("'{}' is marked for removal by gc", hash));
    }
  }
  return Status::ok();
}

Status compareVersions(Database &database, const Replay &replay) {
  // The hash of the facts is what their event has.
  TENON_ASSIGN(Table versions,
               read(database,
                    "SELECT object, number, kind, hash, bytes, blob, file, created, note, facts "
                    "FROM version",
                    2, "00100100"));
  Table should, blobs, parts;
  for (const auto &[version, pushed] : replay.versions) {
    bool isDeleted = replay.deleted.contains(version);
    Json hash = pushed.value("hash", Json());
    should[keyOf(version)] = {pushed.value("kind", Json()),  hash,
                              pushed.value("bytes", Json()), isDeleted ? Json() : hash,
                              pushed.value("file", Json()),  pushed.value("created", Json()),
                              pushed.value("note", Json()),  pushed.value("facts", Json())};
    if (!isDeleted) {
      for (const Blob &blob : filesOf(pushed)) {
        blobs[blob.hash] = {blob.bytes};
      }
    }
    Json files = pushed.value("files", Json::array());
    for (const Json &file : files) {
      parts[fmt::format("{}:{}", keyOf(version), file.value("path", ""))] = {
          file["sha256"], file["bytes"], isDeleted ? Json() : file["sha256"]};
    }
  }
  Table tags;
  for (auto &[key, row] : versions) {
    std::string facts = row.back().get<std::string>();
    row.back() = sha256Of(facts);
    for (const auto &[tag, value] : row[3].is_null()
                                        ? std::vector<Tag>()
                                        : tagsOf(row[0].get<std::string>(), parseJson(facts))) {
      tags[fmt::format("{}:{}={}", key, tag, value)] = {row[5]};
    }
  }
  TENON_TRY(compare("version", versions, should));
  TENON_ASSIGN(
      Table presentTags,
      read(database, "SELECT object, version, key || '=' || value, created FROM tag", 3, "1"));
  TENON_TRY(compare("tag", presentTags, tags));
  TENON_ASSIGN(Table present, read(database, "SELECT hash, bytes FROM blob", 1, "1"));
  TENON_TRY(compare("file", present, blobs));
  TENON_ASSIGN(int64_t format, database.format());
  if (format == kFirstFormat) {
    return parts.empty() ? Status::ok() : altered("versions with several files have no table");
  }
  TENON_ASSIGN(present, read(database, "SELECT object, number, path, hash, bytes, blob FROM part",
                             3, "010"));
  TENON_TRY(compare("file of a version", present, parts));
  return compareRemovals(database, blobs);
}

Status compareMetrics(Database &database, const Replay &replay) {
  Table should;
  for (const auto &[version, metrics] : replay.metrics) {
    if (replay.deleted.contains(version)) {
      continue;
    }
    for (const auto &[name, value] : metrics) {
      should[fmt::format("{}:{}", keyOf(version), name)] = {
          value, replay.versions.at(version).value("created", Json())};
    }
  }
  TENON_ASSIGN(Table metrics,
               read(database, "SELECT object, version, name, value, created FROM metric", 3, "r1"));
  return compare("metric", metrics, should);
}

Status compareObjects(Database &database, const Replay &replay) {
  Table should;
  for (const auto &[name, object] : replay.objects) {
    should[name] = {object.kind, static_cast<uint64_t>(object.newest)};
  }
  TENON_ASSIGN(Table objects, read(database, "SELECT name, kind, newest FROM object", 1, "01"));
  return compare("object", objects, should);
}

Status compareAliases(Database &database, const Replay &replay) {
  Table aliases, rules;
  for (const auto &[place, alias] : replay.aliases) {
    if (alias.at != 0) {
      aliases[fmt::format("{}:{}", place.first, place.second)] = {static_cast<uint64_t>(alias.at)};
    }
    for (size_t i = 0; i < alias.terms.texts.size(); ++i) {
      rules[fmt::format("{}:{}:{}", place.first, place.second, i)] = {alias.terms.texts[i]};
    }
  }
  TENON_ASSIGN(Table present, read(database, "SELECT object, name, version FROM alias", 2, "1"));
  TENON_TRY(compare("alias", present, aliases));
  TENON_ASSIGN(present, read(database, "SELECT object, alias, position, text FROM rule", 3, "0"));
  return compare("rule", present, rules);
}

/// When a token was used last is no event: whoever only reads does not write either.
Status compareTokens(Database &database, const Replay &replay) {
  Table should;
  for (const auto &[name, token] : replay.tokens) {
    should[name] = {token["role"], token["hash"], token["created"], token["revoked"]};
  }
  TENON_ASSIGN(Table tokens,
               read(database, "SELECT name, role, hash, created, revoked FROM token", 1, "0011"));
  for (auto &[name, row] : tokens) {
    row.back() = row.back() != 0;
    if (should.contains(name) && should[name][2] == 0) {
      should[name][2] = row[2]; // of before the event had it
    }
  }
  return compare("token", tokens, should);
}

/// Whose signatures they are nobody says here; that they are of their versions' files they say
/// themselves.
Status compareSignatures(const Replay &replay) {
  for (const auto &[number, bundles] : replay.signatures) {
    for (const std::string &bundle : bundles) {
      TENON_TRY(checkSignature(bundle, replay.versionOf(number)).prefix(keyOf(number)));
    }
  }
  return Status::ok();
}

} // namespace

Status Registry::compareWithHistory(Verified &verified, const std::string &head) {
  Replay replay;
  bool hasHead = head.empty();
  Query events(*database, std::string(kEventColumns) + "ORDER BY id");
  while (true) {
    TENON_ASSIGN(bool hasRow, events.next());
    if (!hasRow) {
      break;
    }
    Event event = readEvent(events);
    ++verified.events;
    bool isNext =
        event.id == static_cast<int64_t>(verified.events) && event.previous == verified.head;
    if (!isNext || event.hash != hashOf(event)) {
      return altered(fmt::format("event {} of the history has changed", verified.events));
    }
    verified.head = event.hash;
    hasHead = hasHead || event.hash == head;
    TENON_TRY(replay.take(event));
  }
  if (!hasHead) {
    return altered(fmt::format("no event of the history has the hash {}", head));
  }
  verified.versions = replay.versions.size();
  verified.signatures = replay.signatureCount;
  for (Status (*table)(Database &, const Replay &) :
       {compareVersions, compareMetrics, compareObjects, compareAliases, compareTokens}) {
    Status status = table(*database, replay);
    if (!status.isOk()) {
      verified.problems.push_back(std::move(status));
    }
  }
  for (const auto &[version, pushed] : replay.versions) {
    if (!replay.deleted.contains(version)) {
      for (const Blob &blob : filesOf(pushed)) {
        verified.hashes.emplace(blob.hash, blob.bytes);
      }
    }
  }
  return compareSignatures(replay);
}

Result<Verified> Registry::verify(const std::string &head) {
  Verified verified;
  TENON_TRY(allow(Role::Read, "")); // the history is one for all namespaces
  // One state of the database for all of it.
  TENON_TRY(database->beginReading());
  Status sound = database->checkSound();
  bool isDamaged = sound.id() == ErrorId::BadRegistry;
  Status compared = isDamaged ? Status::ok() : compareWithHistory(verified, head);
  database->rollback();
  for (Status *status : {&compared, &sound}) {
    if (!status->isOk()) {
      verified.problems.push_back(std::move(*status));
    }
  }
  TENON_ASSIGN(FilesLock lock, keepFiles());
  // The files of versions that the history has, whatever the tables say.
  for (const auto &[hash, bytes] : verified.hashes) {
    ++verified.files;
    verified.bytes += bytes;
    Status status = blobs->check({hash, bytes});
    if (!status.isOk()) {
      verified.problems.push_back(std::move(status));
    }
  }
  return verified;
}

} // namespace tenon::registry
