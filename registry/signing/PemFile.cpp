#include "registry/signing/PemFile.h"

#include "support/text/Printable.h"

#include <fmt/format.h>

#include <openssl/err.h>
#include <openssl/pem.h>

namespace tenon::signing {
namespace {

Status bad(const std::string &path, std::string_view why) {
  return Status::error(
      ErrorId::BadSigningKey, fmt::format("'{}' {}", path, why),
      "openssl ec -in key.pem -pubout -out public.pem writes the public key of a private key");
}

/// One block between BEGIN and END.
struct Block {
  std::string label, content;
  bool isEncrypted = false;
};

/// False after the last.
bool nextBlock(BIO *memory, Block &block) {
  char *label = nullptr, *header = nullptr;
  unsigned char *data = nullptr;
  long size = 0;
  if (PEM_read_bio(memory, &label, &header, &data, &size) != 1) {
    return false;
  }
  block = {label, std::string(reinterpret_cast<const char *>(data), static_cast<size_t>(size)),
           *header != '\0'};
  OPENSSL_free(label);
  OPENSSL_free(header);
  OPENSSL_free(data);
  return true;
}

Status takeBlock(const std::string &path, const Block &block, PemFile &file) {
  if (block.label == "CERTIFICATE") {
    Certificate certificate = certificateOf(block.content);
    if (!certificate) {
      return bad(path, "has a damaged certificate");
    }
    file.certificates.push_back(std::move(certificate));
    return Status::ok();
  }
  if (block.label == "PUBLIC KEY") {
    const unsigned char *at = reinterpret_cast<const unsigned char *>(block.content.data()),
                        *end = at + block.content.size();
    Key key(d2i_PUBKEY_ex(nullptr, &at, static_cast<long>(block.content.size()), ownContext(),
                          nullptr));
    bool isCurve = key && at == end && hashOfKey(key.get());
    ERR_clear_error();
    if (!isCurve) {
      return bad(path, key ? "has a public key on a curve other than P-256, P-384 and P-521"
                           : "has a damaged public key");
    }
    file.keys.push_back(std::move(key));
    return Status::ok();
  }
  bool isPrivate = block.label.ends_with("PRIVATE KEY");
  return bad(path,
             isPrivate
                 ? "contains a private key, but a public key or certificate is expected"
                 : fmt::format("contains a '{}', which is neither a public key nor a certificate",
                               withoutControls(block.label.substr(0, 64))));
}

} // namespace

Result<PemFile> PemFile::open(const std::vector<std::string> &paths) {
  PemFile file;
  for (const std::string &path : paths) {
    TENON_ASSIGN(std::string text, readKeyFile(path));
    TENON_TRY(add(path, text, file));
  }
  return file;
}

Status PemFile::add(const std::string &path, const std::string &text, PemFile &file) {
  Handle<BIO, BIO_free_all> memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  size_t before = file.keys.size() + file.certificates.size();
  for (Block block; nextBlock(memory.get(), block);) {
    TENON_TRY(takeBlock(path, block, file));
  }
  bool isEnd = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  return isEnd && file.keys.size() + file.certificates.size() > before
             ? Status::ok()
             : bad(path, isEnd ? "contains no public key or certificate in PEM format"
                               : "is a damaged PEM file");
}

} // namespace tenon::signing
