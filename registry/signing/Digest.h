// Hashes of files by libcrypto, and their digits.

#pragma once

#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <memory>
#include <string>
#include <string_view>

namespace tenon::signing {

/// Digits of a hash by "sha256" or "blake2b" (512 bits, RFC 7693); 0 for others.
size_t digestDigits(std::string_view algorithm);

/// Of bytes that come in pieces, by one of those two. Not for several threads at once.
class Digest {
public:
  explicit Digest(std::string_view algorithm);
  ~Digest();
  Digest(const Digest &) = delete;
  Digest &operator=(const Digest &) = delete;
  void update(Bytes bytes);
  /// Lower-case hexadecimal digits of all bytes so far. Once only.
  std::string finish();

private:
  struct State;
  std::unique_ptr<State> state;
};

std::string hexOf(std::string_view bytes);
/// The bytes of lower-case hexadecimal digits; empty where it is none.
std::string bytesOfHex(std::string_view digits);

} // namespace tenon::signing
