// Entries are written beside their place and renamed, so readers see whole ones only; no flush to
// disk, because a torn entry fails its checksum. Relies on POSIX rename, link and utimensat.
#include "compiler/pipeline/CompileCache.h"

#include "support/files/AtomicFile.h"
#include "support/text/Text.h"

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <linux/fs.h>
#include <memory>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tenon::pipeline {
namespace {

constexpr std::string_view kEntry = ".entry";
constexpr std::string_view kFile = ".engine";
constexpr std::string_view kWriting = ".tmp.";
constexpr size_t kHashDigits = 32;

/// A file descriptor that closes itself.
class File {
public:
  explicit File(int descriptor) : fd(descriptor) {}
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
    if (fd < 0 || fstat(fd, &info) != 0) {
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

std::string nameOf(const Hash128 &key, std::string_view kind) { return strCat(key.hex(), kind); }

/// A name beside `name` that no other process or thread uses.
std::string temporaryFor(const std::string &name) {
  return strCat(name, kWriting, ::getpid(), '.', ::gettid());
}

int createIn(const PrivateFolder &folder, const std::string &name) {
  return ::openat(folder.descriptor(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

bool renameIn(const PrivateFolder &folder, const std::string &from, const std::string &to) {
  return ::renameat(folder.descriptor(), from.c_str(), folder.descriptor(), to.c_str()) == 0;
}

/// Both files are at their start.
bool cloneOrCopy(int from, int to) {
  if (::ioctl(to, FICLONE, from) == 0) {
    return true;
  }
  struct stat info = {};
  if (fstat(from, &info) != 0) {
    return false;
  }
  off_t left = info.st_size;
  while (left > 0) {
    ssize_t count = ::sendfile(to, from, nullptr, static_cast<size_t>(left));
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

/// Takes the text up to the next line end off `rest`.
std::string_view takeLine(std::string_view &rest) {
  size_t end = std::min(rest.find('\n'), rest.size());
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return line;
}

} // namespace

CompileCache::CompileCache(const std::string &cacheFolder, uint64_t mostBytes) : limit(mostBytes) {
  if (cacheFolder.empty()) {
    return;
  }
  Result<PrivateFolder> opened = PrivateFolder::open(cacheFolder);
  if (opened) {
    folder = std::move(*opened);
  } else {
    failure = opened.takeStatus();
  }
}

void CompileCache::remove(const std::string &name) const {
  ::unlinkat(folder->descriptor(), name.c_str(), 0);
}

std::optional<std::string> CompileCache::find(const Hash128 &key) const {
  if (!isEnabled()) {
    return std::nullopt;
  }
  std::string name = nameOf(key, kEntry);
  std::optional<std::string> bytes = File(folder->openEntry(name)).readAll();
  if (!bytes) {
    return std::nullopt;
  }
  bool isWhole = bytes->size() >= kHashDigits &&
                 hashText(std::string_view(*bytes).substr(kHashDigits)).hex() ==
                     std::string_view(*bytes).substr(0, kHashDigits);
  if (!isWhole) {
    remove(name);
    return std::nullopt;
  }
  // Used now, which is what `trim` goes by.
  ::utimensat(folder->descriptor(), name.c_str(), nullptr, 0);
  return bytes->substr(kHashDigits);
}

void CompileCache::store(const Hash128 &key, std::string_view payload) const {
  if (!isEnabled()) {
    return;
  }
  std::string name = nameOf(key, kEntry);
  std::string temporary = temporaryFor(name);
  bool written = false;
  {
    File file(createIn(*folder, temporary));
    written = file.isOpen() && file.writeAll(hashText(payload).hex()) && file.writeAll(payload);
  }
  if (!written || !renameIn(*folder, temporary, name)) {
    remove(temporary);
  }
}

/// Makes `path` another name of a file of the cache where it lies in a folder within the cache's:
/// there verbs put the engine of one run, which nobody writes to.
bool CompileCache::linkWithin(const std::string &name, const std::string &path) const {
  struct stat above = {}, own = {};
  std::filesystem::path parent = std::filesystem::path(path).parent_path().parent_path();
  bool isWithin = ::stat(parent.c_str(), &above) == 0 && ::fstat(folder->descriptor(), &own) == 0 &&
                  above.st_dev == own.st_dev && above.st_ino == own.st_ino;
  return isWithin && ::linkat(folder->descriptor(), name.c_str(), AT_FDCWD, path.c_str(), 0) == 0;
}

std::optional<std::string> CompileCache::fetchFile(const Hash128 &key,
                                                   const std::string &path) const {
  std::optional<std::string> entry = find(key);
  if (!entry) {
    return std::nullopt;
  }
  File held(folder->openEntry(nameOf(key, kFile)));
  std::string_view rest = *entry;
  FileStamp stamp = FileStamp::of(held.descriptor());
  bool isValid = held.isOpen() && takeLine(rest) == stamp.text();
  for (std::string_view file = takeLine(rest); !file.empty(); file = takeLine(rest)) {
    isValid &= takeLine(rest) == FileStamp::of(std::string(file)).text();
  }
  if (!isValid) {
    remove(nameOf(key, kFile));
    remove(nameOf(key, kEntry));
    return std::nullopt;
  }
  if (FileStamp::of(path) == stamp) {
    return std::string(rest);
  }
  if (linkWithin(nameOf(key, kFile), path) && FileStamp::of(path) == stamp) {
    return std::string(rest);
  }
  Result<AtomicFile> copy = AtomicFile::create(path);
  if (!copy || !cloneOrCopy(held.descriptor(), copy->descriptor()) || !copy->commit()) {
    return std::nullopt;
  }
  return std::string(rest);
}

/// A hard link costs nothing and outlives the output; the stamp tells if someone wrote through the
/// other name. Where others may write to the output, the cache needs a file of its own.
bool CompileCache::holdFile(const std::string &path, const std::string &name) const {
  std::string temporary = temporaryFor(name);
  File output(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  bool held = PrivateFolder::isPrivateFile(output.descriptor()) &&
              ::linkat(AT_FDCWD, path.c_str(), folder->descriptor(), temporary.c_str(),
                       AT_SYMLINK_FOLLOW) == 0;
  if (!held) {
    File copy(createIn(*folder, temporary));
    held = output.isOpen() && copy.isOpen() &&
           cloneOrCopy(output.descriptor(), copy.descriptor()) && ::fsync(copy.descriptor()) == 0;
  }
  if (!held || !renameIn(*folder, temporary, name)) {
    remove(temporary);
    return false;
  }
  // Of two names of one file, rename leaves both.
  remove(temporary);
  return true;
}

void CompileCache::storeFile(const Hash128 &key, const std::string &path,
                             const std::vector<InputFile> &inputs, std::string_view note) const {
  std::string name = nameOf(key, kFile);
  if (!isEnabled() || FileStamp::of(path).bytes > limit / 2 || !holdFile(path, name)) {
    return;
  }
  std::string entry = FileStamp::of(File(folder->openEntry(name)).descriptor()).text() + '\n';
  for (const InputFile &input : inputs) {
    entry += strCat(input.path, '\n', input.stamp.text(), '\n');
  }
  store(key, strCat(entry, '\n', note));
}

namespace {

/// A file in the folder that the cache made.
struct Item {
  std::string name;
  uint64_t bytes = 0;
  std::chrono::nanoseconds used{0};
  bool isBeingWritten = false;
};

std::chrono::nanoseconds timeOf(const struct timespec &time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

bool isOwnName(std::string_view name) {
  bool isHash =
      name.size() > kHashDigits && name.find_first_not_of("0123456789abcdef") == kHashDigits;
  std::string_view kind = name.substr(std::min(kHashDigits, name.size()));
  return isHash && (kind.starts_with(kEntry) || kind.starts_with(kFile));
}

std::vector<Item> listItems(const PrivateFolder &folder) {
  std::vector<Item> items;
  int descriptor = ::openat(folder.descriptor(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::unique_ptr<DIR, int (*)(DIR *)> stream(descriptor < 0 ? nullptr : ::fdopendir(descriptor),
                                              ::closedir);
  while (struct dirent *found = stream ? ::readdir(stream.get()) : nullptr) {
    Item item{.name = found->d_name};
    struct stat info = {};
    if (!isOwnName(item.name) ||
        ::fstatat(folder.descriptor(), found->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    item.bytes = static_cast<uint64_t>(info.st_size);
    item.used = timeOf(info.st_mtim);
    item.isBeingWritten = item.name.find(kWriting) != std::string::npos;
    if (item.name.ends_with(kFile)) {
      // The link shares its times with the engine that a user holds; its entry has its own.
      std::string entry = item.name.substr(0, kHashDigits) + std::string(kEntry);
      bool hasEntry = ::fstatat(folder.descriptor(), entry.c_str(), &info, 0) == 0;
      item.used = hasEntry ? timeOf(info.st_mtim) : std::chrono::nanoseconds(0);
    }
    items.push_back(std::move(item));
  }
  return items;
}

} // namespace

void CompileCache::trim() const {
  if (!isEnabled()) {
    return;
  }
  std::vector<Item> items = listItems(*folder);
  std::sort(items.begin(), items.end(), [](const Item &a, const Item &b) {
    return std::pair(a.used, a.name) < std::pair(b.used, b.name);
  });
  uint64_t total = 0;
  for (const Item &item : items) {
    total += item.bytes;
  }
  std::chrono::nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
  for (const Item &item : items) {
    bool isLeft = item.isBeingWritten && item.used + kLongestWrite < now;
    if (isLeft || total > limit) {
      remove(item.name);
      total -= item.bytes;
    }
  }
}

} // namespace tenon::pipeline
