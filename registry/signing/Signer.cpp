#include "registry/signing/Signer.h"

#include "registry/signing/Bundle.h"
#include "registry/signing/OpenSsl.h"
#include "registry/signing/PemFile.h"

#include <fmt/format.h>

#include <openssl/err.h>
#include <openssl/pem.h>

namespace tenon::signing {
namespace {

Status badKey(const std::string &path, std::string_view why) {
  return Status::error(ErrorId::BadSigningKey, fmt::format("the key '{}' {}", path, why),
                       "openssl ecparam -name prime256v1 -genkey -noout -out key.pem creates one");
}

/// Nobody is asked for a passphrase.
int noPassphrase(char *, int, int, void *) { return -1; }

Result<Key> readPrivateKey(const std::string &path) {
  TENON_ASSIGN(std::string text, readKeyFile(path));
  Handle<BIO, BIO_free_all> memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  Key key(PEM_read_bio_PrivateKey_ex(memory.get(), nullptr, noPassphrase, nullptr, ownContext(),
                                     nullptr));
  OPENSSL_cleanse(text.data(), text.size());
  if (!key) {
    bool isPublic = text.empty();
    ERR_clear_error();
    return badKey(path, isPublic ? "is empty"
                                 : "is not a private key in a PEM file, or has a passphrase");
  }
  return hashOfKey(key.get()) ? Result<Key>(std::move(key))
                              : badKey(path, "is on a curve other than P-256, P-384 and P-521");
}

} // namespace

struct Signer::State {
  Key key;
  std::vector<std::string> certificates; ///< DER
};

Signer::Signer(std::unique_ptr<State> state) : state(std::move(state)) {}
Signer::~Signer() = default;
Signer::Signer(Signer &&) noexcept = default;
Signer &Signer::operator=(Signer &&) noexcept = default;

Result<Signer> Signer::open(const std::string &path, const std::vector<std::string> &certificates) {
  std::unique_ptr<State> state = std::make_unique<State>();
  TENON_ASSIGN(state->key, readPrivateKey(path));
  TENON_ASSIGN(PemFile chain, PemFile::open(certificates));
  if (!chain.keys.empty() || (!certificates.empty() && chain.certificates.empty())) {
    return badKey(certificates.front(), "is a public key, not a certificate");
  }
  if (!certificates.empty() &&
      EVP_PKEY_eq(X509_get0_pubkey(chain.certificates.front().get()), state->key.get()) != 1) {
    return badKey(path, fmt::format("does not belong to the first certificate, {}",
                                    subjectOf(chain.certificates.front().get())));
  }
  for (const Certificate &each : chain.certificates) {
    unsigned char *der = nullptr;
    int size = i2d_X509(each.get(), &der);
    state->certificates.emplace_back(reinterpret_cast<const char *>(der),
                                     static_cast<size_t>(size));
    OPENSSL_free(der);
  }
  return Signer(std::move(state));
}

Result<std::string> Signer::sign(const Manifest &manifest) const {
  Bundle bundle;
  TENON_ASSIGN(bundle.payload, statementOf(manifest));
  std::string text = encodedForSignature(bundle.payload);
  const unsigned char *bytes = reinterpret_cast<const unsigned char *>(text.data());
  Handle<EVP_MD_CTX, EVP_MD_CTX_free> context(EVP_MD_CTX_new());
  size_t size = static_cast<size_t>(EVP_PKEY_get_size(state->key.get()));
  bundle.signature.resize(size);
  bool isSigned =
      EVP_DigestSignInit_ex(context.get(), nullptr, hashOfKey(state->key.get()), ownContext(),
                            nullptr, state->key.get(), nullptr) == 1 &&
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char *>(bundle.signature.data()),
                     &size, bytes, text.size()) == 1;
  if (!isSigned) {
    return Status::error(ErrorId::BadSigningKey,
                         fmt::format("the key cannot sign: {}", lastProblem()),
                         "create another key");
  }
  bundle.signature.resize(size);
  bundle.fingerprint = fingerprintOf(state->key.get());
  bundle.certificates = state->certificates;
  return formatBundle(bundle);
}

} // namespace tenon::signing
