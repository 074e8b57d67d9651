// Derives the state of a registry from its history and compares the two; hashes the files.

#include "registry/Registry.h"
#include "registry/Sha256.h"

#include <fmt/format.h>

#include <map>
#include <set>

namespace tenon::registry {
namespace {

constexpr const char *kRestore =
    "restore the registry from a copy; who wrote to its database did not go through Tenon";

Status altered(std::string_view what) {
  return Status::error(ErrorId::HistoryAltered, what, kRestore);
}

using Place = std::pair<std::string, std::string>; ///< an object and an alias

/// What a registry holds, as its events say.
struct Replayed {
  std::map<std::pair<std::string, int64_t>, Json> pushed; ///< what the events say of versions
  std::set<std::pair<std::string, int64_t>> deleted;
  std::map<Place, int64_t> aliases;
  std::map<Place, std::string> rules;
  std::map<int64_t, Event> gates;
  std::map<std::string, Json> tokens; ///< by name: role, hash, and whether it was revoked
  std::vector<Event> signatures;

  Status take(const Event &event);
};

Status Replayed::take(const Event &event) {
  Place place = {event.object, event.alias};
  if (event.action == "push") {
    pushed[{event.object, event.version}] = event.detail;
  } else if (event.action == "delete") {
    deleted.emplace(event.object, event.version);
  } else if (event.action == "rules") {
    rules[place] = dumpJson(event.detail.value("rules", Json()));
  } else if (event.action == "gate") {
    gates[event.id] = event;
  } else if (event.action == "token") {
    tokens[event.detail.value("name", "")] = {event.detail.value("role", ""),
                                              event.detail.value("hash", ""), false};
  } else if (event.action == "revoke") {
    tokens[event.detail.value("name", "")][2] = true;
  } else if (event.action == "sign") {
    signatures.push_back(event);
  } else if (event.action == "promote" || event.action == "rollback") {
    int64_t &at = aliases[place];
    if (at != event.from) {
      return altered(fmt::format("event {} moves '{}@{}' from version {}, but it was at {}",
                                 event.id, event.object, event.alias, event.from, at));
    }
    at = event.version;
  } else {
    return altered(fmt::format("event {} is of the unknown kind '{}'", event.id, event.action));
  }
  return Status::ok();
}

Status compareVersions(Database &database, const Replayed &replayed, uint64_t &count) {
  Query versions(
      database,
      "SELECT object, number, kind, hash, bytes, blob, file, created, facts, note FROM version");
  while (true) {
    TENON_ASSIGN(bool hasRow, versions.next());
    if (!hasRow) {
      break;
    }
    ++count;
    std::pair<std::string, int64_t> key = {versions.text(0), versions.number(1)};
    Json row = {{"kind", versions.text(2)},
                {"hash", versions.text(3)},
                {"bytes", static_cast<uint64_t>(versions.number(4))},
                {"file", versions.text(6)},
                {"created", versions.number(7)},
                {"facts", sha256Of(versions.text(8))},
                {"note", versions.text(9)}};
    bool isDeleted = replayed.deleted.contains(key);
    bool isSame = replayed.pushed.contains(key) && replayed.pushed.at(key) == row &&
                  versions.isNull(5) == isDeleted;
    if (!isSame || (!isDeleted && versions.text(5) != versions.text(3))) {
      return altered(fmt::format("{}:{} is not as the history has it", key.first, key.second));
    }
  }
  return count == replayed.pushed.size()
             ? Status::ok()
             : altered(fmt::format("the history has {} versions, the registry {}",
                                   replayed.pushed.size(), count));
}

Status compareAliases(Database &database, const Replayed &replayed) {
  std::map<Place, int64_t> aliases;
  Query query(database, "SELECT object, name, version FROM alias");
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      return aliases == replayed.aliases
                 ? Status::ok()
                 : altered("the aliases are not where the history has them");
    }
    aliases[{query.text(0), query.text(1)}] = query.number(2);
  }
}

Status compareRules(Database &database, const Replayed &replayed) {
  std::map<Place, Json> lists;
  for (const auto &[place, list] : replayed.rules) {
    lists[place] = Json::array(); // rules that were all taken away have no rows
  }
  Query query(database, "SELECT object, alias, text FROM rule ORDER BY object, alias, position");
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      break;
    }
    lists[{query.text(0), query.text(1)}].push_back(query.text(2));
  }
  std::map<Place, std::string> rules;
  for (const auto &[place, list] : lists) {
    rules[place] = dumpJson(list);
  }
  return rules == replayed.rules ? Status::ok()
                                 : altered("the rules of gates are not those that the history has");
}

Status compareResults(Database &database, const Replayed &replayed) {
  size_t count = 0;
  Query query(database,
              "SELECT event, object, version, alias, champion, verdict, figures FROM result");
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      return count == replayed.gates.size()
                 ? Status::ok()
                 : altered("results of gates are missing that the history has");
    }
    ++count;
    std::map<int64_t, Event>::const_iterator gate = replayed.gates.find(query.number(0));
    Json row = {{"champion", query.number(4)},
                {"verdict", query.text(5)},
                {"figures", parseJson(query.text(6))}};
    bool isSame = gate != replayed.gates.end() && gate->second.object == query.text(1) &&
                  gate->second.version == query.number(2) && gate->second.alias == query.text(3) &&
                  gate->second.detail == row;
    if (!isSame) {
      return altered(fmt::format(
          "the result of the gate in event {} is not the one that was recorded", query.number(0)));
    }
  }
}

Status compareTokens(Database &database, const Replayed &replayed) {
  std::map<std::string, Json> tokens;
  Query query(database, "SELECT name, role, hash, revoked FROM token");
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      return tokens == replayed.tokens ? Status::ok()
                                       : altered("the tokens are not those that the history has");
    }
    tokens[query.text(0)] = {query.text(1), query.text(2), query.number(3) != 0};
  }
}

/// Whose signatures they are nobody says here; that they are of their versions' files they say
/// themselves.
Status compareSignatures(const Replayed &replayed) {
  for (const Event &event : replayed.signatures) {
    std::map<std::pair<std::string, int64_t>, Json>::const_iterator pushed =
        replayed.pushed.find({event.object, event.version});
    if (pushed == replayed.pushed.end()) {
      return altered(fmt::format("event {} signs a version that the history has not", event.id));
    }
    Version version;
    version.name = event.object;
    version.number = event.version;
    version.blob.hash = pushed->second.value("hash", "");
    version.file = pushed->second.value("file", "");
    TENON_TRY(checkSignature(event.detail.value("bundle", ""), version).prefix(version.text()));
  }
  return Status::ok();
}

} // namespace

Status Registry::compareWithHistory(Verified &verified, const std::string &head) {
  Replayed replayed;
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
      return altered(fmt::format("event {} of the history is not the one that was written there",
                                 verified.events));
    }
    verified.head = event.hash;
    hasHead = hasHead || event.hash == head;
    TENON_TRY(replayed.take(event));
  }
  if (!hasHead) {
    return altered(fmt::format("no event of the history has the hash {}", head));
  }
  TENON_TRY(compareVersions(*database, replayed, verified.versions));
  TENON_TRY(compareAliases(*database, replayed));
  TENON_TRY(compareRules(*database, replayed));
  TENON_TRY(compareResults(*database, replayed));
  TENON_TRY(compareTokens(*database, replayed));
  verified.signatures = replayed.signatures.size();
  return compareSignatures(replayed);
}

Result<Verified> Registry::verify(const std::string &head) {
  Verified verified;
  // One state of the database for all of it.
  TENON_TRY(database->beginReading());
  Status sound = database->checkSound();
  Status compared = sound.isOk() ? compareWithHistory(verified, head) : sound;
  database->rollback();
  if (!compared.isOk()) {
    verified.problems.push_back(std::move(compared));
  }
  TENON_ASSIGN(FilesLock lock, keepFiles());
  std::vector<Blob> files;
  Query query(*database, "SELECT hash, bytes FROM blob ORDER BY hash");
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      break;
    }
    files.push_back({query.text(0), static_cast<uint64_t>(query.number(1))});
  }
  for (const Blob &blob : files) {
    ++verified.files;
    verified.bytes += blob.bytes;
    Status status = blobs->check(blob);
    if (!status.isOk()) {
      verified.problems.push_back(std::move(status));
    }
  }
  return verified;
}

} // namespace tenon::registry
