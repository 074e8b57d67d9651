#include "registry/signing/OpenSsl.h"

#include "registry/signing/Digest.h"
#include "support/files/MappedFile.h"
#include "support/text/Printable.h"

#include <fmt/format.h>

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/pem.h>

namespace tenon::signing {
namespace {

constexpr uint64_t kMaxKeyFile = 4 << 20;

using Memory = Handle<BIO, BIO_free_all>;

std::string contentOf(BIO *memory) {
  char *data = nullptr;
  long size = BIO_get_mem_data(memory, &data);
  return std::string(data, static_cast<size_t>(size));
}

} // namespace

OSSL_LIB_CTX *ownContext() {
  static OSSL_LIB_CTX *const context = OSSL_LIB_CTX_new();
  return context;
}

std::string lastProblem() {
  unsigned long code = ERR_peek_last_error();
  const char *reason = ERR_reason_error_string(code);
  ERR_clear_error();
  return reason ? reason : "not in the expected format";
}

Result<std::string> readKeyFile(const std::string &path) {
  TENON_ASSIGN(FileReader file, FileReader::open(path));
  if (file.size() > kMaxKeyFile) {
    return Status::error(ErrorId::BadSigningKey,
                         fmt::format("'{}' is too large for a key or certificate", path),
                         "give a PEM file");
  }
  std::string text(file.size(), '\0');
  TENON_TRY(file.read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

const char *hashOfKey(EVP_PKEY *key) {
  char group[32] = "";
  size_t size = 0;
  bool isCurve =
      EVP_PKEY_is_a(key, "EC") &&
      EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, group, sizeof(group), &size);
  std::string_view name = isCurve ? std::string_view(group, size) : std::string_view();
  ERR_clear_error();
  return name == "prime256v1"  ? "SHA256"
         : name == "secp384r1" ? "SHA384"
         : name == "secp521r1" ? "SHA512"
                               : nullptr;
}

std::string pemOf(EVP_PKEY *key) {
  Memory pem(BIO_new(BIO_s_mem()));
  PEM_write_bio_PUBKEY_ex(pem.get(), key, ownContext(), nullptr);
  return contentOf(pem.get());
}

std::string fingerprintOf(EVP_PKEY *key) {
  std::string text = pemOf(key);
  Digest digest("sha256");
  digest.update(std::as_bytes(std::span(text)));
  return digest.finish();
}

std::string subjectOf(X509 *certificate) {
  Memory text(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(text.get(), X509_get_subject_name(certificate), 0,
                     XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB);
  return withoutControls(contentOf(text.get()).substr(0, 200));
}

Certificate certificateOf(std::string_view der) {
  const unsigned char *at = reinterpret_cast<const unsigned char *>(der.data());
  X509 *certificate = X509_new_ex(ownContext(), nullptr);
  const unsigned char *end = at + der.size();
  // Frees the certificate where it fails.
  bool isOne = d2i_X509(&certificate, &at, static_cast<long>(der.size())) && at == end;
  Certificate owned(certificate);
  ERR_clear_error();
  return isOne ? std::move(owned) : nullptr;
}

} // namespace tenon::signing
