// The file of a signature: a Sigstore bundle (v0.3) as JSON with a DSSE envelope. Nothing in it is
// trusted; Trust says whether the signature is one.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::signing {

struct Bundle {
  std::string payload;   ///< the statement, byte by byte
  std::string signature; ///< as ECDSA signatures are in DER
  /// Of a key: what Signer calls it; empty where the bundle does not say.
  std::string fingerprint;
  /// Of a certificate: DER, the signer's first.
  std::vector<std::string> certificates;
};

/// TN1016 for what is no bundle with exactly one signature; TN1015 for a keyless one, which nothing
/// here can verify.
Result<Bundle> parseBundle(std::string_view text);
std::string formatBundle(const Bundle &bundle);

/// Bytes of a signature of 100,000 files and more, and of one of a single file, which has at most a
/// chain of certificates.
inline constexpr uint64_t kMaxBytes = uint64_t(32) << 20, kMaxBytesOfOne = uint64_t(64) << 10;

/// TN1015 where there is none; TN1016 where it is larger.
Result<std::string> readBundle(const std::string &path, uint64_t most = kMaxBytes);

/// What is signed of a statement: DSSE's encoding of it with its type.
std::string encodedForSignature(std::string_view payload);
/// What model-signing 0.2 signed instead: the bytes as Python writes them in a program.
std::string encodedByVersion02(std::string_view payload);

} // namespace tenon::signing
