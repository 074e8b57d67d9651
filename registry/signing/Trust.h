// The keys and authorities whose signatures count.

#pragma once

#include "registry/signing/Manifest.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::signing {

struct PemFile;

/// A signature that is one, of somebody who is trusted.
struct Verified {
  std::string signer; ///< for people: "key 1a2b..." or "certificate CN=..."
  Manifest manifest;
};

/// For several threads at once.
class Trust {
public:
  /// PEM files, each with public keys on P-256, P-384 or P-521, certificates of authorities, or
  /// both. TN1017.
  static Result<Trust> open(const std::vector<std::string> &paths);
  /// The keys of lineOfKeys. TN1017.
  static Result<Trust> ofLine(std::string_view line);

  /// Its keys for people: "key 1a2b..., key 3c4d...".
  std::string text() const;

  /// TN1015 where the signature is of a key or certificate that is not trusted: another one, one of
  /// no trusted authority, one that is not valid now or not meant for signing. TN1016 where it is
  /// damaged or not of what is signed. The manifest says what was signed, and is still to be
  /// compared with what there is.
  Result<Verified> verify(std::string_view bundle) const;

private:
  struct State;
  explicit Trust(std::shared_ptr<const State> state);
  static Trust of(PemFile file);
  std::shared_ptr<const State> state;
};

/// Who a bundle says has signed what, unproven.
Result<Verified> describeBundle(std::string_view bundle);

} // namespace tenon::signing
