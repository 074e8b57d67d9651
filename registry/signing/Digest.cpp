#include "registry/signing/Digest.h"

#include "registry/signing/OpenSsl.h"
#include "support/Check.h"

namespace tenon::signing {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

/// What libcrypto calls it; null where it is not one of the two.
const char *nameOf(std::string_view algorithm) {
  return algorithm == "sha256" ? "SHA256" : algorithm == "blake2b" ? "BLAKE2B-512" : nullptr;
}

} // namespace

size_t digestDigits(std::string_view algorithm) {
  return algorithm == "sha256" ? 64 : algorithm == "blake2b" ? 128 : 0;
}

struct Digest::State {
  Handle<EVP_MD, EVP_MD_free> method;
  Handle<EVP_MD_CTX, EVP_MD_CTX_free> hash{EVP_MD_CTX_new()};
};

Digest::Digest(std::string_view algorithm) : state(std::make_unique<State>()) {
  state->method.reset(EVP_MD_fetch(ownContext(), nameOf(algorithm), nullptr));
  TENON_CHECK(state->method &&
                  EVP_DigestInit_ex(state->hash.get(), state->method.get(), nullptr) == 1,
              "libcrypto has the hash");
}

Digest::~Digest() = default;

void Digest::update(Bytes bytes) {
  EVP_DigestUpdate(state->hash.get(), bytes.data(), bytes.size());
}

std::string Digest::finish() {
  std::string bytes(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  EVP_DigestFinal_ex(state->hash.get(), reinterpret_cast<unsigned char *>(bytes.data()), &size);
  bytes.resize(size);
  return hexOf(bytes);
}

std::string hexOf(std::string_view bytes) {
  std::string text;
  for (unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string bytesOfHex(std::string_view digits) {
  if (digits.size() % 2 != 0 || digits.find_first_not_of(kDigits) != digits.npos) {
    return "";
  }
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2) {
    bytes += static_cast<char>(kDigits.find(digits[i]) << 4 | kDigits.find(digits[i + 1]));
  }
  return bytes;
}

} // namespace tenon::signing
