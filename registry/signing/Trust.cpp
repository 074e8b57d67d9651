// Certificates are valid if they are now: no trusted clock says when a signature was made, and one
// that could say so itself would be believed by nobody. A signer whose certificate ends signs
// again.

#include "registry/signing/Trust.h"

#include "registry/signing/Bundle.h"
#include "registry/signing/OpenSsl.h"
#include "registry/signing/PemFile.h"
#include "registry/signing/PublicKeys.h"

#include <fmt/format.h>

#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>

namespace tenon::signing {
namespace {

/// 112 bits of security: no SHA-1, no RSA below 2048 bits.
constexpr int kMinSecurity = 2;
constexpr size_t kShownDigits = 16;

Status untrusted(std::string_view why) {
  return Status::error(ErrorId::SignatureMissing, why,
                       "trust its key or authority, or have the model signed by a trusted one");
}

std::string describe(const Bundle &bundle) {
  if (bundle.certificates.empty()) {
    return bundle.fingerprint.empty()
               ? "a key without a name"
               : fmt::format("key {}", bundle.fingerprint.substr(0, kShownDigits));
  }
  Certificate first = certificateOf(bundle.certificates.front());
  return first ? fmt::format("certificate {}", subjectOf(first.get())) : "a damaged certificate";
}

bool isSignatureOf(EVP_PKEY *key, const char *hash, std::string_view signature,
                   std::string_view text) {
  Handle<EVP_MD_CTX, EVP_MD_CTX_free> context(EVP_MD_CTX_new());
  bool isOne =
      EVP_DigestVerifyInit_ex(context.get(), nullptr, hash, ownContext(), nullptr, key, nullptr) ==
          1 &&
      EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char *>(signature.data()),
                       signature.size(), reinterpret_cast<const unsigned char *>(text.data()),
                       text.size()) == 1;
  ERR_clear_error();
  return isOne;
}

/// Whether the certificate is meant for what signs models: code signing where it names purposes,
/// signatures where it names uses.
bool isForSigning(X509 *certificate) {
  uint32_t uses = X509_get_key_usage(certificate),
           purposes = X509_get_extended_key_usage(certificate);
  bool namesUses = X509_get_ext_by_NID(certificate, NID_key_usage, -1) >= 0,
       namesPurposes = X509_get_ext_by_NID(certificate, NID_ext_key_usage, -1) >= 0;
  bool allowsUse = !namesUses || (uses & KU_DIGITAL_SIGNATURE),
       allowsPurpose = !namesPurposes || (purposes & (XKU_CODE_SIGN | XKU_ANYEKU));
  return (namesUses || namesPurposes) && allowsUse && allowsPurpose;
}

using Store = Handle<X509_STORE, X509_STORE_free>;

/// The first certificate of the chain, if an authority of the store stands behind it.
Result<Certificate> checkChain(const Bundle &bundle, X509_STORE *authorities) {
  std::vector<Certificate> chain;
  Handle<STACK_OF(X509), +[](STACK_OF(X509) * stack) { sk_X509_free(stack); }> others(
      sk_X509_new_null());
  for (const std::string &der : bundle.certificates) {
    chain.push_back(certificateOf(der));
    if (!chain.back()) {
      return Status::error(ErrorId::SignatureWrong, "the signature has a damaged certificate",
                           "sign the model again with `tenon sign`");
    }
    sk_X509_push(others.get(), chain.back().get());
  }
  Handle<X509_STORE_CTX, X509_STORE_CTX_free> context(X509_STORE_CTX_new_ex(ownContext(), nullptr));
  X509_STORE_CTX_init(context.get(), authorities, chain.front().get(), others.get());
  X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(context.get()), kMinSecurity);
  bool isTrusted = X509_verify_cert(context.get()) == 1;
  std::string reason = X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
  ERR_clear_error();
  if (!isTrusted) {
    return untrusted(
        fmt::format("the signature is by {}, which is not trusted: {}", describe(bundle), reason));
  }
  if (!isForSigning(chain.front().get())) {
    return untrusted(fmt::format("the signature is by {}, which is not meant for code signing",
                                 describe(bundle)));
  }
  return std::move(chain.front());
}

} // namespace

struct Trust::State {
  std::vector<Key> keys;
  std::vector<std::string> fingerprints; ///< of the keys
  Store authorities;
};

Trust::Trust(std::shared_ptr<const State> state) : state(std::move(state)) {}

Result<Trust> Trust::open(const std::vector<std::string> &paths) {
  TENON_ASSIGN(PemFile file, PemFile::open(paths));
  return of(std::move(file));
}

Result<Trust> Trust::ofLine(std::string_view line) {
  TENON_ASSIGN(std::string pem, pemOfLine(line));
  PemFile file;
  TENON_TRY(PemFile::add("the rule", pem, file));
  return of(std::move(file));
}

Trust Trust::of(PemFile file) {
  std::shared_ptr<State> state = std::make_shared<State>();
  state->keys = std::move(file.keys);
  for (const Key &key : state->keys) {
    state->fingerprints.push_back(fingerprintOf(key.get()));
  }
  state->authorities.reset(X509_STORE_new());
  for (const Certificate &certificate : file.certificates) {
    X509_STORE_add_cert(state->authorities.get(), certificate.get());
  }
  return Trust(std::move(state));
}

std::string Trust::text() const {
  std::string text;
  for (const std::string &fingerprint : state->fingerprints) {
    text += fmt::format("{}key {}", text.empty() ? "" : ", ", fingerprint.substr(0, kShownDigits));
  }
  return text;
}

Result<Verified> Trust::verify(std::string_view text) const {
  TENON_ASSIGN(Bundle bundle, parseBundle(text));
  std::vector<EVP_PKEY *> keys;
  Certificate certificate;
  if (!bundle.certificates.empty()) {
    TENON_ASSIGN(certificate, checkChain(bundle, state->authorities.get()));
    keys = {X509_get0_pubkey(certificate.get())};
  }
  for (size_t i = 0; !certificate && i < state->keys.size(); ++i) {
    if (bundle.fingerprint.empty() || bundle.fingerprint == state->fingerprints[i]) {
      keys.push_back(state->keys[i].get());
    }
  }
  std::string encoded = encodedForSignature(bundle.payload), encoded02;
  Result<Manifest> manifest =
      parseStatement(bundle.payload); // told to nobody before its signature is verified
  bool mayBeOld = manifest.isOk() && manifest->isOfVersion02;
  for (EVP_PKEY *key : keys) {
    const char *hash = key ? hashOfKey(key) : nullptr;
    bool isOne = hash && (isSignatureOf(key, hash, bundle.signature, encoded) ||
                          (mayBeOld && isSignatureOf(key, "SHA256", bundle.signature,
                                                     encodedByVersion02(bundle.payload))));
    if (isOne) {
      TENON_TRY(manifest.takeStatus());
      std::string signer = bundle.certificates.empty()
                               ? fmt::format("key {}", fingerprintOf(key).substr(0, kShownDigits))
                               : describe(bundle);
      return Verified{std::move(signer), std::move(*manifest)};
    }
  }
  bool isNobodys = keys.empty() || (bundle.certificates.empty() && bundle.fingerprint.empty());
  return isNobodys
             ? untrusted(
                   fmt::format("the signature is by {}, which is not trusted", describe(bundle)))
             : Status::error(
                   ErrorId::SignatureWrong,
                   fmt::format(
                       "the signature by {} does not match the model: one of the two has changed",
                       describe(bundle)),
                   "get the model and its signature from their source again");
}

Result<Verified> describeBundle(std::string_view text) {
  TENON_ASSIGN(Bundle bundle, parseBundle(text));
  TENON_ASSIGN(Manifest manifest, parseStatement(bundle.payload));
  return Verified{describe(bundle), std::move(manifest)};
}

} // namespace tenon::signing
