#include "registry/CacheBudget.h"

#include "registry/FolderLock.h"
#include "registry/Sha256.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tenon::registry {
namespace {

constexpr uint64_t kBlock = 512; ///< the unit of st_blocks

struct CachedFile {
  std::string path;
  uint64_t bytes; ///< that the disk gives to it, also those that are kept for it
  struct timespec used;
};

/// Files by their hash, finished or not, those that were not used longest first.
std::vector<CachedFile> cachedFiles(const std::string &folder) {
  std::vector<CachedFile> files;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    struct stat info = {};
    if (isSha256(it->path().filename().string()) && ::stat(it->path().c_str(), &info) == 0) {
      files.push_back({it->path(), static_cast<uint64_t>(info.st_blocks) * kBlock, info.st_atim});
    }
  }
  std::ranges::sort(files, [](const CachedFile &a, const CachedFile &b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  return files;
}

/// False where somebody uses it.
bool removeUnused(const std::string &path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return errno == ENOENT; // another process was faster
  }
  bool isUnused = ::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::unlink(path.c_str()) == 0;
  ::close(fd);
  return isUnused;
}

} // namespace

Status CacheBudget::reserve(const std::string &file, uint64_t needed) {
  constexpr std::chrono::seconds kPatience{10};
  TENON_ASSIGN(FolderLock lock, FolderLock::take(folder + "/lock", LockKind::Alone, kPatience));
  std::vector<CachedFile> files = cachedFiles(folder);
  std::erase_if(files, [&](const CachedFile &each) { return each.path == file; });
  uint64_t bytes = 0, limit = most;
  for (const CachedFile &each : files) {
    bytes += each.bytes;
  }
  for (const CachedFile &each : files) {
    if (bytes + needed <= limit) {
      break;
    }
    if (removeUnused(each.path)) {
      bytes -= each.bytes;
      ++evicted;
    }
  }
  taken = bytes;
  if (bytes + needed > limit) {
    return Status::error(
        ErrorId::FileWriteFailed,
        fmt::format("a file needs {} bytes in '{}', but files in use leave only {} of {}", needed,
                    folder, limit - std::min(bytes, limit), limit),
        "raise --cache-size, or serve fewer models at once");
  }
  taken += needed;
  constexpr mode_t kMode = 0666;
  int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, kMode);
  if (fd >= 0) { // a file system that cannot keep room goes without
    static_cast<void>(::fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(needed)));
    ::close(fd);
  }
  return Status::ok();
}

void noteUse(const std::string &file) {
  const struct timespec times[] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
  ::utimensat(AT_FDCWD, file.c_str(), times, 0);
}

} // namespace tenon::registry
