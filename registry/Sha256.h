// SHA-256 (FIPS 180-4), by which the registry names files and chains its history: nobody can make
// another file, or another history, of the same hash.

#pragma once

#include "support/memory/ByteSpan.h"

#include <memory>
#include <string>
#include <string_view>

namespace tenon::registry {

/// Of what comes in pieces. Not for several threads at once.
class Sha256 {
public:
  Sha256();
  ~Sha256();
  Sha256(Sha256 &&) noexcept;
  void update(Bytes bytes);
  /// 64 hexadecimal digits of all bytes so far. Once only.
  std::string finish();

private:
  struct State;
  std::unique_ptr<State> state;
};

std::string sha256Of(std::string_view text);
/// HMAC-SHA-256 (RFC 2104).
std::string hmacSha256(std::string_view key, std::string_view text);
/// Whether the text is one that Sha256 gives.
bool isSha256(std::string_view text);

} // namespace tenon::registry
