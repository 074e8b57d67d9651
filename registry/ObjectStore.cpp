#include "registry/ObjectStore.h"

#include "registry/Sha256.h"
#include "support/files/FileError.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tenon::registry {
namespace {

namespace fs = std::filesystem;

constexpr const char *kHint = "push the file again, or restore the bucket from a copy";

/// What another process began so long ago it does not end any more.
constexpr std::chrono::hours kAbandoned{24};

/// Removes a file unless it was adopted.
struct Scratch {
  std::string path;
  ~Scratch() { ::unlink(path.c_str()); }
};

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
  TENON_TRY(trim(blob.hash));
  return blob;
}

Result<std::string> ObjectStore::download(const Blob &blob) {
  TENON_TRY(create()); // somebody may have emptied the cache while this ran
  Scratch scratch{cache.unfinishedName()};
  TENON_ASSIGN(bool isThere, client.get(blob.hash, scratch.path));
  if (!isThere) {
    return Status::error(ErrorId::BlobMismatch,
                         fmt::format("'{}' is missing", client.nameOf(blob.hash)), kHint);
  }
  std::string difference = "it is empty";
  std::error_code ignored;
  if (fs::exists(scratch.path, ignored)) { // else no byte came to write
    TENON_ASSIGN(difference, differenceOf(scratch.path, blob));
  }
  if (!difference.empty()) {
    return Status::error(ErrorId::BlobMismatch,
                         fmt::format("'{}' was damaged: {}", client.nameOf(blob.hash), difference),
                         kHint);
  }
  return std::exchange(scratch.path, "");
}

Status ObjectStore::provide(const Blob &blob) {
  if (cache.check(blob).isOk()) {
    // So that it is not among those that were not used longest.
    ::utimensat(AT_FDCWD, cache.pathOf(blob.hash).c_str(), nullptr, 0);
    return Status::ok();
  }
  TENON_ASSIGN(std::string path, download(blob));
  constexpr mode_t kReadOnly = 0444;
  ::chmod(path.c_str(), kReadOnly);
  TENON_TRY(cache.adopt(path, blob.hash));
  return trim(blob.hash);
}

Status ObjectStore::check(const Blob &blob) {
  TENON_ASSIGN(std::string path, download(blob));
  ::unlink(path.c_str());
  return Status::ok();
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

Status ObjectStore::trim(const std::string &newest) {
  cache.removeAbandoned(kAbandoned);
  TENON_ASSIGN(std::vector<Blob> blobs, cache.all());
  uint64_t bytes = 0;
  std::vector<std::pair<fs::file_time_type, Blob>> byUse;
  for (Blob &blob : blobs) {
    bytes += blob.bytes;
    std::error_code gone;
    byUse.emplace_back(fs::last_write_time(cache.pathOf(blob.hash), gone), std::move(blob));
  }
  std::ranges::sort(byUse, {}, [](const auto &each) { return each.first; });
  for (const auto &[time, blob] : byUse) {
    if (bytes > maxCached && blob.hash != newest) {
      TENON_TRY(cache.remove({blob.hash}));
      bytes -= blob.bytes;
    }
  }
  return Status::ok();
}

} // namespace tenon::registry
