// Small blocks come from aligned_alloc and are zeroed; large ones from mmap, which gives zero pages
// and lets the kernel use large pages.

#include "support/memory/AlignedBuffer.h"

#include "support/text/Text.h"

#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <utility>

namespace tenon {
namespace {

constexpr uint64_t kLargePage = uint64_t(2) << 20;
constexpr uint64_t kCacheLine = 64;

constexpr uint64_t roundUp(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Maps size bytes on a large page border by mapping more and giving back both ends.
std::byte *mapLarge(uint64_t size) {
  uint64_t padded = size + kLargePage;
  void *raw = mmap(nullptr, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) {
    return nullptr;
  }
  uint64_t base = reinterpret_cast<uint64_t>(raw);
  uint64_t aligned = roundUp(base, kLargePage);
  if (aligned > base) {
    munmap(raw, aligned - base);
  }
  if (aligned + size < base + padded) {
    munmap(reinterpret_cast<void *>(aligned + size), base + padded - aligned - size);
  }
  madvise(reinterpret_cast<void *>(aligned), size, MADV_HUGEPAGE);
  return reinterpret_cast<std::byte *>(aligned);
}

} // namespace

Result<AlignedBuffer> AlignedBuffer::create(uint64_t size) {
  if (size == 0) {
    return AlignedBuffer();
  }
  std::byte *memory = nullptr;
  if (size >= kLargePage) {
    uint64_t rounded = roundUp(size, 4096);
    memory = rounded >= size && rounded < UINT64_MAX / 2 ? mapLarge(rounded) : nullptr;
  } else {
    memory = static_cast<std::byte *>(std::aligned_alloc(kCacheLine, roundUp(size, kCacheLine)));
    if (memory) {
      std::memset(memory, 0, size);
    }
  }
  if (!memory) {
    return Status::error(ErrorId::OutOfMemory, strCat("cannot allocate ", size, " bytes"),
                         "free memory or use smaller shapes");
  }
  return AlignedBuffer(memory, size);
}

AlignedBuffer::AlignedBuffer(AlignedBuffer &&other) noexcept
    : start(std::exchange(other.start, nullptr)), length(std::exchange(other.length, 0)) {}

AlignedBuffer &AlignedBuffer::operator=(AlignedBuffer &&other) noexcept {
  std::swap(start, other.start);
  std::swap(length, other.length);
  return *this;
}

AlignedBuffer::~AlignedBuffer() {
  if (length >= kLargePage) {
    munmap(start, roundUp(length, 4096));
  } else {
    std::free(start);
  }
}

} // namespace tenon
