#include "registry/S3Client.h"

#include "support/Environment.h"
#include "support/text/Printable.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

namespace tenon::registry {
namespace {

constexpr int kTries = 5;
constexpr std::chrono::milliseconds kFirstPause{100}; // doubled before each further try
constexpr size_t kMaxSaid = 300;
constexpr int kTooManyRequests = 429, kServerError = 500, kNotFound = 404, kOk = 200,
              kNoContent = 204, kPartialContent = 206;

std::string firstOf(std::initializer_list<const char *> names) {
  for (const char *name : names) {
    std::string value = environment(name);
    if (!value.empty()) {
      return value;
    }
  }
  return "";
}

/// What is between <tag> and </tag> behind `from`, which goes behind it; empty where there is none.
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

Status failed(const WebReply &reply, const std::string &name) {
  std::string code(element(reply.body, "Code")), said(element(reply.body, "Message"));
  std::string text = code.empty()   ? reply.body
                     : said.empty() ? code
                                    : fmt::format("{}: {}", code, said);
  return Status::error(ErrorId::StoreFailed,
                       fmt::format("'{}': the object store answers {} {}", name, reply.status,
                                   withoutControls(text.substr(0, kMaxSaid))),
                       reply.status < kServerError
                           ? "look at the bucket's name and rights, and at AWS_ACCESS_KEY_ID, "
                             "AWS_SECRET_ACCESS_KEY and AWS_REGION"
                           : "try again; look at the log of the object store");
}

uintmax_t sizeOf(const std::string &file) {
  std::error_code none;
  uintmax_t bytes = file.empty() ? 0 : std::filesystem::file_size(file, none);
  return none ? 0 : bytes;
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

} // namespace

Result<S3Settings> S3Settings::fromEnvironment() {
  S3Settings settings;
  settings.signature.service = "s3";
  settings.signature.region = firstOf({"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (settings.signature.region.empty()) {
    settings.signature.region = "us-east-1";
  }
  settings.endpoint = firstOf({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  if (settings.endpoint.empty()) {
    settings.endpoint = fmt::format("https://s3.{}.amazonaws.com", settings.signature.region);
  }
  settings.endpoint.resize(settings.endpoint.find_last_not_of('/') + 1);
  settings.signature.keyId = environment("AWS_ACCESS_KEY_ID");
  settings.signature.secret = environment("AWS_SECRET_ACCESS_KEY");
  settings.sessionToken = environment("AWS_SESSION_TOKEN");
  settings.certificates = environment("AWS_CA_BUNDLE");
  if (settings.signature.keyId.empty() || settings.signature.secret.empty()) {
    return Status::error(ErrorId::BadArgument,
                         "the registry's files are in S3, and the environment has no keys for it",
                         "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
  }
  return settings;
}

std::string S3Client::nameOf(const std::string &key) const {
  return fmt::format("s3://{}/{}{}", bucket, prefix, key);
}
std::string S3Client::urlOf(const std::string &key) const {
  return fmt::format("{}/{}/{}{}", settings.endpoint, bucket, prefix, key);
}

WebRequest S3Client::request(const char *method, const std::string &key) const {
  WebRequest request;
  request.method = method;
  request.url = urlOf(key);
  request.signature = settings.signature;
  request.certificates = settings.certificates;
  if (!settings.sessionToken.empty()) {
    request.headers.push_back("x-amz-security-token: " + settings.sessionToken);
  }
  return request;
}

Result<WebReply> S3Client::perform(const WebRequest &request, const std::string &name) const {
  std::chrono::milliseconds pause = kFirstPause;
  uintmax_t before = sizeOf(request.downloadPath);
  for (int attempt = 1;; ++attempt, pause *= 2) {
    Result<WebReply> reply = fetch(request);
    bool isLost = !reply.isOk() && reply.status().id() == ErrorId::WebFailed;
    bool isOverloaded =
        reply.isOk() && (reply->status >= kServerError || reply->status == kTooManyRequests);
    if (!isLost && !isOverloaded) {
      return reply;
    }
    uintmax_t after = sizeOf(request.downloadPath);
    if (after > before) { // it moves, if with breaks
      attempt = 1;
      pause = kFirstPause;
      before = after;
    }
    if (attempt == kTries || (request.isCancelled && request.isCancelled())) {
      return isOverloaded
                 ? Result<WebReply>(failed(*reply, name))
                 : Status::error(ErrorId::StoreFailed,
                                 fmt::format("'{}': {}", name, reply.status().message()),
                                 "look whether the object store runs and can be reached from here");
    }
    std::this_thread::sleep_for(pause);
  }
}

Status S3Client::put(const std::string &key, const std::string &file,
                     const std::string &hash) const {
  WebRequest put = request("PUT", key);
  put.uploadPath = file;
  put.headers.push_back("x-amz-content-sha256: " + hash);
  TENON_ASSIGN(WebReply reply, perform(put, nameOf(key)));
  return reply.status == kOk ? Status::ok() : failed(reply, nameOf(key));
}

Result<bool> S3Client::get(const std::string &key, const std::string &file,
                           const std::function<bool()> &isCancelled) const {
  WebRequest get = request("GET", key);
  get.downloadPath = file;
  get.resumes = true;
  get.isCancelled = isCancelled;
  TENON_ASSIGN(WebReply reply, perform(get, nameOf(key)));
  if (reply.status == kNotFound && element(reply.body, "Code") != "NoSuchBucket") {
    return false;
  }
  return reply.status == kOk || reply.status == kPartialContent ? Result<bool>(true)
                                                                : failed(reply, nameOf(key));
}

Result<std::vector<S3Object>> S3Client::list() const {
  std::vector<S3Object> objects;
  std::string last;
  for (bool isMore = true; isMore;) {
    WebRequest list = request("GET", "");
    // In the order of the alphabet, as the signature has them.
    list.url = fmt::format("{}/{}?list-type=2&prefix={}{}", settings.endpoint, bucket,
                           percent(prefix), last.empty() ? "" : "&start-after=" + percent(last));
    TENON_ASSIGN(WebReply reply, perform(list, nameOf("")));
    if (reply.status != kOk || reply.body.find("<ListBucketResult") == reply.body.npos) {
      return failed(reply, nameOf(""));
    }
    isMore = false;
    size_t from = 0;
    for (std::string_view row = element(reply.body, "Contents", from); from != reply.body.npos;
         row = element(reply.body, "Contents", from)) {
      std::string_view key = element(row, "Key"), size = element(row, "Size");
      uint64_t bytes = 0;
      std::from_chars(size.data(), size.data() + size.size(), bytes);
      isMore = isMore || key > last; // a server that gives the same page again would never end
      last = std::max(last, std::string(key));
      if (key.starts_with(prefix)) {
        objects.push_back({std::string(key.substr(prefix.size())), bytes});
      }
    }
    isMore = isMore && element(reply.body, "IsTruncated") == "true";
  }
  return objects;
}

Status S3Client::remove(const std::string &key) const {
  TENON_ASSIGN(WebReply reply, perform(request("DELETE", key), nameOf(key)));
  bool isGone = reply.status == kNoContent || reply.status == kOk ||
                (reply.status == kNotFound && element(reply.body, "Code") != "NoSuchBucket");
  return isGone ? Status::ok() : failed(reply, nameOf(key));
}

} // namespace tenon::registry
