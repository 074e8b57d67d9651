// Entries are written beside their place and renamed, so readers see whole ones only; no flush to
// disk, because a torn entry fails its checksum. Relies on POSIX rename, link and utimensat.
#include "compiler/pipeline/CompileCache.h"

#include "support/ByteSpan.h"
#include "support/Text.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace tenon::pipeline {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEntry = "entry";
constexpr std::string_view kFile = "engine";
constexpr size_t kHashDigits = 32;

/// A file descriptor that closes itself.
class File {
public:
  File(const std::string &path, int flags) : fd(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  File(const File &) = delete;
  File &operator=(const File &) = delete;
  ~File() {
    if (fd >= 0) {
      ::close(fd);
    }
  }

  bool isOpen() const { return fd >= 0; }
  int descriptor() const { return fd; }

  bool writeAll(std::string_view bytes) const {
    while (!bytes.empty()) {
      ssize_t written = ::write(fd, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) {
        continue;
      }
      if (written <= 0) {
        return false;
      }
      bytes.remove_prefix(written);
    }
    return true;
  }

  std::optional<std::string> readAll() const {
    struct stat info = {};
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
      return std::nullopt;
    }
    std::string bytes(info.st_size, '\0');
    size_t done = 0;
    while (done < bytes.size()) {
      ssize_t count = ::read(fd, bytes.data() + done, bytes.size() - done);
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count <= 0) {
        return std::nullopt;
      }
      done += count;
    }
    return bytes;
  }

private:
  int fd;
};

/// A name beside `path` that no other process or thread uses.
std::string temporaryFor(const std::string &path) {
  return strCat(path, ".tmp.", ::getpid(), '.', ::gettid());
}

void remove(const std::string &path) { ::unlink(path.c_str()); }

/// Marks an entry as used now, which is what `trim` goes by.
void touch(const std::string &path) { ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }

bool cloneOrCopy(const std::string &from, const std::string &to) {
  File source(from, O_RDONLY);
  File target(to, O_WRONLY | O_CREAT | O_EXCL);
  if (!source.isOpen() || !target.isOpen()) {
    return false;
  }
  if (::ioctl(target.descriptor(), FICLONE, source.descriptor()) == 0) {
    return true;
  }
  struct stat info = {};
  if (fstat(source.descriptor(), &info) != 0) {
    return false;
  }
  off_t left = info.st_size;
  while (left > 0) {
    ssize_t count =
        ::copy_file_range(source.descriptor(), nullptr, target.descriptor(), nullptr, left, 0);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return false;
    }
    left -= count;
  }
  return true;
}

/// Size, time of last change and inode: what tells that a file is still the one that was seen.
std::string stampOf(const std::string &path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) {
    return "missing";
  }
  return strCat(info.st_size, ' ', info.st_mtim.tv_sec, ' ', info.st_mtim.tv_nsec, ' ',
                info.st_ino);
}

bool isSameFile(const std::string &a, const std::string &b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

/// Takes the text up to the next line end off `rest`.
std::string_view takeLine(std::string_view &rest) {
  size_t end = std::min(rest.find('\n'), rest.size());
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return line;
}

} // namespace

CompileCache::CompileCache(std::string cacheFolder, uint64_t mostBytes)
    : folder(std::move(cacheFolder)), limit(mostBytes) {
  std::error_code error;
  if (!folder.empty() && !fs::is_directory(folder, error)) {
    fs::create_directories(folder, error);
    if (error) {
      folder.clear();
    }
  }
}

std::string CompileCache::pathOf(const Hash128 &key, std::string_view kind) const {
  return strCat(folder, '/', key.hex(), '.', kind);
}

std::optional<std::string> CompileCache::find(const Hash128 &key) const {
  if (!isEnabled()) {
    return std::nullopt;
  }
  std::string path = pathOf(key, kEntry);
  std::optional<std::string> bytes = File(path, O_RDONLY).readAll();
  if (!bytes) {
    return std::nullopt;
  }
  bool isWhole = bytes->size() >= kHashDigits &&
                 hashText(std::string_view(*bytes).substr(kHashDigits)).hex() ==
                     std::string_view(*bytes).substr(0, kHashDigits);
  if (!isWhole) {
    remove(path);
    return std::nullopt;
  }
  touch(path);
  return bytes->substr(kHashDigits);
}

void CompileCache::store(const Hash128 &key, std::string_view payload) const {
  if (!isEnabled()) {
    return;
  }
  std::string path = pathOf(key, kEntry);
  std::string temporary = temporaryFor(path);
  bool written = false;
  {
    File file(temporary, O_WRONLY | O_CREAT | O_EXCL);
    written = file.isOpen() && file.writeAll(hashText(payload).hex()) && file.writeAll(payload);
  }
  if (!written || ::rename(temporary.c_str(), path.c_str()) != 0) {
    remove(temporary);
  }
}

std::optional<std::string> CompileCache::fetchFile(const Hash128 &key,
                                                   const std::string &path) const {
  std::optional<std::string> entry = find(key);
  std::string held = pathOf(key, kFile);
  if (!entry) {
    return std::nullopt;
  }
  std::string_view rest = *entry;
  bool isValid = takeLine(rest) == stampOf(held);
  for (std::string_view file = takeLine(rest); !file.empty(); file = takeLine(rest)) {
    isValid &= takeLine(rest) == stampOf(std::string(file));
  }
  if (!isValid) {
    remove(held);
    remove(pathOf(key, kEntry));
    return std::nullopt;
  }
  if (isSameFile(held, path)) {
    return std::string(rest);
  }
  std::string temporary = temporaryFor(path);
  if (!cloneOrCopy(held, temporary) || ::rename(temporary.c_str(), path.c_str()) != 0) {
    remove(temporary);
    return std::nullopt;
  }
  return std::string(rest);
}

void CompileCache::storeFile(const Hash128 &key, const std::string &path,
                             const std::vector<std::string> &dependencies,
                             std::string_view note) const {
  std::error_code error;
  uint64_t bytes = fs::file_size(path, error);
  if (!isEnabled() || error || bytes > limit / 2) {
    return;
  }
  std::string held = pathOf(key, kFile);
  std::string temporary = temporaryFor(held);
  // A hard link costs nothing and outlives the output; the stamp tells if someone wrote through the
  // other name.
  bool made = ::link(path.c_str(), temporary.c_str()) == 0 || cloneOrCopy(path, temporary);
  if (!made || ::rename(temporary.c_str(), held.c_str()) != 0) {
    remove(temporary);
    return;
  }
  std::string entry = stampOf(held) + '\n';
  for (const std::string &file : dependencies) {
    entry += strCat(file, '\n', stampOf(file), '\n');
  }
  store(key, strCat(entry, '\n', note));
}

void CompileCache::trim() const {
  if (!isEnabled()) {
    return;
  }
  struct Entry {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    fs::path used = it->path();
    if (used.extension() == ".engine") {
      // The link shares its times with the engine that a user holds; its entry has its own.
      used.replace_extension(".entry");
    }
    uint64_t bytes = it->file_size(gone);
    fs::file_time_type time = gone ? fs::file_time_type() : fs::last_write_time(used, gone);
    if (gone) {
      time = fs::file_time_type::min();
    }
    entries.push_back({time, bytes, it->path()});
    total += bytes;
  }
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    return std::pair(a.used, a.path) < std::pair(b.used, b.path);
  });
  for (const Entry &entry : entries) {
    if (total <= limit) {
      return;
    }
    fs::remove(entry.path, error);
    total -= entry.bytes;
  }
}

} // namespace tenon::pipeline
