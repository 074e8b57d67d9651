#include "registry/S3Reply.h"

#include "support/text/Printable.h"

#include <fmt/format.h>

#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/evp.h>
#include <openssl/md5.h>

namespace tenon::registry {
namespace {

constexpr size_t kMaxSaid = 300;

std::string md5Of(std::string_view bytes) {
  std::string digest(MD5_DIGEST_LENGTH, '\0');
  MD5(reinterpret_cast<const unsigned char *>(bytes.data()), bytes.size(),
      reinterpret_cast<unsigned char *>(digest.data()));
  return digest;
}

} // namespace

std::string_view element(std::string_view xml, std::string_view tag, size_t &from) {
  std::string open = fmt::format("<{}>", tag), close = fmt::format("</{}>", tag);
  size_t start = xml.find(open, from);
  size_t end = start == xml.npos ? xml.npos : xml.find(close, start);
  if (end == xml.npos) {
    from = xml.npos;
    return {};
  }
  from = end + close.size();
  return xml.substr(start + open.size(), end - start - open.size());
}

std::string_view element(std::string_view xml, std::string_view tag) {
  size_t from = 0;
  return element(xml, tag, from);
}

Status storeFailed(const WebReply &reply, const std::string &name) {
  std::string code(element(reply.body, "Code")), said(element(reply.body, "Message"));
  std::string text = code.empty()   ? reply.body
                     : said.empty() ? code
                                    : fmt::format("{}: {}", code, said);
  return Status::error(ErrorId::StoreFailed,
                       fmt::format("'{}': the object store answers {} {}", name, reply.status,
                                   withoutControls(text.substr(0, kMaxSaid))),
                       reply.status < kServerError
                           ? "check the bucket's name and permissions, and AWS_ACCESS_KEY_ID, "
                             "AWS_SECRET_ACCESS_KEY and AWS_REGION"
                           : "try again; see the log of the object store");
}

std::string percent(std::string_view text) {
  std::string encoded;
  for (char c : text) {
    bool isPlain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                   c == '-' || c == '_' || c == '.' || c == '~';
    encoded += isPlain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text) {
    result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  }
  return result;
}

std::time_t secondsOf(const std::string &text) {
  std::tm parts = {};
  return ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) ? ::timegm(&parts)
                                                               : std::time(nullptr);
}

std::string md5Digits(std::string_view bytes) {
  std::string digits;
  for (char byte : md5Of(bytes)) {
    digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return digits;
}

std::string md5Base64(std::string_view bytes) {
  std::string digest = md5Of(bytes), text(2 * digest.size(), '\0');
  int size = EVP_EncodeBlock(reinterpret_cast<unsigned char *>(text.data()),
                             reinterpret_cast<const unsigned char *>(digest.data()),
                             static_cast<int>(digest.size()));
  text.resize(static_cast<size_t>(size));
  return text;
}

} // namespace tenon::registry
