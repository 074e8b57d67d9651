// Relies on the file system's clock: two writes within one tick of it look like one.

#include "support/files/FileStamp.h"

#include "support/text/Text.h"

#include <sys/stat.h>

namespace tenon {
namespace {

FileStamp stampOf(int result, const struct stat &info) {
  if (result != 0) {
    return {};
  }
  constexpr int64_t second = 1'000'000'000;
  return {static_cast<uint64_t>(info.st_dev), static_cast<uint64_t>(info.st_ino),
          static_cast<uint64_t>(info.st_size), info.st_mtim.tv_sec * second + info.st_mtim.tv_nsec};
}

} // namespace

FileStamp FileStamp::of(const std::string &path) {
  struct stat info = {};
  return stampOf(::stat(path.c_str(), &info), info);
}

FileStamp FileStamp::of(int descriptor) {
  struct stat info = {};
  return stampOf(::fstat(descriptor, &info), info);
}

std::string FileStamp::text() const { return strCat(device, ' ', inode, ' ', bytes, ' ', changed); }

} // namespace tenon
