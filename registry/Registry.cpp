// Opening, pushing, looking up. Aliases and gates are in Promotions.cpp, deletion in Collect.cpp, checks in Verify.cpp.

#include "registry/Registry.h"

#include "registry/Schema.h"
#include "registry/Sha256.h"
#include "support/files/FileError.h"
#include "support/text/NearestName.h"
#include "support/text/Printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include <sys/stat.h>

namespace tenon::registry {

namespace fs = std::filesystem;

const std::vector<std::string> kKinds = {"model", "engine", "data", "report", "tuning"};

namespace {

constexpr const char *kVersionColumns =
    "SELECT object, number, kind, hash, bytes, blob, file, created, facts, note FROM version ";
constexpr size_t kMostFacts = 256 << 10;

std::string databaseOf(const std::string &folder) { return folder + "/registry.db"; }

Status noRegistry(const std::string &folder, std::string_view why) {
  return Status::error(ErrorId::BadRegistry, fmt::format("'{}' {}", folder, why),
                       "--registry names another folder; `tenon registry push` makes one where there is none");
}

Version readVersion(const Query &query) {
  Version version;
  version.name = query.text(0);
  version.number = query.number(1);
  version.kind = query.text(2);
  version.blob = {query.text(3), static_cast<uint64_t>(query.number(4))};
  version.isDeleted = query.isNull(5);
  version.file = query.text(6);
  version.created = query.number(7);
  version.facts = Json::parse(query.text(8), nullptr, false);
  version.note = query.text(9);
  return version;
}

/// Makes the folder and those above it, each with its name on the disk.
Status makeFolders(const fs::path &path) {
  std::error_code ignored;
  if (path.empty() || fs::is_directory(path, ignored)) {
    return Status::ok();
  }
  TENON_TRY(makeFolders(path.parent_path()));
  constexpr mode_t kMode = 0777;
  if (::mkdir(path.c_str(), kMode) != 0 && errno != EEXIST) {
    return writeError(errno, "create", path);
  }
  return syncFolder(path.has_parent_path() ? path.parent_path().string() : ".");
}

/// TN1001 unless the database is a registry of this format.
Status checkFormat(Database &database, const std::string &folder) {
  Query application(database, "PRAGMA application_id");
  TENON_TRY(application.next().takeStatus());
  Query format(database, "PRAGMA user_version");
  TENON_TRY(format.next().takeStatus());
  if (application.number(0) != kApplication || format.number(0) != kFormat) {
    return noRegistry(folder, application.number(0) != kApplication
                                  ? "holds a database that is no registry"
                                  : "is a registry of another format, of another version of Tenon");
  }
  return Status::ok();
}

} // namespace

std::string Version::text() const { return fmt::format("{}:{}", name, number); }

Registry::Registry(std::string folder, Database opened, Options options)
    : folder(folder), database(std::make_unique<Database>(std::move(opened))), blobs(folder + "/blobs"),
      options(std::move(options)) {
  if (!this->options.clock) {
    this->options.clock = [] {
      return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
    };
  }
}

Result<Registry> Registry::open(const std::string &folder, Options options) {
  TENON_TRY(checkRemark("who does it", options.by));
  std::error_code ignored;
  if (!fs::exists(databaseOf(folder), ignored)) {
    return noRegistry(folder, fs::exists(folder, ignored) ? "is no registry" : "does not exist");
  }
  TENON_ASSIGN(Database database, Database::open(databaseOf(folder), false, options.patience));
  TENON_TRY(checkFormat(database, folder));
  return Registry(folder, std::move(database), std::move(options));
}

Result<Registry> Registry::create(const std::string &folder, Options options) {
  Result<Registry> present = open(folder, options);
  bool isAbsent = !present.isOk() && present.status().id() == ErrorId::BadRegistry;
  std::error_code ignored;
  if (!isAbsent || (fs::exists(folder, ignored) && !fs::is_directory(folder, ignored))) {
    return present;
  }
  TENON_TRY(makeFolders(folder));
  TENON_ASSIGN(FolderLock lock, FolderLock::take(folder + "/lock", FolderLock::Kind::Alone, options.patience));
  TENON_ASSIGN(Database database, Database::open(databaseOf(folder), true, options.patience));
  Query tables(database, "SELECT count(*) FROM sqlite_schema");
  TENON_TRY(tables.next().takeStatus());
  if (tables.number(0) == 0) { // new, or left by a process that was killed here; else another one's, or made just now
    TENON_TRY(BlobStore(folder + "/blobs").create());
    TENON_ASSIGN(Transaction transaction, Transaction::begin(database));
    TENON_TRY(database.run(kSchema));
    TENON_TRY(transaction.commit());
    TENON_TRY(syncFolder(folder));
  }
  TENON_TRY(checkFormat(database, folder));
  return Registry(folder, std::move(database), std::move(options));
}

Result<FolderLock> Registry::keepFiles() const {
  return FolderLock::take(folder + "/lock", FolderLock::Kind::Shared, options.patience);
}

Status Registry::add(Event event) {
  event.time = options.clock();
  event.by = options.by;
  return append(*database, event);
}

Result<Pushed> Registry::push(const PushRequest &request) {
  TENON_TRY(checkName(request.name));
  TENON_TRY(checkRemark("the note", request.note));
  if (std::ranges::find(kKinds, request.kind) == kKinds.end()) {
    return Status::error(ErrorId::BadArgument, fmt::format("there is no kind '{}' of objects", request.kind),
                         "model, engine, data, report or tuning");
  }
  std::string facts = request.facts.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (facts.size() > kMostFacts) {
    return Status::error(ErrorId::BadArgument, fmt::format("the facts of the version take {} bytes", facts.size()), "leave some out");
  }
  TENON_ASSIGN(FolderLock lock, keepFiles());
  TENON_ASSIGN(Blob blob, blobs.put(request.path, request.stamp));

  TENON_ASSIGN(Transaction transaction, Transaction::begin(*database));
  Query object(*database, "SELECT kind, newest FROM object WHERE name = ?", request.name);
  TENON_ASSIGN(bool isKnown, object.next());
  if (isKnown && object.text(0) != request.kind) {
    return Status::error(ErrorId::BadObjectName,
                         fmt::format("'{}' has versions of kind {}, not {}", request.name, object.text(0), request.kind),
                         "push it under another name");
  }
  Query same(*database, std::string(kVersionColumns) + "WHERE object = ? AND hash = ? AND facts = ? AND blob IS NOT NULL ORDER BY number DESC LIMIT 1",
             request.name, blob.hash, facts);
  TENON_ASSIGN(bool isExisting, same.next());
  if (isExisting) {
    Version present = readVersion(same);
    TENON_TRY(signPushed(request, present));
    TENON_TRY(transaction.commit());
    return Pushed{std::move(present), true};
  }
  Version version;
  version.name = request.name;
  version.number = isKnown ? object.number(1) + 1 : 1;
  version.kind = request.kind;
  version.blob = blob;
  version.file = withoutControls(fs::path(request.path).filename().string());
  version.created = options.clock();
  version.facts = request.facts;
  version.note = request.note;
  TENON_TRY(Query(*database, "INSERT INTO blob VALUES (?, ?) ON CONFLICT DO NOTHING", blob.hash, static_cast<int64_t>(blob.bytes)).run());
  TENON_TRY(Query(*database, "INSERT INTO object VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET newest = excluded.newest",
                  version.name, version.kind, version.number)
                .run());
  TENON_TRY(Query(*database, "INSERT INTO version VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", version.name, version.number,
                  version.kind, blob.hash, static_cast<int64_t>(blob.bytes), blob.hash, version.file, version.created, facts, version.note)
                .run());
  Event event;
  event.action = "push";
  event.object = version.name;
  event.version = version.number;
  event.detail = {{"kind", version.kind}, {"hash", blob.hash}, {"bytes", blob.bytes}, {"file", version.file},
                  {"created", version.created}, {"facts", sha256Of(facts)}, {"note", version.note}};
  TENON_TRY(add(std::move(event)));
  TENON_TRY(signPushed(request, version));
  TENON_TRY(transaction.commit());
  return Pushed{std::move(version), false};
}

Result<std::vector<Object>> Registry::objects(const std::string &after, int64_t most) {
  std::vector<Object> objects;
  Query query(*database,
              "SELECT o.name, o.kind, o.newest, a.name, a.version FROM "
              "(SELECT * FROM object WHERE name > ? ORDER BY name LIMIT ?) o LEFT JOIN alias a ON a.object = o.name "
              "ORDER BY o.name, a.name",
              after, most);
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      return objects;
    }
    if (objects.empty() || objects.back().name != query.text(0)) {
      objects.push_back({query.text(0), query.text(1), query.number(2), {}});
    }
    if (!query.isNull(3)) {
      objects.back().aliases.push_back({query.text(3), query.number(4)});
    }
  }
}

Result<Object> Registry::object(const std::string &name) {
  TENON_TRY(checkName(name));
  Query query(*database, "SELECT kind, newest FROM object WHERE name = ?", name);
  TENON_ASSIGN(bool isKnown, query.next());
  if (!isKnown) {
    TENON_ASSIGN(std::vector<Object> near, objects("", 1000));
    std::vector<std::string> names;
    for (const Object &each : near) {
      names.push_back(each.name);
    }
    return Status::error(ErrorId::NoSuchObject, fmt::format("there is no '{}' in '{}'", name, folder),
                         didYouMean(name, names, "`tenon registry list` lists what is there"));
  }
  Object object = {name, query.text(0), query.number(1), {}};
  Query aliases(*database, "SELECT name, version FROM alias WHERE object = ? ORDER BY name", name);
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
  Query query(*database, std::string(kVersionColumns) + "WHERE object = ? ORDER BY number DESC", name);
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
      return Status::error(ErrorId::NoSuchObject, fmt::format("'{}' has no alias '{}'", reference.name, reference.alias),
                           didYouMean(reference.alias, names, fmt::format("`tenon registry promote {} {}` makes it", reference.name, reference.alias)));
    }
  }
  Query query(*database,
              number != 0 ? std::string(kVersionColumns) + "WHERE object = ? AND number = ?"
                          : std::string(kVersionColumns) + "WHERE object = ? AND blob IS NOT NULL AND number > ? ORDER BY number DESC LIMIT 1",
              reference.name, number);
  TENON_ASSIGN(bool isFound, query.next());
  if (isFound) {
    return readVersion(query);
  }
  TENON_ASSIGN(Object known, object(reference.name));
  return Status::error(ErrorId::NoSuchObject, fmt::format("'{}' has no version {}", reference.name, number),
                       fmt::format("its newest is {}", known.newest));
}

} // namespace tenon::registry
