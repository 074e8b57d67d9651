// A private key that signs models.

#pragma once

#include "registry/signing/Manifest.h"

#include <memory>
#include <string>
#include <vector>

namespace tenon::signing {

/// Not for several threads at once.
class Signer {
public:
  /// `key` is a PEM file with a private key on P-256, P-384 or P-521 without a passphrase.
  /// `certificates` are PEM files: the certificate of the key first, then those that signed it;
  /// none for signatures that name the key alone. TN1017.
  static Result<Signer> open(const std::string &key, const std::vector<std::string> &certificates);
  ~Signer();
  Signer(Signer &&) noexcept;
  Signer &operator=(Signer &&) noexcept;

  /// The text of a bundle. ECDSA takes a random number: two are never the same.
  Result<std::string> sign(const Manifest &manifest) const;

private:
  struct State;
  explicit Signer(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace tenon::signing
