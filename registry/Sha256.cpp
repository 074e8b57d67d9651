// Uses libcrypto's block functions, which its newer interface (EVP) would reach through providers
// and a configuration file that the environment names: a hash needs neither.

#include "registry/Sha256.h"

#include <algorithm>

#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

namespace tenon::registry {

struct Sha256::State {
  SHA256_CTX context;
};

Sha256::Sha256() : state(std::make_unique<State>()) { SHA256_Init(&state->context); }
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256 &&) noexcept = default;

void Sha256::update(Bytes bytes) { SHA256_Update(&state->context, bytes.data(), bytes.size()); }

std::string Sha256::finish() {
  constexpr char kDigits[] = "0123456789abcdef";
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256_Final(digest, &state->context);
  std::string text;
  for (unsigned char byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string sha256Of(std::string_view text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.finish();
}

std::string hmacSha256(std::string_view key, std::string_view text) {
  unsigned char block[SHA256_CBLOCK] = {}, digest[SHA256_DIGEST_LENGTH];
  auto bytesOf = [](std::string_view each) {
    return reinterpret_cast<const unsigned char *>(each.data());
  };
  if (key.size() > sizeof block) {
    SHA256(bytesOf(key), key.size(), block);
  } else {
    std::ranges::copy(key, block);
  }
  auto padded = [&](unsigned char with) {
    std::string pad;
    for (unsigned char byte : block) {
      pad += static_cast<char>(byte ^ with);
    }
    return pad;
  };
  std::string inner = padded(0x36).append(text);
  SHA256(bytesOf(inner), inner.size(), digest);
  return sha256Of(padded(0x5c).append(reinterpret_cast<char *>(digest), sizeof digest));
}

bool isSha256(std::string_view text) {
  return text.size() == 2 * SHA256_DIGEST_LENGTH && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

} // namespace tenon::registry
