// Ownership of a file descriptor.

#pragma once

#include <unistd.h>

#include <utility>

namespace tenon::server {

class Descriptor {
public:
  Descriptor() = default;
  explicit Descriptor(int descriptor) : fd(descriptor) {}
  Descriptor(Descriptor &&other) noexcept : fd(std::exchange(other.fd, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(fd, other.fd);
    return *this;
  }
  ~Descriptor() {
    if (fd >= 0) {
      close(fd);
    }
  }

  int get() const { return fd; }
  bool isOpen() const { return fd >= 0; }
  /// The caller closes it.
  int release() { return std::exchange(fd, -1); }

private:
  int fd = -1;
};

} // namespace tenon::server
