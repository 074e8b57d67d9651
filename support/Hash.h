// The 128-bit content hash (XXH3) used for engine sections, weights and cache keys. It finds
// damage and equal contents; it is not a signature.

#pragma once

#include "support/memory/ByteSpan.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tenon {

struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  auto operator<=>(const Hash128 &) const = default;
  /// 32 hexadecimal digits.
  std::string hex() const;
};

Hash128 hashBytes(Bytes bytes);
Hash128 hashText(std::string_view text);

/// Hashes what comes in pieces.
class Hasher {
public:
  Hasher();
  ~Hasher();
  Hasher(Hasher &&) noexcept;
  void update(Bytes bytes);
  void update(std::string_view text);
  /// Hash of all bytes so far.
  Hash128 digest() const;
  void reset();

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace tenon
