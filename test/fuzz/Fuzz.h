// What the fuzzers share. Each is a function over any bytes; a crash, a sanitizer's report, a
// timeout or too much memory is a finding.
#pragma once

#include "support/memory/ByteSpan.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace tenon::fuzz {

inline Bytes bytesOf(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const std::byte *>(data), size};
}

inline std::string_view textOf(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

/// A file in memory, for readers that take a path.
class MemoryFile {
public:
  MemoryFile(const uint8_t *data, size_t size) : fd(memfd_create("fuzz", MFD_CLOEXEC)) {
    isWritten = write(fd, data, size) == static_cast<ssize_t>(size);
  }
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;
  ~MemoryFile() { close(fd); }

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd); }

private:
  int fd;
  bool isWritten = false;
};

} // namespace tenon::fuzz
