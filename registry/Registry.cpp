// Opening and looking up. Pushing is in Push.cpp, aliases and gates in Promotions.cpp, deletion in
// Collect.cpp, checks in Verify.cpp.

#include "registry/Registry.h"

#include "support/WallClock.h"
#include "support/text/NearestName.h"
#include "support/text/Printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <thread>

namespace tenon::registry {

namespace fs = std::filesystem;

const std::vector<std::string> kKinds = {"model", "engine", "data", "report", "tuning"};

namespace {

constexpr std::chrono::milliseconds kLookAgain{200};

} // namespace

Version readVersion(const Query &query) {
  Version version;
  version.name = query.text(0);
  version.number = query.number(1);
  version.kind = query.text(2);
  version.blob = {query.text(3), static_cast<uint64_t>(query.number(4))};
  version.isDeleted = query.isNull(5);
  version.file = query.text(6);
  version.created = query.number(7);
  version.facts = parseJson(query.text(8));
  version.note = query.text(9);
  return version;
}

std::string Version::text() const { return fmt::format("{}:{}", name, number); }

Registry::Registry(std::string where, Stores stores, Options options)
    : where(std::move(where)), database(std::move(stores.database)), blobs(std::move(stores.blobs)),
      options(std::move(options)) {
  if (!this->options.clock) {
    this->options.clock = wallClock;
  }
  rights.grants = {{Role::Admin, ""}};
}

Result<Registry> Registry::open(const std::string &where, Options options, bool creates) {
  TENON_TRY(checkRemark("who does it", options.by));
  TENON_ASSIGN(Stores stores, openStores(where, creates, options.patience));
  if (options.cacheSize > 0) {
    stores.blobs->limitCache(options.cacheSize);
  }
  Registry registry(shownRegistry(where), std::move(stores), std::move(options));
  TENON_TRY(registry.enter());
  return registry;
}

Result<Registry> Registry::open(const std::string &where, Options options) {
  return open(where, std::move(options), false);
}
Result<Registry> Registry::create(const std::string &where, Options options) {
  return open(where, std::move(options), true);
}

Result<FilesLock> Registry::keepFiles() const { return database->lockFiles(LockKind::Shared); }

Result<int64_t> Registry::now() {
  TENON_ASSIGN(std::optional<int64_t> told, database->now());
  return told ? *told : options.clock();
}

Result<Transaction> Registry::beginAs(Role role, const std::string &name) {
  TENON_ASSIGN(Transaction transaction, Transaction::begin(*database));
  TENON_TRY(allow(role, name));
  return transaction;
}

Status Registry::add(Event event) {
  TENON_ASSIGN(event.time, now());
  if (rights.isExpired(event.time)) { // since it was asked
    TENON_TRY(identify());
  }
  event.by = options.by;
  if (!options.caller.empty() && options.caller != event.by) {
    event.detail["caller"] = options.caller;
  }
  TENON_TRY(append(*database, event));
  written = std::move(event);
  return Status::ok();
}

Status Registry::finish(Transaction &transaction) {
  Status status = transaction.commit();
  if (status.isOk() || !database->isInDoubt()) {
    return status;
  }
  // The server may have done it and gone before it said so. It is settled when this has the right
  // to write again.
  std::string asked(status.message());
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::now() + options.patience;
  do {
    Result<Transaction> look = Transaction::begin(*database);
    if (look.isOk()) {
      Query ours(*database, "SELECT 1 FROM event WHERE id = $1 AND hash = $2", written.id,
                 written.hash);
      Result<bool> isThere = ours.next();
      if (isThere.isOk()) {
        return *isThere ? Status::ok()
                        : Status::error(ErrorId::StoreFailed,
                                        fmt::format("{}; nothing was changed", asked), "try again");
      }
    }
    std::this_thread::sleep_for(kLookAgain);
  } while (std::chrono::steady_clock::now() < end);
  return Status::error(ErrorId::StoreFailed,
                       fmt::format("{}; whether the change was made is unknown", asked),
                       "`tenon registry history` shows it once the database answers");
}

Status Registry::checkRelations(const PushRequest &request) {
  for (const char *relation : kRelations) {
    Json::const_iterator named = request.facts.find(relation);
    if (named == request.facts.end() || !named->is_string()) {
      continue;
    }
    TENON_ASSIGN(Reference reference, parseReference(named->get<std::string>()));
    TENON_ASSIGN(Version version, find(reference));
    TENON_TRY(checkRelation(relation, request.kind, version.kind).prefix(version.text()));
  }
  return Status::ok();
}

Result<std::vector<Object>> Registry::objects(const std::string &after, int64_t most,
                                              const std::string &space) {
  std::vector<Object> objects;
  Query query(*database,
              fmt::format("SELECT name, kind, newest FROM object WHERE name > $1 AND {} AND {} "
                          "ORDER BY name LIMIT $2",
                          isSeen("name"), isBelow("name", space)),
              after, most);
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      break;
    }
    objects.push_back({query.text(0), query.text(1), query.number(2), {}});
  }
  if (objects.empty()) {
    return objects;
  }
  // A range rather than a join, for which PostgreSQL reads all aliases.
  Query aliases(*database,
                "SELECT object, name, version FROM alias WHERE object >= $1 AND object <= $2 ORDER "
                "BY object, name",
                objects.front().name, objects.back().name);
  for (std::vector<Object>::iterator object = objects.begin();;) {
    TENON_ASSIGN(bool hasRow, aliases.next());
    if (!hasRow) {
      return objects;
    }
    object = std::find_if(object, objects.end(),
                          [&](const Object &each) { return each.name >= aliases.text(0); });
    if (object != objects.end() &&
        object->name == aliases.text(0)) { // else it is of one that was made in between
      object->aliases.push_back({aliases.text(1), aliases.number(2)});
    }
  }
}

Result<Object> Registry::object(const std::string &name) {
  TENON_TRY(checkName(name));
  Query query(*database, "SELECT kind, newest FROM object WHERE name = $1", name);
  TENON_ASSIGN(bool isKnown, query.next());
  if (!isKnown || !rights.allow(Role::Read, name)) {
    TENON_ASSIGN(std::vector<Object> near, objects("", 1000));
    std::vector<std::string> names;
    for (const Object &each : near) {
      names.push_back(each.name);
    }
    return Status::error(ErrorId::NoSuchObject,
                         fmt::format("there is no '{}' in '{}'", name, where),
                         didYouMean(name, names, "`tenon registry list` shows what is there"));
  }
  Object object = {name, query.text(0), query.number(1), {}};
  Query aliases(*database, "SELECT name, version FROM alias WHERE object = $1 ORDER BY name", name);
  while (true) {
    TENON_ASSIGN(bool hasRow, aliases.next());
    if (!hasRow) {
      return object;
    }
    object.aliases.push_back({aliases.text(0), aliases.number(1)});
  }
}

Result<std::vector<Version>> Registry::versions(const std::string &name) {
  TENON_TRY(object(name).takeStatus());
  std::vector<Version> versions;
  Query query(*database, std::string(kVersionColumns) + "WHERE object = $1 ORDER BY number DESC",
              name);
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      return versions;
    }
    versions.push_back(readVersion(query));
  }
}

Result<Version> Registry::find(const Reference &reference) {
  int64_t number = reference.version;
  if (!reference.alias.empty()) {
    TENON_ASSIGN(number, aliasOf(reference.name, reference.alias));
    if (number == 0) {
      TENON_ASSIGN(Object known, object(reference.name));
      std::vector<std::string> names;
      for (const Alias &alias : known.aliases) {
        names.push_back(alias.name);
      }
      return Status::error(ErrorId::NoSuchObject,
                           fmt::format("'{}' has no alias '{}'", reference.name, reference.alias),
                           didYouMean(reference.alias, names,
                                      fmt::format("`tenon registry promote {} {}` creates it",
                                                  reference.name, reference.alias)));
    }
  }
  Query query(*database,
              number != 0
                  ? std::string(kVersionColumns) + "WHERE object = $1 AND number = $2"
                  : std::string(kVersionColumns) + "WHERE object = $1 AND blob IS NOT NULL AND "
                                                   "number > $2 ORDER BY number DESC LIMIT 1",
              reference.name, number);
  TENON_ASSIGN(bool isFound, query.next());
  if (isFound && rights.allow(Role::Read, reference.name)) {
    Version version = readVersion(query);
    if (version.isFolder()) {
      TENON_ASSIGN(version.parts, partsOf(version.name, version.number));
    }
    return version;
  }
  TENON_ASSIGN(Object known, object(reference.name));
  return Status::error(ErrorId::NoSuchObject,
                       fmt::format("'{}' has no version {}", reference.name, number),
                       fmt::format("the newest is {}", known.newest));
}

} // namespace tenon::registry
