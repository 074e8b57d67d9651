#include "registry/S3Client.h"

#include "registry/S3Reply.h"
#include "registry/Sha256.h"
#include "support/Environment.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

namespace tenon::registry {
namespace {

constexpr int kTries = 5;
/// Some stores answer when they have removed all of a batch. All tries are over before anybody
/// takes the marks of a removal for left behind (Registry::areStored).
constexpr std::chrono::milliseconds kRemovalPatience{120'000};
constexpr std::chrono::milliseconds kFirstPause{100}; // doubled before each further try

std::string firstOf(std::initializer_list<const char *> names) {
  for (const char *name : names) {
    std::string value = environment(name);
    if (!value.empty()) {
      return value;
    }
  }
  return "";
}

uintmax_t downloadedBytes(const std::string &file) {
  std::error_code none;
  uintmax_t bytes = file.empty() ? 0 : std::filesystem::file_size(file, none);
  return none ? 0 : bytes;
}

} // namespace

Result<S3Settings> S3Settings::fromEnvironment() {
  S3Settings settings;
  Profiles profiles = Profiles::fromEnvironment();
  settings.region = firstOf({"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (settings.region.empty()) {
    settings.region = profiles.find(profiles.selected())["region"];
  }
  if (settings.region.empty()) {
    settings.region = "us-east-1";
  }
  settings.endpoint = firstOf({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  if (settings.endpoint.empty()) {
    settings.endpoint = fmt::format("https://s3.{}.amazonaws.com", settings.region);
  }
  settings.endpoint.resize(settings.endpoint.find_last_not_of('/') + 1);
  settings.certificates = environment("AWS_CA_BUNDLE");
  settings.credentials = std::make_shared<Credentials>(settings.region, settings.certificates);
  TENON_TRY(settings.credentials->current().takeStatus());
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
  request.certificates = settings.certificates;
  return request;
}

Result<WebReply> S3Client::perform(WebRequest request, const std::string &name) const {
  TENON_ASSIGN(Keys keys, settings.credentials->current());
  request.signature = {settings.region, "s3", keys.id, keys.secret};
  if (!keys.token.empty()) {
    request.headers.push_back("x-amz-security-token: " + keys.token);
  }
  std::chrono::milliseconds pause = kFirstPause;
  uintmax_t before = downloadedBytes(request.downloadPath);
  for (int attempt = 1;; ++attempt, pause *= 2) {
    Result<WebReply> reply = fetch(request);
    bool isLost = !reply.isOk() && reply.status().id() == ErrorId::WebFailed;
    bool isOverloaded =
        reply.isOk() && (reply->status >= kServerError || reply->status == kTooManyRequests);
    if (!isLost && !isOverloaded) {
      return reply;
    }
    uintmax_t after = downloadedBytes(request.downloadPath);
    if (after > before) { // it moves, if with breaks
      attempt = 1;
      pause = kFirstPause;
      before = after;
    }
    if (attempt == kTries || (request.isCancelled && request.isCancelled())) {
      return isOverloaded
                 ? Result<WebReply>(storeFailed(*reply, name))
                 : Status::error(
                       ErrorId::StoreFailed,
                       fmt::format("'{}': {}", name, reply.status().message()),
                       "check that the object store is running and can be reached from here");
    }
    std::this_thread::sleep_for(pause);
  }
}

Status S3Client::putWhole(const std::string &key, const std::string &file,
                          const std::string &hash) const {
  WebRequest put = request("PUT", key);
  put.uploadPath = file;
  put.headers.push_back("x-amz-content-sha256: " + hash);
  TENON_ASSIGN(WebReply reply, perform(put, nameOf(key)));
  return reply.status == kOk ? Status::ok() : storeFailed(reply, nameOf(key));
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
                                                                : storeFailed(reply, nameOf(key));
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
      return storeFailed(reply, nameOf(""));
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

Result<WebReply> S3Client::performText(WebRequest request, std::string body,
                                       const std::string &name) const {
  request.headers.push_back("x-amz-content-sha256: " + sha256Of(body));
  request.body = std::move(body);
  TENON_ASSIGN(WebReply reply, perform(request, name));
  // Where the work took long S3 says 200 first, and then what went wrong.
  bool isDone = reply.status == kOk && reply.body.find("<Error>") == reply.body.npos;
  return isDone ? Result<WebReply>(std::move(reply)) : storeFailed(reply, name);
}

Result<std::optional<uint64_t>> S3Client::sizeOf(const std::string &key) const {
  TENON_ASSIGN(WebReply reply, perform(request("HEAD", key), nameOf(key)));
  if (reply.status == kNotFound) {
    return std::optional<uint64_t>();
  }
  if (reply.status != kOk) {
    return storeFailed(reply, nameOf(key));
  }
  const std::string &length = reply.headers["content-length"];
  uint64_t bytes = 0;
  std::from_chars(length.data(), length.data() + length.size(), bytes);
  return std::optional(bytes);
}

Status S3Client::remove(const std::vector<std::string> &keys) const {
  std::string body = "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (const std::string &key : keys) {
    body += fmt::format("<Object><Key>{}</Key></Object>", escaped(prefix + key));
  }
  body += "<Quiet>true</Quiet></Delete>";
  WebRequest remove = request("POST", "");
  remove.url = fmt::format("{}/{}?delete=", settings.endpoint, bucket);
  remove.patience = kRemovalPatience;
  remove.headers.push_back("Content-MD5: " + md5Base64(body));
  remove.headers.push_back("Content-Type: application/xml");
  return performText(std::move(remove), std::move(body), nameOf("")).takeStatus();
}

} // namespace tenon::registry
