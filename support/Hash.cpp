// Wraps XXH3-128; the one file that includes xxhash, header-only so that nothing is linked.

#include "support/Hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tenon {

struct Hasher::Impl {
  XXH3_state_t state;
};

std::string Hash128::hex() const {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (uint64_t word : {high, low}) {
    for (int shift = 60; shift >= 0; shift -= 4) {
      text += digits[(word >> shift) & 15];
    }
  }
  return text;
}

Hash128 hashBytes(Bytes bytes) {
  XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

Hash128 hashText(std::string_view text) { return hashBytes(std::as_bytes(std::span(text))); }

Hasher::Hasher() : impl(std::make_unique<Impl>()) { reset(); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher &&) noexcept = default;

void Hasher::update(Bytes bytes) { XXH3_128bits_update(&impl->state, bytes.data(), bytes.size()); }

void Hasher::update(std::string_view text) { update(std::as_bytes(std::span(text))); }

Hash128 Hasher::digest() const {
  XXH128_hash_t hash = XXH3_128bits_digest(&impl->state);
  return {hash.low64, hash.high64};
}

void Hasher::reset() { XXH3_128bits_reset(&impl->state); }

} // namespace tenon
