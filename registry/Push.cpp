// Pushing: the files first, then their rows; and the files of versions of several, as they are
// read.

#include "registry/BlobFolder.h"
#include "registry/Registry.h"
#include "registry/Schema.h"
#include "registry/SearchIndex.h"
#include "registry/Sha256.h"
#include "support/files/FileError.h"
#include "support/files/ScratchFolder.h"
#include "support/text/Printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

namespace tenon::registry {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFacts = 256 << 10;
constexpr std::chrono::milliseconds kPushAgain{50};

/// After so long nobody goes on with a removal: whoever began it was killed, or gave up.
constexpr int64_t kRemovalLast = 900'000;

std::string folderNameOf(const std::string &path) {
  std::error_code ignored;
  fs::path whole = fs::weakly_canonical(path, ignored);
  return withoutControls(whole.filename().string()) + "/";
}

/// Puts a text that is no file yet.
Result<Blob> putText(BlobStore &blobs, const std::string &text) {
  TENON_ASSIGN(ScratchFolder scratch, ScratchFolder::create("manifest"));
  std::string path = scratch.path() + "/manifest.json";
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (!file) {
    return writeError(errno, "write", path);
  }
  return blobs.put(path, FileStamp::of(path));
}

/// All blobs that a version is of.
std::vector<Blob> blobsOf(const Version &version) {
  std::vector<Blob> all;
  for (const Part &part : version.parts) {
    all.push_back(part.blob);
  }
  all.push_back(version.isFolder() ? Blob{version.blob.hash, manifestOf(version.parts).size()}
                                   : version.blob);
  return all;
}

Status checkRequest(const PushRequest &request, const std::string &facts) {
  TENON_TRY(checkName(request.name));
  TENON_TRY(checkRemark("the note", request.note));
  if (std::ranges::find(kKinds, request.kind) == kKinds.end()) {
    return Status::error(ErrorId::BadArgument,
                         fmt::format("there is no kind of object '{}'", request.kind),
                         "the kinds are model, engine, data, report and tuning");
  }
  return facts.size() <= kMaxFacts
             ? Status::ok()
             : Status::error(ErrorId::BadArgument,
                             fmt::format("the version's metadata takes {} bytes", facts.size()),
                             "leave some of it out");
}

} // namespace

std::string Version::mainPath() const {
  return facts.contains("main") && facts["main"].is_string() ? facts["main"].get<std::string>()
                                                             : "";
}

Result<std::vector<Part>> Registry::partsOf(const std::string &name, int64_t number) {
  std::vector<Part> parts;
  Query query(*database,
              "SELECT path, hash, bytes FROM part WHERE object = $1 AND number = $2 ORDER BY path",
              name, number);
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      return parts;
    }
    parts.push_back({query.text(0), {query.text(1), static_cast<uint64_t>(query.number(2))}});
  }
}

Status Registry::check(const Version &version) const {
  if (!version.isFolder()) {
    return blobs->provide(version.blob);
  }
  // The rows of the parts say what the files are, and their hash is the version's.
  std::string manifest = manifestOf(version.parts);
  if (sha256Of(manifest) != version.blob.hash) {
    return Status::error(
        ErrorId::BlobMismatch, fmt::format("the list of files of {} is damaged", version.text()),
        "`tenon registry verify` reports details; restore the database from a backup");
  }
  TENON_TRY(registry::partsOf(rowsOf(version.parts)).takeStatus()); // paths that stay inside
  for (const Blob &blob : blobsOf(version)) {
    TENON_TRY(blobs->provide(blob));
  }
  return Status::ok();
}

Status Registry::writeFolder(const Version &version, const std::string &folder, bool copies) const {
  TENON_TRY(check(version));
  for (const Part &part : version.parts) {
    fs::path path = fs::path(folder) / part.path;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) {
      return writeError(error.value(), "create", path.parent_path());
    }
    std::string blob = blobs->pathOf(part.blob.hash);
    if (!copies && ::link(blob.c_str(), path.c_str()) == 0) {
      continue;
    }
    fs::copy_file(blob, path, error);
    if (error) {
      return writeError(error.value(), "copy to", path);
    }
    constexpr mode_t kMode = 0644;
    ::chmod(path.c_str(), kMode);
    TENON_ASSIGN(std::string difference, differenceOf(path, part.blob));
    if (!difference.empty()) {
      return Status::error(ErrorId::BlobMismatch,
                           fmt::format("the copy '{}' is damaged: {}", path.string(), difference),
                           "try again");
    }
  }
  return Status::ok();
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
    if (facts == request.facts && version.isFolder() == !request.files.empty()) {
      return std::optional<Version>(std::move(version));
    }
  }
}

Status Registry::raiseFormat() {
  TENON_ASSIGN(int64_t format, database->format());
  if (format == kFormat) {
    return Status::ok();
  }
  // Pushes of before share this lock. Those that begin later see the new format.
  TENON_ASSIGN(FilesLock lock, database->lockFiles(LockKind::Alone));
  TENON_ASSIGN(Transaction transaction, Transaction::begin(*database));
  TENON_ASSIGN(format, database->format());
  if (format != kFormat) {
    TENON_TRY(database->raiseFormat());
  }
  return transaction.commit();
}

Result<Version> Registry::store(const PushRequest &request) {
  Version version;
  version.name = request.name;
  version.kind = request.kind;
  version.note = request.note;
  version.file = request.files.empty() ? withoutControls(fs::path(request.path).filename().string())
                                       : folderNameOf(request.path);
  TENON_TRY(checkRemark("the name of the file", version.file));
  if (request.files.empty()) {
    TENON_ASSIGN(version.blob, blobs->put(request.path, request.stamp));
    return version;
  }
  for (const SourceFile &each : request.files) {
    TENON_ASSIGN(Blob blob, blobs->put(each.source, each.stamp));
    version.parts.push_back({each.path, std::move(blob)});
  }
  TENON_TRY(registry::partsOf(rowsOf(version.parts)).takeStatus());
  TENON_ASSIGN(version.blob, putText(*blobs, manifestOf(version.parts)));
  version.blob.bytes = bytesOf(version.parts);
  return version;
}

Result<int64_t> Registry::removedBatches() {
  TENON_ASSIGN(int64_t format, database->format());
  if (format == kFirstFormat) {
    return 0;
  }
  Query query(*database, "SELECT since FROM removal WHERE hash = ''");
  TENON_ASSIGN(bool hasRow, query.next());
  return hasRow ? query.number(0) : 0;
}

Result<bool> Registry::areStored(const Version &version, int64_t batches) {
  TENON_ASSIGN(int64_t format, database->format());
  if (format == kFirstFormat) {
    return true; // gc waits for the lock that this push has
  }
  TENON_ASSIGN(int64_t now, this->now());
  TENON_ASSIGN(int64_t removed, removedBatches());
  for (const Blob &blob : blobsOf(version)) {
    Query marked(*database, "SELECT since FROM removal WHERE hash = $1", blob.hash);
    TENON_ASSIGN(bool isMarked, marked.next());
    if (isMarked && now - marked.number(0) < kRemovalLast) {
      return false;
    }
    if (isMarked || removed != batches) {
      TENON_ASSIGN(bool isThere, blobs->has(blob));
      if (!isThere) {
        return false;
      }
    }
  }
  return true;
}

Result<Pushed> Registry::push(const PushRequest &request) {
  Json all = request.facts;
  all.update(request.circumstances);
  TENON_TRY(checkRequest(request, dumpJson(all)));
  TENON_TRY(allow(Role::Push, request.name)); // before the file is copied
  TENON_TRY(checkRelations(request));
  if (!request.files.empty()) {
    TENON_TRY(raiseFormat());
  }
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::now() + options.patience;
  while (true) {
    FilesLock lock;
    TENON_ASSIGN(int64_t format, database->format());
    if (format == kFirstFormat) {
      TENON_ASSIGN(lock, keepFiles());
    }
    TENON_ASSIGN(int64_t batches, removedBatches());
    TENON_ASSIGN(Version version, store(request));
    version.facts = all;
    {
      TENON_ASSIGN(Transaction transaction, beginAs(Role::Push, request.name));
      TENON_ASSIGN(bool isThere, areStored(version, batches));
      if (isThere) {
        TENON_ASSIGN(Pushed pushed, insert(request, std::move(version)));
        TENON_TRY(pushed.isExisting && !request.sign ? transaction.commit() : finish(transaction));
        return pushed;
      }
    }
    if (std::chrono::steady_clock::now() >= end) {
      return Status::error(
          ErrorId::RegistryBusy,
          fmt::format("gc is removing a file with the contents of '{}'", request.path),
          "try again when `tenon registry gc` has finished");
    }
    std::this_thread::sleep_for(kPushAgain);
  }
}

Result<Pushed> Registry::insert(const PushRequest &request, Version version) {
  Query object(*database, "SELECT kind, newest FROM object WHERE name = $1", request.name);
  TENON_ASSIGN(bool isKnown, object.next());
  if (isKnown && object.text(0) != request.kind) {
    return Status::error(ErrorId::BadObjectName,
                         fmt::format("'{}' has versions of kind {}, not {}", request.name,
                                     object.text(0), request.kind),
                         "push it under another name");
  }
  TENON_ASSIGN(std::optional<Version> existing, sameVersion(request, version.blob.hash));
  if (existing) {
    existing->parts = version.parts;
    TENON_TRY(signPushed(request, *existing));
    return Pushed{std::move(*existing), true};
  }
  version.number = isKnown ? object.number(1) + 1 : 1;
  TENON_ASSIGN(version.created, now());
  std::string facts = dumpJson(version.facts);
  TENON_TRY(insertRows(version, facts));
  Event event;
  event.action = "push";
  event.object = version.name;
  event.version = version.number;
  event.detail = {{"kind", version.kind},        {"hash", version.blob.hash},
                  {"bytes", version.blob.bytes}, {"file", version.file},
                  {"created", version.created},  {"facts", sha256Of(facts)},
                  {"note", version.note}};
  if (version.isFolder()) {
    event.detail["files"] = rowsOf(version.parts);
  }
  TENON_TRY(add(std::move(event)));
  TENON_TRY(addTags(*database, version));
  TENON_TRY(signPushed(request, version));
  return Pushed{std::move(version), false};
}

Status Registry::insertRows(const Version &version, const std::string &facts) {
  for (const Blob &blob : blobsOf(version)) {
    TENON_TRY(Query(*database, "INSERT INTO blob VALUES ($1, $2) ON CONFLICT DO NOTHING", blob.hash,
                    static_cast<int64_t>(blob.bytes))
                  .run());
  }
  TENON_TRY(Query(*database,
                  "INSERT INTO object VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET newest "
                  "= excluded.newest",
                  version.name, version.kind, version.number)
                .run());
  TENON_TRY(Query(*database, "INSERT INTO version VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                  version.name, version.number, version.kind, version.blob.hash,
                  static_cast<int64_t>(version.blob.bytes), version.blob.hash, version.file,
                  version.created, facts, version.note)
                .run());
  for (const Part &part : version.parts) {
    TENON_TRY(Query(*database, "INSERT INTO part VALUES ($1, $2, $3, $4, $5, $6)", version.name,
                    version.number, part.path, part.blob.hash,
                    static_cast<int64_t>(part.blob.bytes), part.blob.hash)
                  .run());
  }
  return Status::ok();
}

} // namespace tenon::registry
