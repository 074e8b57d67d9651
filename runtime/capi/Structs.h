// Structs of the C interface that carry their size, across releases in which it differs: the first
// member of each is `size_t struct_size`, and new members come last.

#pragma once

#include "support/Status.h"

#include <cstddef>

namespace tenon::capi {

/// Copies what the caller's struct and ours have in common to `to`, `size` bytes of zeros; null is
/// all zeros. What only the caller's has must be zero.
Status readStruct(const void *from, void *to, size_t size);
/// Copies what both have in common of `from`, `size` bytes, but not the size itself.
Status fillStruct(const void *from, void *to, size_t size);

template <typename T> Status readStruct(const T *from, T &to) {
  return readStruct(from, &to, sizeof(T));
}

template <typename T> Status fillStruct(const T &from, T *to) {
  return fillStruct(&from, to, sizeof(T));
}

} // namespace tenon::capi
