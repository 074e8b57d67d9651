#include "registry/Stores.h"

#include "registry/BlobFolder.h"
#include "registry/FolderLock.h"
#include "registry/Schema.h"
#include "registry/SearchIndex.h"
#include "registry/SqliteDatabase.h"
#include "support/files/FileError.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>

#include <sys/stat.h>

namespace tenon::registry {
namespace {

namespace fs = std::filesystem;

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

Result<Stores> openPresent(const std::string &folder, std::chrono::milliseconds patience) {
  std::error_code ignored;
  if (!fs::exists(SqliteDatabase::pathIn(folder), ignored)) {
    return noRegistry(folder, fs::exists(folder, ignored) ? "is not a registry" : "does not exist");
  }
  TENON_ASSIGN(std::unique_ptr<SqliteDatabase> database,
               SqliteDatabase::open(folder, false, patience));
  TENON_TRY(database->checkFormat());
  return Stores{std::move(database), std::make_unique<BlobFolder>(folder + "/blobs")};
}

Status checkScheme(const std::string &where) {
  size_t end = where.find("://");
  bool isUrl = end != where.npos && end > 0 &&
               std::ranges::all_of(where.substr(0, end), [](unsigned char c) {
                 return std::isalnum(c) || c == '+' || c == '-' || c == '.';
               });
  return !isUrl || isSharedRegistry(where)
             ? Status::ok()
             : Status::error(ErrorId::BadArgument,
                             fmt::format("a registry cannot be at a URL that begins with '{}://'",
                                         where.substr(0, end)),
                             "a registry is a folder, or postgresql://HOST/DATABASE with its files "
                             "at blobs=s3://BUCKET/PREFIX");
}

} // namespace

bool isSharedRegistry(std::string_view where) {
  return where.starts_with("postgresql://") || where.starts_with("postgres://");
}

std::string shownRegistry(const std::string &where) {
  if (!isSharedRegistry(where)) {
    return where;
  }
  std::string url = where.substr(0, where.find('?'));
  size_t user = url.find("//") + 2, at = url.find('@'), colon = url.find(':', user);
  return at != url.npos && colon < at ? url.erase(colon, at - colon) : url;
}

Result<Stores> openStores(const std::string &where, bool creates,
                          std::chrono::milliseconds patience) {
  TENON_TRY(checkScheme(where));
  TENON_ASSIGN(Stores stores, isSharedRegistry(where) ? openShared(where, creates, patience)
                                                      : openFolder(where, creates, patience));
  TENON_TRY(makeSearchTables(*stores.database));
  return stores;
}

Result<Stores> openFolder(const std::string &folder, bool creates,
                          std::chrono::milliseconds patience) {
  Result<Stores> present = openPresent(folder, patience);
  bool isAbsent = !present.isOk() && present.status().id() == ErrorId::BadRegistry;
  std::error_code ignored;
  if (!creates || !isAbsent ||
      (fs::exists(folder, ignored) && !fs::is_directory(folder, ignored))) {
    return present;
  }
  TENON_TRY(makeFolders(folder));
  TENON_ASSIGN(FolderLock lock, FolderLock::take(folder + "/lock", LockKind::Alone, patience));
  TENON_ASSIGN(std::unique_ptr<SqliteDatabase> database,
               SqliteDatabase::open(folder, true, patience));
  std::unique_ptr<BlobStore> blobs = std::make_unique<BlobFolder>(folder + "/blobs");
  TENON_ASSIGN(bool hasTables, database->hasTables());
  if (!hasTables) { // new, or left by a process that was killed here; else another one's, or made
                    // just now
    TENON_TRY(blobs->create());
    TENON_ASSIGN(Transaction transaction, Transaction::begin(*database));
    TENON_TRY(database->makeTables(kFormat));
    TENON_TRY(transaction.commit());
    TENON_TRY(syncFolder(folder));
  }
  TENON_TRY(database->checkFormat());
  return Stores{std::move(database), std::move(blobs)};
}

} // namespace tenon::registry
