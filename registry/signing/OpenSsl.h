// libcrypto with owners for what it hands out. Everything is done in a context of its own, which
// reads no configuration: the environment of a process cannot change what is verified.

#pragma once

#include "support/Result.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <string_view>

namespace tenon::signing {

template <auto Free> struct Freer {
  template <typename Type> void operator()(Type *object) const { Free(object); }
};
template <typename Type, auto Free> using Handle = std::unique_ptr<Type, Freer<Free>>;
using Key = Handle<EVP_PKEY, EVP_PKEY_free>;
using Certificate = Handle<X509, X509_free>;

/// Of the process, for all threads, made by the first call.
OSSL_LIB_CTX *ownContext();

/// What went wrong last in libcrypto, for a message; forgets it and what was before.
std::string lastProblem();

/// A file of at most a few megabytes, TN1017.
Result<std::string> readKeyFile(const std::string &path);

/// The hash that signatures of the key are made with; null for keys that are none of P-256, P-384
/// and P-521.
const char *hashOfKey(EVP_PKEY *key);

/// The public key as a PEM file.
std::string pemOf(EVP_PKEY *key);

/// What a bundle calls the key: SHA-256 of that.
std::string fingerprintOf(EVP_PKEY *key);

/// The names of a certificate's subject, for a message.
std::string subjectOf(X509 *certificate);

/// The certificate in these bytes, which are all of it; null where they are none.
Certificate certificateOf(std::string_view der);

} // namespace tenon::signing
