// Copies between dense row-major tensors of one rank and unequal dims: how padding is put around
// elements and taken off again.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tenon::server {

/// Copies the box of `dims` at the origin of a tensor with dims `fromDims` to the origin of one
/// with `toDims`; both hold the box, all have one rank. The tensors may be one memory where no dim
/// of `toDims` is larger than that of `fromDims`.
inline void copyBox(std::byte *to, std::span<const int64_t> toDims, const std::byte *from,
                    std::span<const int64_t> fromDims, std::span<const int64_t> dims,
                    uint64_t elementBytes) {
  if (dims.empty()) {
    std::memmove(to, from, elementBytes);
    return;
  }
  uint64_t toBytes = elementBytes, fromBytes = elementBytes;
  bool isDense = true; // behind the first dim
  for (size_t i = 1; i < dims.size(); ++i) {
    isDense = isDense && toDims[i] == fromDims[i] && dims[i] == toDims[i];
    toBytes *= static_cast<uint64_t>(toDims[i]);
    fromBytes *= static_cast<uint64_t>(fromDims[i]);
  }
  if (isDense) {
    if (toBytes * static_cast<uint64_t>(dims[0]) > 0) {
      std::memmove(to, from, toBytes * static_cast<uint64_t>(dims[0]));
    }
    return;
  }
  for (int64_t i = 0; i < dims[0]; ++i) {
    copyBox(to + static_cast<uint64_t>(i) * toBytes, toDims.subspan(1),
            from + static_cast<uint64_t>(i) * fromBytes, fromDims.subspan(1), dims.subspan(1),
            elementBytes);
  }
}

} // namespace tenon::server
