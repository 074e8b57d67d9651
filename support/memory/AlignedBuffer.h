// A block of memory on a 64-byte border (or a large page border when it is large), for tensors,
// arenas and scratch. Running out of memory is reported, not thrown.

#pragma once

#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <cstddef>

namespace tenon {

class AlignedBuffer {
public:
  /// `size` bytes, zero; size 0 gives an empty buffer. Blocks of 2 MiB and more ask for large
  /// pages.
  static Result<AlignedBuffer> create(uint64_t size);
  AlignedBuffer() = default;
  AlignedBuffer(AlignedBuffer &&other) noexcept;
  AlignedBuffer &operator=(AlignedBuffer &&other) noexcept;
  ~AlignedBuffer();

  std::byte *data() const { return start; }
  uint64_t size() const { return length; }
  MutableBytes bytes() const { return {start, length}; }

private:
  AlignedBuffer(std::byte *memory, uint64_t size) : start(memory), length(size) {}

  std::byte *start = nullptr;
  uint64_t length = 0;
};

} // namespace tenon
