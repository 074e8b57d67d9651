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

bool isSha256(std::string_view text) {
  return text.size() == 2 * SHA256_DIGEST_LENGTH && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

} // namespace tenon::registry
