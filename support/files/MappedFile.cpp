// Opens, reads and maps regular files with the system calls; opening never blocks on a FIFO or a
// device, because those are refused after a non-blocking open.

#include "support/files/MappedFile.h"

#include "support/files/FileError.h"
#include "support/text/Text.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tenon {

FileReader::FileReader(std::string path, int descriptor, uint64_t size)
    : name(std::move(path)), fd(descriptor), bytes(size) {}

FileReader::FileReader(FileReader &&other) noexcept
    : name(std::move(other.name)), fd(std::exchange(other.fd, -1)), bytes(other.bytes) {}

FileReader &FileReader::operator=(FileReader &&other) noexcept {
  std::swap(name, other.name);
  std::swap(fd, other.fd);
  std::swap(bytes, other.bytes);
  return *this;
}

FileReader::~FileReader() {
  if (fd >= 0) {
    ::close(fd);
  }
}

Result<FileReader> FileReader::open(const std::string &path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return openError(errno, path);
  }
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return Status::error(ErrorId::FileNotRegular, strCat("'", path, "' is not a regular file"),
                         "give the path of a file");
  }
  return FileReader(path, fd, static_cast<uint64_t>(info.st_size));
}

Status FileReader::read(uint64_t offset, MutableBytes out) const {
  size_t done = 0;
  while (done < out.size()) {
    ssize_t got =
        pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return Status::error(ErrorId::FileReadFailed,
                           strCat("cannot read ", out.size(), " bytes at ", offset, " of '", name,
                                  "': ", got < 0 ? std::strerror(errno) : "the file ends before"),
                           "check that the file is complete and its disk is healthy");
    }
    done += static_cast<size_t>(got);
  }
  return Status::ok();
}

Result<MappedFile> MappedFile::open(const std::string &path) {
  TENON_ASSIGN(FileReader file, FileReader::open(path));
  return map(file, 0, file.size());
}

Result<MappedFile> MappedFile::map(const FileReader &file, uint64_t offset, uint64_t size) {
  if (size == 0) {
    return MappedFile();
  }
  void *memory =
      mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), static_cast<off_t>(offset));
  if (memory == MAP_FAILED) {
    return openError(errno, file.path());
  }
  return MappedFile(Bytes(static_cast<const std::byte *>(memory), size));
}

void MappedFile::populate() const {
  if (view.empty()) {
    return;
  }
  void *start = const_cast<std::byte *>(view.data());
  madvise(start, view.size(), MADV_WILLNEED);
#ifdef MADV_POPULATE_READ
  madvise(start, view.size(), MADV_POPULATE_READ);
#endif
}

MappedFile::MappedFile(MappedFile &&other) noexcept : view(std::exchange(other.view, {})) {}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(view, other.view);
  return *this;
}

MappedFile::~MappedFile() {
  if (!view.empty()) {
    munmap(const_cast<std::byte *>(view.data()), view.size());
  }
}

} // namespace tenon
