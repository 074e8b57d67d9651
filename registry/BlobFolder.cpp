#include "registry/BlobFolder.h"

#include "registry/Sha256.h"
#include "support/files/FileError.h"
#include "support/files/MappedFile.h"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <random>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tenon::registry {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPiece = 1 << 20;
constexpr const char *kUnfinished = "unfinished";
constexpr unsigned kFolders = 256;

/// A file that is gone unless it was renamed.
class Unfinished {
public:
  explicit Unfinished(std::string name) : name(std::move(name)) {}
  ~Unfinished() {
    if (fd >= 0) {
      ::close(fd);
    }
    if (!name.empty()) {
      ::unlink(name.c_str());
    }
  }
  Unfinished(const Unfinished &) = delete;
  Unfinished &operator=(const Unfinished &) = delete;

  Status open() {
    constexpr mode_t kReadOnly = 0444; // a blob never changes
    fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kReadOnly);
    if (fd < 0) {
      return writeError(errno, "create", name);
    }
    // So that gc leaves it. In between gc may have taken it for one that was left.
    struct stat there = {};
    bool isThere = ::flock(fd, LOCK_SH) != 0 || ::fstat(fd, &there) != 0 || there.st_nlink > 0;
    if (!isThere) {
      ::close(fd);
      return open();
    }
    return Status::ok();
  }

  Status append(Bytes bytes) {
    while (!bytes.empty()) {
      ssize_t count = ::write(fd, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count <= 0) {
        return writeError(count < 0 ? errno : ENOSPC, "write", name);
      }
      bytes = bytes.subspan(static_cast<size_t>(count));
    }
    return Status::ok();
  }

  /// After a failed flush the system may have dropped the bytes and forgotten it: the file is not
  /// tried again.
  Status flush() const {
    return ::fsync(fd) == 0 ? Status::ok() : writeError(errno, "flush", name);
  }
  const std::string &path() const { return name; }
  /// It has another name now.
  void release() { name.clear(); }

private:
  std::string name;
  int fd = -1;
};

/// Calls `take` with the file piece by piece.
template <typename Taker> Status readPieces(const FileReader &file, Taker take) {
  std::vector<std::byte> piece(kPiece);
  for (uint64_t offset = 0; offset < file.size(); offset += kPiece) {
    MutableBytes part = MutableBytes(piece).first(std::min<uint64_t>(kPiece, file.size() - offset));
    TENON_TRY(file.read(offset, part));
    TENON_TRY(take(Bytes(part)));
  }
  return Status::ok();
}

Status makeFolder(const std::string &path) {
  constexpr mode_t kMode = 0777; // the user's mask applies
  return ::mkdir(path.c_str(), kMode) == 0 || errno == EEXIST ? Status::ok()
                                                              : writeError(errno, "create", path);
}

} // namespace

Status syncFolder(const std::string &path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return writeError(errno, "open", path);
  }
  Status status = ::fsync(fd) == 0 ? Status::ok() : writeError(errno, "flush", path);
  ::close(fd);
  return status;
}

Status BlobFolder::create() {
  TENON_TRY(makeFolder(path));
  TENON_TRY(makeFolder(fmt::format("{}/{}", path, kUnfinished)));
  // All at once, since a folder's own name has to be on the disk too. Copies of a registry that
  // left empty ones out get them again by the next put.
  for (unsigned i = 0; i < kFolders; ++i) {
    TENON_TRY(makeFolder(fmt::format("{}/{:02x}", path, i)));
  }
  return syncFolder(path);
}

std::string BlobFolder::pathOf(const std::string &hash) const {
  return fmt::format("{}/{}/{}", path, hash.substr(0, 2), hash);
}

std::string BlobFolder::lastFolder() const { return fmt::format("{}/{:02x}", path, kFolders - 1); }

std::string BlobFolder::unfinishedName() const {
  std::random_device random;
  return fmt::format("{}/{}/{}-{:08x}{:08x}", path, kUnfinished, ::getpid(), random(), random());
}

std::string BlobFolder::partialName(const std::string &hash) const {
  return fmt::format("{}/{}/{}", path, kUnfinished, hash);
}

Status BlobFolder::adopt(const std::string &unfinished, const std::string &hash) {
  int code = ::rename(unfinished.c_str(), pathOf(hash).c_str()) == 0 ? 0 : errno;
  if (code == ENOENT) {
    TENON_TRY(create());
    code = ::rename(unfinished.c_str(), pathOf(hash).c_str()) == 0 ? 0 : errno;
  }
  return code == 0 ? Status::ok() : writeError(code, "rename to", pathOf(hash));
}

Result<Blob> BlobFolder::put(const std::string &file, const FileStamp &stamp) {
  TENON_ASSIGN(FileReader source, FileReader::open(file));
  std::error_code ignored;
  if (!fs::exists(fs::path(path) / kUnfinished, ignored)) {
    TENON_TRY(create());
  }
  Unfinished copy(unfinishedName());
  TENON_TRY(copy.open());
  Sha256 hash;
  TENON_TRY(readPieces(source, [&](Bytes bytes) {
    hash.update(bytes);
    return copy.append(bytes);
  }));
  if (FileStamp::of(source.descriptor()) != stamp) {
    return Status::error(ErrorId::UnsafeArtifact,
                         fmt::format("'{}' changed while it was being pushed", file),
                         "push it again when nothing writes to it");
  }
  Blob blob = {hash.finish(), source.size()};
  TENON_TRY(copy.flush());
  TENON_TRY(adopt(copy.path(), blob.hash));
  copy.release();
  TENON_TRY(syncFolder(fs::path(pathOf(blob.hash)).parent_path()));
  return blob;
}

Result<std::string> differenceOf(const std::string &path, const Blob &blob) {
  TENON_ASSIGN(FileReader file, FileReader::open(path));
  Sha256 hash;
  TENON_TRY(readPieces(file, [&](Bytes bytes) {
    hash.update(bytes);
    return Status::ok();
  }));
  std::string actual = hash.finish();
  if (actual == blob.hash) {
    return std::string();
  }
  return file.size() == blob.bytes
             ? fmt::format("its bytes have the hash {}", actual)
             : fmt::format("it has {} bytes, not {}", file.size(), blob.bytes);
}

Status BlobFolder::check(const Blob &blob) {
  constexpr const char *kHint =
      "push the file again, or restore the registry's folder from a backup";
  std::string file = pathOf(blob.hash);
  Result<std::string> difference = differenceOf(file, blob);
  if (!difference.isOk() && difference.status().id() == ErrorId::FileNotFound) {
    return Status::error(ErrorId::BlobMismatch, fmt::format("'{}' is missing", file), kHint);
  }
  TENON_TRY(difference.takeStatus());
  return difference->empty()
             ? Status::ok()
             : Status::error(ErrorId::BlobMismatch,
                             fmt::format("'{}' is damaged: {}", file, *difference), kHint);
}

Result<std::vector<Blob>> BlobFolder::all() {
  std::vector<Blob> blobs;
  for (unsigned i = 0; i < kFolders; ++i) {
    std::string part = fmt::format("{}/{:02x}", path, i);
    std::error_code error;
    for (fs::directory_iterator it(part, error), end; !error && it != end; it.increment(error)) {
      if (isSha256(it->path().filename().string())) {
        std::error_code gone;
        uintmax_t bytes = it->file_size(gone);
        blobs.push_back({it->path().filename(), gone ? 0 : bytes});
      }
    }
    if (error && error != std::errc::no_such_file_or_directory) {
      return openError(error.value(), part);
    }
  }
  return blobs;
}

Result<bool> BlobFolder::has(const Blob &blob) {
  std::error_code ignored;
  return fs::file_size(pathOf(blob.hash), ignored) == blob.bytes;
}

Status BlobFolder::remove(const std::vector<std::string> &hashes) {
  for (const std::string &hash : hashes) {
    std::string file = pathOf(hash);
    if (::unlink(file.c_str()) != 0 && errno != ENOENT) {
      return writeError(errno, "remove", file);
    }
  }
  return Status::ok();
}

Status BlobFolder::removeUnfinished() {
  std::error_code error;
  fs::path unfinished = fs::path(path) / kUnfinished;
  for (fs::directory_iterator it(unfinished, error), end; !error && it != end;
       it.increment(error)) {
    // Whoever writes one holds a lock on it, which goes with the process.
    int fd = ::open(it->path().c_str(), O_RDONLY | O_CLOEXEC);
    bool isLeft = fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (isLeft) {
      fs::remove(it->path(), error);
    }
    if (fd >= 0) {
      ::close(fd);
    }
  }
  return error ? writeError(error.value(), "remove what is in", unfinished) : Status::ok();
}

void BlobFolder::removeAbandoned(std::chrono::hours age) const {
  std::error_code error, gone;
  for (fs::directory_iterator it(fs::path(path) / kUnfinished, error), end; !error && it != end;
       it.increment(error)) {
    fs::file_time_type written = it->last_write_time(gone);
    if (!gone && fs::file_time_type::clock::now() - written > age) {
      fs::remove(it->path(), gone);
    }
  }
}

} // namespace tenon::registry
