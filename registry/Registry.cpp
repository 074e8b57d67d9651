// Opening, pushing, looking up. Aliases and gates are in Promotions.cpp, deletion in Collect.cpp,
// checks in Verify.cpp.

#include "registry/Registry.h"

#include "registry/Sha256.h"
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

constexpr const char *kVersionColumns =
    "SELECT object, number, kind, hash, bytes, blob, file, created, facts, note FROM version ";
constexpr size_t kMaxFacts = 256 << 10;
constexpr std::chrono::milliseconds kLookAgain{200};

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

} // namespace

std::string Version::text() const { return fmt::format("{}:{}", name, number); }

Registry::Registry(std::string where, Stores stores, Options options)
    : where(std::move(where)), database(std::move(stores.database)), blobs(std::move(stores.blobs)),
      options(std::move(options)) {
  if (!this->options.clock) {
    this->options.clock = wallClock;
  }
}

Result<Registry> Registry::open(const std::string &where, Options options, bool creates) {
  TENON_TRY(checkRemark("who does it", options.by));
  TENON_ASSIGN(Stores stores, openStores(where, creates, options.patience));
  if (options.cacheSize > 0) {
    stores.blobs->limitCache(options.cacheSize);
  }
  Registry registry(shownRegistry(where), std::move(stores), std::move(options));
  TENON_TRY(registry.identify());
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

Result<Transaction> Registry::beginAs(Role role) {
  TENON_ASSIGN(Transaction transaction, Transaction::begin(*database));
  TENON_TRY(allow(role));
  return transaction;
}

Status Registry::add(Event event) {
  TENON_ASSIGN(event.time, now());
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
                                        fmt::format("{}; nothing was done", asked), "try again");
      }
    }
    std::this_thread::sleep_for(kLookAgain);
  } while (std::chrono::steady_clock::now() < end);
  return Status::error(ErrorId::StoreFailed,
                       fmt::format("{}, and it is not known whether it was done", asked),
                       "`tenon registry history` tells, once the database answers");
}

Result<std::optional<Version>> Registry::sameVersion(const PushRequest &request,
                                                     const std::string &hash) {
  Query same(*database,
             std::string(kVersionColumns) +
                 "WHERE object = $1 AND hash = $2 AND blob IS NOT NULL ORDER BY number DESC",
             request.name, hash);
  while (true) {
    TENON_ASSIGN(bool hasRow, same.next());
    if (!hasRow) {
      return std::optional<Version>();
    }
    Version version = readVersion(same);
    Json facts = version.facts;
    for (const auto &[key, value] : request.circumstances.items()) {
      facts.erase(key);
    }
    if (facts == request.facts) {
      return std::optional<Version>(std::move(version));
    }
  }
}

Result<Pushed> Registry::push(const PushRequest &request) {
  TENON_TRY(checkName(request.name));
  TENON_TRY(checkRemark("the note", request.note));
  std::string file = withoutControls(fs::path(request.path).filename().string());
  TENON_TRY(checkRemark("the name of the file", file));
  if (std::ranges::find(kKinds, request.kind) == kKinds.end()) {
    return Status::error(ErrorId::BadArgument,
                         fmt::format("there is no kind '{}' of objects", request.kind),
                         "model, engine, data, report or tuning");
  }
  Json all = request.facts;
  all.update(request.circumstances);
  std::string facts = dumpJson(all);
  if (facts.size() > kMaxFacts) {
    return Status::error(ErrorId::BadArgument,
                         fmt::format("the facts of the version take {} bytes", facts.size()),
                         "leave some out");
  }
  TENON_TRY(allow(Role::Push)); // before the file is copied
  TENON_ASSIGN(FilesLock lock, keepFiles());
  TENON_ASSIGN(Blob blob, blobs->put(request.path, request.stamp));

  TENON_ASSIGN(Transaction transaction, beginAs(Role::Push));
  Query object(*database, "SELECT kind, newest FROM object WHERE name = $1", request.name);
  TENON_ASSIGN(bool isKnown, object.next());
  if (isKnown && object.text(0) != request.kind) {
    return Status::error(ErrorId::BadObjectName,
                         fmt::format("'{}' has versions of kind {}, not {}", request.name,
                                     object.text(0), request.kind),
                         "push it under another name");
  }
  TENON_ASSIGN(std::optional<Version> existing, sameVersion(request, blob.hash));
  if (existing) {
    Version present = std::move(*existing);
    TENON_TRY(signPushed(request, present));
    TENON_TRY(request.sign ? finish(transaction) : transaction.commit());
    return Pushed{std::move(present), true};
  }
  Version version;
  version.name = request.name;
  version.number = isKnown ? object.number(1) + 1 : 1;
  version.kind = request.kind;
  version.blob = blob;
  version.file = file;
  TENON_ASSIGN(version.created, now());
  version.facts = std::move(all);
  version.note = request.note;
  TENON_TRY(Query(*database, "INSERT INTO blob VALUES ($1, $2) ON CONFLICT DO NOTHING", blob.hash,
                  static_cast<int64_t>(blob.bytes))
                .run());
  TENON_TRY(Query(*database,
                  "INSERT INTO object VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET newest "
                  "= excluded.newest",
                  version.name, version.kind, version.number)
                .run());
  TENON_TRY(Query(*database, "INSERT INTO version VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                  version.name, version.number, version.kind, blob.hash,
                  static_cast<int64_t>(blob.bytes), blob.hash, version.file, version.created, facts,
                  version.note)
                .run());
  Event event;
  event.action = "push";
  event.object = version.name;
  event.version = version.number;
  event.detail = {{"kind", version.kind}, {"hash", blob.hash},          {"bytes", blob.bytes},
                  {"file", version.file}, {"created", version.created}, {"facts", sha256Of(facts)},
                  {"note", version.note}};
  TENON_TRY(add(std::move(event)));
  TENON_TRY(signPushed(request, version));
  TENON_TRY(finish(transaction));
  return Pushed{std::move(version), false};
}

Result<std::vector<Object>> Registry::objects(const std::string &after, int64_t most) {
  std::vector<Object> objects;
  Query query(*database,
              "SELECT name, kind, newest FROM object WHERE name > $1 ORDER BY name LIMIT $2", after,
              most);
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
  if (!isKnown) {
    TENON_ASSIGN(std::vector<Object> near, objects("", 1000));
    std::vector<std::string> names;
    for (const Object &each : near) {
      names.push_back(each.name);
    }
    return Status::error(ErrorId::NoSuchObject,
                         fmt::format("there is no '{}' in '{}'", name, where),
                         didYouMean(name, names, "`tenon registry list` lists what is there"));
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
                                      fmt::format("`tenon registry promote {} {}` makes it",
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
  if (isFound) {
    return readVersion(query);
  }
  TENON_ASSIGN(Object known, object(reference.name));
  return Status::error(ErrorId::NoSuchObject,
                       fmt::format("'{}' has no version {}", reference.name, number),
                       fmt::format("its newest is {}", known.newest));
}

} // namespace tenon::registry
