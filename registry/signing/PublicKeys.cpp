#include "registry/signing/PublicKeys.h"

#include "registry/signing/PemFile.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace tenon::signing {
namespace {

constexpr std::string_view kBegin = "-----BEGIN PUBLIC KEY-----\n",
                           kEnd = "-----END PUBLIC KEY-----\n";
constexpr size_t kNameDigits = 16, kLine = 64;

std::string wordOf(EVP_PKEY *key) {
  std::string pem = pemOf(key);
  std::string body = pem.substr(kBegin.size(), pem.size() - kBegin.size() - kEnd.size());
  std::erase(body, '\n');
  return fmt::format("key {} {}", fingerprintOf(key).substr(0, kNameDigits), body);
}

} // namespace

Result<std::string> lineOfKeys(const std::string &path) {
  TENON_ASSIGN(PemFile file, PemFile::open({path}));
  if (!file.certificates.empty()) {
    return Status::error(
        ErrorId::BadSigningKey,
        fmt::format("'{}' contains a certificate, but a rule needs public keys", path),
        "openssl x509 -in certificate.pem -noout -pubkey writes the key of a certificate");
  }
  std::string line;
  for (const Key &key : file.keys) {
    line += (line.empty() ? "" : ", ") + wordOf(key.get());
  }
  return line;
}

Result<std::string> pemOfLine(std::string_view line) {
  std::string pem;
  std::vector<std::string> words;
  for (size_t begin = 0; begin < line.size();) {
    size_t end = std::min(line.find(", ", begin), line.size());
    words.emplace_back(line.substr(begin, end - begin));
    begin = end + 2;
    pem += kBegin;
    std::string body =
        words.back().substr(std::min(words.back().rfind(' ') + 1, words.back().size()));
    for (size_t at = 0; at < body.size(); at += kLine) {
      pem += body.substr(at, kLine) + "\n";
    }
    pem += kEnd;
  }
  PemFile file;
  TENON_TRY(PemFile::add("the rule", pem, file));
  // What is written of a key is what is read of it again.
  bool isSame = file.keys.size() == words.size();
  for (size_t i = 0; isSame && i < words.size(); ++i) {
    isSame = wordOf(file.keys[i].get()) == words[i];
  }
  return isSame ? Result<std::string>(std::move(pem))
                : Status::error(ErrorId::BadSigningKey, "the rule has a damaged key",
                                "set the rule again: 'signature PUBLIC.pem'");
}

} // namespace tenon::signing
