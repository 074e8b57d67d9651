#include "registry/ObjectStore.h"

#include "registry/FolderLock.h"
#include "registry/Sha256.h"
#include "support/files/FileError.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tenon::registry {
namespace {

namespace fs = std::filesystem;

constexpr const char *kHint = "push the file again, or restore the bucket from a backup";

/// What another process began so long ago it does not end any more.
constexpr std::chrono::hours kAbandoned{24};

/// Removes a file unless it was adopted.
struct Scratch {
  std::string path;
  ~Scratch() { ::unlink(path.c_str()); }
};

/// Between looks whether a file that another process fetches is there.
constexpr std::chrono::milliseconds kAskAgain{100};
/// A fetch of another process that brings nothing for so long is waited for no more: it has given
/// up before.
constexpr std::chrono::seconds kStill{60};

uint64_t sizeOf(const std::string &path) {
  std::error_code none;
  uintmax_t bytes = fs::file_size(path, none);
  return none ? 0 : bytes;
}

} // namespace

Status ObjectStore::create() {
  std::error_code error;
  if (fs::exists(cache.lastFolder(), error)) {
    return Status::ok();
  }
  fs::create_directories(cache.folder(), error);
  return error ? writeError(error.value(), "create", cache.folder()) : cache.create();
}

Result<Blob> ObjectStore::put(const std::string &file, const FileStamp &stamp) {
  // A copy of one's own first: the file may be changed while it is sent.
  TENON_TRY(create());
  TENON_ASSIGN(Blob blob, cache.put(file, stamp));
  TENON_TRY(client.put(blob.hash, cache.pathOf(blob.hash), blob.hash, partBytes));
  // What is in use may take more than the cache's bound: that is no fault of the push.
  static_cast<void>(budget.reserve(cache.pathOf(blob.hash), blob.bytes));
  return blob;
}

CacheUse ObjectStore::cacheUse() const {
  return {.limit = budget.limit(),
          .used = budget.used(),
          .hits = hits,
          .fetches = fetches,
          .failures = failures,
          .fetchedBytes = fetchedBytes,
          .evictions = budget.evictions()};
}

Status ObjectStore::download(const Blob &blob, const std::string &partial) {
  for (uint64_t kept = sizeOf(partial);; kept = 0) {
    if (kept > blob.bytes) {
      kept = 0;
      ::truncate(partial.c_str(), 0);
    }
    bool isThere = true;
    if (kept < blob.bytes || blob.bytes == 0) {
      TENON_ASSIGN(isThere, client.get(blob.hash, partial, [this] { return isEnding.load(); }));
      fetchedBytes += sizeOf(partial) - std::min(kept, sizeOf(partial));
    }
    if (!isThere) {
      ::unlink(partial.c_str());
      return Status::error(ErrorId::BlobMismatch,
                           fmt::format("'{}' is missing", client.nameOf(blob.hash)), kHint);
    }
    TENON_ASSIGN(std::string difference, differenceOf(partial, blob));
    if (difference.empty()) {
      return Status::ok();
    }
    // What was kept may be the damage, as after a power cut: once more from the start then.
    ::truncate(partial.c_str(), 0);
    if (kept == 0) {
      ::unlink(partial.c_str());
      return Status::error(ErrorId::BlobMismatch,
                           fmt::format("'{}' is damaged: {}", client.nameOf(blob.hash), difference),
                           kHint);
    }
  }
}

Status ObjectStore::fetch(const Blob &blob) {
  TENON_TRY(create()); // somebody may have emptied the cache while this ran
  cache.removeAbandoned(kAbandoned);
  std::string partial = cache.partialName(blob.hash);
  uint64_t seen = sizeOf(partial);
  std::chrono::steady_clock::time_point moved = std::chrono::steady_clock::now();
  for (;;) {
    Result<FolderLock> lock = FolderLock::take(partial, LockKind::Alone, kAskAgain);
    if (!lock.isOk()) { // another process or thread fetches it: waited for as long as bytes come
      std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now();
      if (uint64_t size = sizeOf(partial); size != seen) {
        seen = size;
        moved = now;
      }
      if (lock.status().id() != ErrorId::RegistryBusy || isEnding || now - moved > kStill) {
        return lock.takeStatus();
      }
      continue;
    }
    if (cache.check(blob).isOk()) { // it came meanwhile
      if (lock->isOf(partial)) {
        ::unlink(partial.c_str());
      }
      return Status::ok();
    }
    if (!lock->isOf(partial)) {
      continue;
    }
    TENON_TRY(budget.reserve(partial, blob.bytes));
    TENON_TRY(download(blob, partial));
    TENON_TRY(cache.adopt(partial, blob.hash));
    constexpr mode_t kReadOnly = 0444;
    ::chmod(cache.pathOf(blob.hash).c_str(), kReadOnly);
    ++fetches;
    return Status::ok();
  }
}

Status ObjectStore::provide(const Blob &blob) {
  if (cache.check(blob).isOk()) {
    noteUse(cache.pathOf(blob.hash));
    ++hits;
    return Status::ok();
  }
  Status status =
      isEnding ? Status::error(ErrorId::StoreFailed, "the server is stopping") : fetch(blob);
  failures += !status.isOk();
  return status;
}

Status ObjectStore::check(const Blob &blob) {
  TENON_TRY(create());
  Scratch scratch{cache.unfinishedName()};
  std::ofstream(scratch.path).close(); // of an empty object no byte comes that would make it
  return download(blob, scratch.path);
}

Result<std::vector<Blob>> ObjectStore::all() {
  TENON_ASSIGN(std::vector<S3Object> objects, client.list());
  std::vector<Blob> blobs;
  for (S3Object &object : objects) {
    if (isSha256(object.key)) { // what others keep there is theirs
      blobs.push_back({std::move(object.key), object.bytes});
    }
  }
  return blobs;
}

Result<bool> ObjectStore::has(const Blob &blob) {
  TENON_ASSIGN(std::optional<uint64_t> bytes, client.sizeOf(blob.hash));
  return bytes == blob.bytes;
}

Status ObjectStore::remove(const std::vector<std::string> &hashes) {
  // What this machine has of them stays until it is trimmed: a push may be sending it just now.
  return client.remove(hashes);
}

Status ObjectStore::removeUnfinished() { return client.abortUploads(kAbandoned); }

} // namespace tenon::registry
