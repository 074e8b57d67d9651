#include "registry/signing/Bundle.h"

#include "registry/signing/Digest.h"
#include "registry/signing/OpenSsl.h"
#include "registry/signing/SignedJson.h"
#include "support/files/MappedFile.h"

#include <fmt/format.h>

namespace tenon::signing {
namespace {

constexpr const char *kMediaType = "application/vnd.dev.sigstore.bundle.v0.3+json";
constexpr const char *kPayloadType = "application/vnd.in-toto+json";
constexpr size_t kMaxCertificates = 16;
constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

Status bad(std::string_view what) {
  return Status::error(ErrorId::SignatureWrong, fmt::format("the signature {}", what),
                       "sign the model again with `tenon sign`");
}

std::string encodeBase64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0'); // and the 0 at the end
  EVP_EncodeBlock(reinterpret_cast<unsigned char *>(text.data()),
                  reinterpret_cast<const unsigned char *>(bytes.data()),
                  static_cast<int>(bytes.size()));
  text.pop_back();
  return text;
}

/// Empty for what is no base64 (RFC 4648, with its padding) and for no bytes.
std::string decodeBase64(std::string_view text) {
  size_t digits = text.find_last_not_of('=') + 1, padding = text.size() - digits;
  if (text.empty() || text.size() % 4 != 0 || padding > 2 ||
      text.find_first_not_of(kLetters) < digits) {
    return "";
  }
  std::string bytes(text.size() / 4 * 3, '\0');
  EVP_DecodeBlock(reinterpret_cast<unsigned char *>(bytes.data()),
                  reinterpret_cast<const unsigned char *>(text.data()),
                  static_cast<int>(text.size()));
  bytes.resize(bytes.size() - padding);
  return bytes;
}

std::string fingerprintIn(const Json &key) {
  std::string pem = decodeBase64(textOf(key, "rawBytes")); // before model-signing 1.1
  if (pem.empty()) {
    return textOf(key, "hint");
  }
  Digest digest("sha256");
  digest.update(std::as_bytes(std::span(pem)));
  return digest.finish();
}

Status readMaterial(const Json &material, Bundle &bundle) {
  const Json &key = member(material, "publicKey"),
             &chain = member(material, "x509CertificateChain"),
             &keyless = member(material, "certificate");
  if (key.is_object() + chain.is_object() + keyless.is_object() != 1) {
    return bad("does not name the one key or certificate that made it");
  }
  if (keyless.is_object()) {
    return Status::error(ErrorId::SignatureMissing,
                         "the signature was made without a key, by Sigstore's service",
                         "`tenon sign` signs with a key or a certificate");
  }
  if (key.is_object()) {
    bundle.fingerprint = fingerprintIn(key);
    return Status::ok();
  }
  const Json &certificates = member(chain, "certificates");
  if (!certificates.is_array() || certificates.empty() || certificates.size() > kMaxCertificates) {
    return bad("has a certificate chain that is empty or too long");
  }
  for (const Json &each : certificates) {
    bundle.certificates.push_back(decodeBase64(textOf(each, "rawBytes")));
  }
  return Status::ok();
}

} // namespace

Result<Bundle> parseBundle(std::string_view text) {
  if (text.size() > kMaxBytes) {
    return bad("is too large for a signature");
  }
  Json root;
  TENON_TRY(parseSignedJson(text, "the signature", root));
  if (textOf(root, "mediaType") != kMediaType) {
    return bad(fmt::format("is not a Sigstore bundle of type {}", kMediaType));
  }
  Bundle bundle;
  TENON_TRY(readMaterial(member(root, "verificationMaterial"), bundle));
  const Json &envelope = member(root, "dsseEnvelope"), &signatures = member(envelope, "signatures");
  if (textOf(envelope, "payloadType") != kPayloadType || root.contains("messageSignature")) {
    return bad(fmt::format("does not sign a statement of type {}", kPayloadType));
  }
  if (!signatures.is_array() || signatures.size() != 1) {
    return bad(fmt::format("has {} signatures instead of one",
                           signatures.is_array() ? signatures.size() : 0));
  }
  bundle.payload = decodeBase64(textOf(envelope, "payload"));
  bundle.signature = decodeBase64(textOf(signatures[0], "sig"));
  return !bundle.payload.empty() && !bundle.signature.empty()
             ? Result<Bundle>(std::move(bundle))
             : bad("lacks the signed content or its signature");
}

std::string formatBundle(const Bundle &bundle) {
  Json material = {{"publicKey", {{"hint", bundle.fingerprint}}}};
  if (!bundle.certificates.empty()) {
    Json certificates = Json::array();
    for (const std::string &each : bundle.certificates) {
      certificates.push_back({{"rawBytes", encodeBase64(each)}});
    }
    material = {{"x509CertificateChain", {{"certificates", certificates}}}};
  }
  material["tlogEntries"] = Json::array();
  Json envelope = {{"payload", encodeBase64(bundle.payload)},
                   {"payloadType", kPayloadType},
                   {"signatures", {{{"sig", encodeBase64(bundle.signature)}, {"keyid", ""}}}}};
  return dumpJson(
      {{"mediaType", kMediaType}, {"verificationMaterial", material}, {"dsseEnvelope", envelope}});
}

Result<std::string> readBundle(const std::string &path, uint64_t most) {
  Result<FileReader> file = FileReader::open(path);
  if (!file.isOk() && file.status().id() == ErrorId::FileNotFound) {
    return Status::error(ErrorId::SignatureMissing, fmt::format("there is no signature '{}'", path),
                         "`tenon sign` creates one");
  }
  TENON_TRY(file.takeStatus());
  if (file->size() > most) {
    return bad(fmt::format("'{}' is too large for a signature", path));
  }
  std::string text(file->size(), '\0');
  TENON_TRY(file->read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

std::string encodedForSignature(std::string_view payload) {
  return fmt::format("DSSEv1 {} {} {} {}", std::string_view(kPayloadType).size(), kPayloadType,
                     payload.size(), payload);
}

std::string encodedByVersion02(std::string_view payload) {
  char quote = payload.find('\'') != payload.npos && payload.find('"') == payload.npos ? '"' : '\'';
  std::string written;
  for (unsigned char byte : payload) {
    if (byte == '\\' || byte == quote) {
      written += fmt::format("\\{:c}", byte);
    } else if (byte == '\n' || byte == '\r' || byte == '\t') {
      written += byte == '\n' ? "\\n" : byte == '\r' ? "\\r" : "\\t";
    } else {
      written += byte < ' ' || byte > '~' ? fmt::format("\\x{:02x}", byte)
                                          : std::string(1, static_cast<char>(byte));
    }
  }
  return fmt::format("DSSEV1 {} {} {} b{}{}{}", std::string_view(kPayloadType).size(), kPayloadType,
                     payload.size(), quote, written, quote);
}

} // namespace tenon::signing
