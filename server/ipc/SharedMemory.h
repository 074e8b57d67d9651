// Memory that the front and a worker both map: sealed memfds, which neither can shrink under the
// other.
//
// What the other process may change at any time is read once, into memory of one's own, and checked
// there.

#pragma once

#include "server/ipc/Descriptor.h"
#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <cstdint>
#include <memory>

namespace tenon::server {

class SharedMemory {
public:
  /// `bytes` of zeros under a new descriptor, sealed against a change of size.
  static Result<std::unique_ptr<SharedMemory>> create(uint64_t bytes);
  /// Maps what the other process made, and closes the descriptor; refused (TN0902) where its size
  /// is not `bytes` or could still change.
  static Result<std::unique_ptr<SharedMemory>> open(Descriptor descriptor, uint64_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory &) = delete;
  SharedMemory &operator=(const SharedMemory &) = delete;

  std::byte *data() const { return mapped.data(); }
  MutableBytes bytes() const { return mapped; }
  /// The descriptor of what create() made, for the other process: once, since the mapping needs
  /// none.
  Descriptor takeDescriptor() { return std::move(fd); }

private:
  explicit SharedMemory(MutableBytes bytes) : mapped(bytes) {}
  static Result<std::unique_ptr<SharedMemory>> map(const Descriptor &descriptor, uint64_t bytes);

  Descriptor fd;
  MutableBytes mapped;
};

} // namespace tenon::server
