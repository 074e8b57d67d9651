// For LD_PRELOAD: a disk that keeps nothing which was not flushed. Each fsync copies what it makes
// durable into a folder beside the real one, from which kills.py makes the state after a power cut:
//
//   $POWER_IMAGE/f<inode>   the bytes of a file when it was flushed last
//   $POWER_IMAGE/d<inode>   the names in a folder when it was flushed last: lines of inode, type
//   and name
//
// $POWER_DROP names one flush that is left out, or an order that is broken, which the harness must
// find: blob, names, log, database, or late-rename; all leaves out every flush and keeps no copies.
// $POWER_FAIL names one that fails.

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

using Sync = int (*)(int);
using Rename = int (*)(const char *, const char *);

template <typename Function> Function next(const char *name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

std::string setting(const char *name) {
  const char *value = getenv(name);
  return value ? value : "";
}

std::string pathOf(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path);
  return size > 0 ? std::string(path, static_cast<size_t>(size)) : "";
}

bool endsWith(const std::string &text, const char *end) {
  size_t size = strlen(end);
  return text.size() >= size && text.compare(text.size() - size, size, end) == 0;
}

/// Whether a setting names the flush of this file or folder.
bool isNamed(const char *by, const std::string &path, bool isFolder) {
  std::string drop = setting(by);
  bool isBlob = path.find("/blobs/") != path.npos;
  return (drop == "blob" && isBlob && !isFolder) || (drop == "names" && isBlob && isFolder) ||
         (drop == "log" && endsWith(path, "-wal")) ||
         (drop == "database" && endsWith(path, "registry.db"));
}

/// Complete or not at all, as a flush is.
void keep(const std::string &name, const std::string &content) {
  std::string path = setting("POWER_IMAGE") + "/" + name, part = path + ".part";
  int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  bool isWritten =
      fd >= 0 && write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size());
  close(fd);
  if (!isWritten || next<Rename>("rename")(part.c_str(), path.c_str()) != 0) {
    abort();
  }
}

std::string namesIn(const std::string &path) {
  std::string names;
  DIR *folder = opendir(path.c_str());
  while (dirent *entry = folder ? readdir(folder) : nullptr) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") {
      names +=
          std::to_string(entry->d_ino) + (entry->d_type == DT_DIR ? " d " : " f ") + name + "\n";
    }
  }
  closedir(folder);
  return names;
}

int flush(int fd, const char *function) {
  struct stat facts;
  std::string path = pathOf(fd);
  if (fstat(fd, &facts) != 0) {
    return -1;
  }
  bool isFolder = S_ISDIR(facts.st_mode);
  if (isNamed("POWER_FAIL", path, isFolder)) {
    errno = EIO;
    return -1;
  }
  if (setting("POWER_DROP") == "all" || isNamed("POWER_DROP", path, isFolder)) {
    return 0;
  }
  if (setting("POWER_IMAGE").empty()) {
    return next<Sync>(function)(fd);
  }
  // The disk itself is not waited for: the state after the cut is made of the copies.
  std::string content =
      isFolder ? namesIn(path) : std::string(static_cast<size_t>(facts.st_size), '\0');
  if (!isFolder) {
    ssize_t size = pread(fd, content.data(), content.size(), 0);
    if (size < 0 && errno == EBADF) { // for writing only; closing another descriptor of a database
                                      // would end SQLite's locks
      int again = open(path.c_str(), O_RDONLY | O_CLOEXEC);
      size = pread(again, content.data(), content.size(), 0);
      close(again);
    }
    content.resize(size > 0 ? static_cast<size_t>(size) : 0);
  }
  keep((isFolder ? "d" : "f") + std::to_string(facts.st_ino), content);
  return 0;
}

} // namespace

extern "C" int fsync(int fd) { return flush(fd, "fsync"); }
extern "C" int fdatasync(int fd) { return flush(fd, "fdatasync"); }

extern "C" int rename(const char *from, const char *to) {
  if (setting("POWER_DROP") != "late-rename" || !strstr(to, "/blobs/")) {
    return next<Rename>("rename")(from, to);
  }
  std::thread([from = std::string(from), to = std::string(to)] {
    usleep(500'000);
    next<Rename>("rename")(from.c_str(), to.c_str());
  }).detach();
  return 0;
}
