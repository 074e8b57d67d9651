// Relies on flock for one writer at a time, which ends with its process, and on a line being whole
// once its end is there: a record is one write.
#include "compiler/tuning/Store.h"

#include "support/files/AtomicFile.h"
#include "support/files/FileError.h"
#include "support/files/MappedFile.h"
#include "support/text/Text.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tenon::tuning {
namespace {

constexpr std::string_view kHeader = "tenon tuning records 1\n";
constexpr const char *kFile = "records", *kLock = "lock";
/// A record takes about a kilobyte.
constexpr uint64_t kMaxBytes = uint64_t{256} << 20;

constexpr std::string_view kOtherStore = "name another store with --store, or remove it";

Status noStore(const std::string &path, std::string_view why, std::string_view hint = kOtherStore) {
  return Status::error(ErrorId::BadTuningStore, strCat("'", path, "' ", why), hint);
}

Result<Records> parse(std::string_view text, const std::string &path,
                      std::string_view hint = kOtherStore) {
  Records found;
  if (kHeader.starts_with(text)) {
    found.isTorn = !text.empty() && text.size() < kHeader.size();
    return found;
  }
  if (!text.starts_with(kHeader)) {
    return noStore(path, "contains no tuning records of this format", hint);
  }
  text.remove_prefix(kHeader.size());
  for (size_t number = 1; !text.empty(); ++number) {
    size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      found.isTorn = true;
      break;
    }
    Result<Record> record = recordOf(text.substr(0, end));
    if (record) {
      found.records.push_back(std::move(*record));
    } else {
      found.faults.push_back(
          strCat("record ", number, " of '", path, "': ", record.status().message()));
    }
    text.remove_prefix(end + 1);
  }
  return found;
}

Result<std::string> readAll(int file, const std::string &path) {
  struct stat info = {};
  if (::fstat(file, &info) != 0 || static_cast<uint64_t>(info.st_size) > kMaxBytes) {
    return noStore(path, "is too large for a store");
  }
  std::string text(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    ssize_t count = ::pread(file, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      break;
    }
    done += static_cast<size_t>(count);
  }
  text.resize(done);
  return text;
}

std::string nameOfFile(const std::string &folder) { return strCat(folder, '/', kFile); }

std::string textOf(const std::vector<Record> &records) {
  std::string text(kHeader);
  for (const Record &record : records) {
    text += lineOf(record) + '\n';
  }
  return text;
}

Status busy(const std::string &path, int lock) {
  char holder[32] = {};
  ssize_t count = ::pread(lock, holder, sizeof(holder) - 1, 0);
  std::string who = count > 0 ? strCat("process ", std::string_view(holder, size_t(count)))
                              : std::string("another process");
  return Status::error(
      ErrorId::TuningStoreBusy, strCat(who, " is writing to the tuning store '", path, "'"),
      "wait for it, or name another store with --store; tenon cache import can merge them later");
}

} // namespace

Result<Records> readStore(const std::string &folder) {
  struct stat info = {};
  if (::stat(nameOfFile(folder).c_str(), &info) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
    return Records();
  }
  TENON_ASSIGN(PrivateFolder opened, PrivateFolder::open(folder));
  int file = opened.openEntry(kFile);
  if (file < 0) {
    return noStore(nameOfFile(folder), "is not a file of your own that nobody else can write to");
  }
  Result<std::string> text = readAll(file, nameOfFile(folder));
  ::close(file);
  return text ? parse(*text, nameOfFile(folder)) : text.takeStatus();
}

Result<Records> readRecords(const std::string &path) {
  TENON_ASSIGN(FileReader file, FileReader::open(path));
  TENON_ASSIGN(std::string text, readAll(file.descriptor(), path));
  constexpr std::string_view hint = "give a file written by tenon cache export";
  return text.empty() ? noStore(path, "is empty", hint) : parse(text, path, hint);
}

Status exportRecords(const std::vector<Record> &records, const std::string &path) {
  std::string text = textOf(records);
  TENON_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TENON_TRY(file.append(std::as_bytes(std::span(text.data(), text.size()))));
  return file.commit();
}

Result<StoreWriter> StoreWriter::open(const std::string &path) {
  TENON_ASSIGN(PrivateFolder folder, PrivateFolder::open(path));
  int lock = ::openat(folder.descriptor(), kLock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock < 0) {
    return writeError(errno, "create", strCat(path, '/', kLock));
  }
  StoreWriter writer(std::move(folder), path, lock);
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    return busy(path, lock);
  }
  TENON_TRY(writer.start());
  return writer;
}

StoreWriter::StoreWriter(StoreWriter &&other) noexcept
    : folder(std::move(other.folder)), path(std::move(other.path)),
      lockFile(std::exchange(other.lockFile, -1)), file(std::exchange(other.file, -1)),
      content(std::move(other.content)) {}

StoreWriter &StoreWriter::operator=(StoreWriter &&other) noexcept {
  std::swap(folder, other.folder);
  std::swap(path, other.path);
  std::swap(lockFile, other.lockFile);
  std::swap(file, other.file);
  std::swap(content, other.content);
  return *this;
}

StoreWriter::~StoreWriter() {
  for (int descriptor : {file, lockFile}) {
    if (descriptor >= 0) {
      ::close(descriptor);
    }
  }
}

/// Who it is, for others that find it locked; then the file.
Status StoreWriter::start() {
  std::string holder = strCat(::getpid());
  if (::ftruncate(lockFile, 0) != 0 || ::pwrite(lockFile, holder.data(), holder.size(), 0) < 0) {
    return writeError(errno, "write", strCat(path, '/', kLock));
  }
  return openFile();
}

Status StoreWriter::openFile() {
  constexpr int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  file = ::openat(folder.descriptor(), kFile, flags, 0600);
  if (file < 0) {
    return writeError(errno, "create", nameOfFile(path));
  }
  if (!PrivateFolder::isPrivateFile(file)) {
    return noStore(nameOfFile(path), "is not a file of your own that nobody else can write to");
  }
  TENON_ASSIGN(std::string text, readAll(file, nameOfFile(path)));
  TENON_ASSIGN(content, parse(text, nameOfFile(path)));
  size_t whole = text.rfind('\n') + 1; // 0 for none
  bool isNew = whole == 0;
  if ((content.isTorn && ::ftruncate(file, static_cast<off_t>(whole)) != 0) ||
      (isNew && ::pwrite(file, kHeader.data(), kHeader.size(), 0) != ssize_t(kHeader.size()))) {
    return writeError(errno, "write", nameOfFile(path));
  }
  return Status::ok();
}

Status StoreWriter::append(const Record &record) {
  std::string line = lineOf(record) + '\n';
  TENON_TRY(recordOf(std::string_view(line).substr(0, line.size() - 1)).takeStatus());
  off_t end = ::lseek(file, 0, SEEK_END);
  errno = 0;
  ssize_t written = ::pwrite(file, line.data(), line.size(), end);
  if (written == static_cast<ssize_t>(line.size()) && ::fdatasync(file) == 0) {
    return Status::ok();
  }
  int error = errno != 0 ? errno : ENOSPC; // a write that is cut short says nothing
  (void)::ftruncate(file, end);
  return writeError(error, "write", nameOfFile(path));
}

Status StoreWriter::replace(const std::vector<Record> &records) {
  TENON_TRY(exportRecords(records, nameOfFile(path)));
  ::close(std::exchange(file, -1));
  return openFile();
}

} // namespace tenon::tuning
