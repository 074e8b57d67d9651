// Requests to S3, or what speaks its protocol: signed, tried again where the server is overloaded
// or the connection is lost, with what the server said in each error. It relies on support/web.

#pragma once

#include "registry/Credentials.h"
#include "support/Result.h"
#include "support/web/WebClient.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon::registry {

/// From the environment: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL (else Amazon's of the region),
/// AWS_REGION or AWS_DEFAULT_REGION or what the profile says, AWS_CA_BUNDLE.
struct S3Settings {
  std::string endpoint;
  std::string region;
  std::string certificates;
  std::shared_ptr<Credentials> credentials;

  /// TN0105, TN1013 where there are no keys.
  static Result<S3Settings> fromEnvironment();
};

struct S3Object {
  std::string key; ///< within the prefix
  uint64_t bytes = 0;
};

/// Keys of a bucket below a prefix. Keys are letters, digits and '/', so that they stand in a URL
/// as they are. Every error of the server is TN1013; local files have their own errors.
class S3Client {
public:
  S3Client(S3Settings settings, std::string bucket, std::string prefix)
      : settings(std::move(settings)), bucket(std::move(bucket)), prefix(std::move(prefix)) {}

  /// Sends a file whose SHA-256 is known: the server refuses other bytes. What is larger than
  /// `partBytes` goes in parts of so many, each with its own SHA-256: one that fails is sent again
  /// by itself, and those that another process sent before it was killed are not sent again.
  Status put(const std::string &key, const std::string &file, const std::string &hash,
             uint64_t partBytes) const;
  /// Into a file, of which what is there already is kept: a transfer that broke goes on where it
  /// ended, and is tried again as long as bytes come. False where there is no such key. Between
  /// pieces `isCancelled`, where it is not empty, may end it.
  Result<bool> get(const std::string &key, const std::string &file,
                   const std::function<bool()> &isCancelled = {}) const;
  Result<std::vector<S3Object>> list() const;
  /// The bytes of an object; none where there is no such key.
  Result<std::optional<uint64_t>> sizeOf(const std::string &key) const;
  /// At most 1,000, in one request; also where there are none.
  Status remove(const std::vector<std::string> &keys) const;
  /// Ends uploads in parts that were begun so long ago that nobody goes on with them: S3 keeps, and
  /// charges for, the parts that came.
  Status abortUploads(std::chrono::hours age) const;
  /// s3://BUCKET/PREFIX/KEY, for messages.
  std::string nameOf(const std::string &key) const;

private:
  struct Upload {
    std::string key, id, begun;
  };
  WebRequest request(const char *method, const std::string &key) const;
  std::string urlOf(const std::string &key) const;
  /// Any reply but those that another try may change.
  Result<WebReply> perform(WebRequest request, const std::string &name) const;

  /// A request whose body is a text; its reply is 200 without an error in it.
  Result<WebReply> performText(WebRequest request, std::string body, const std::string &name) const;
  Status putWhole(const std::string &key, const std::string &file, const std::string &hash) const;
  Status putParts(const std::string &key, const std::string &file, uint64_t bytes,
                  uint64_t partBytes) const;
  /// Uploads in parts that have not ended, of keys that begin like that.
  Result<std::vector<Upload>> uploads(const std::string &key) const;
  /// Of an upload, the MD5 of its parts in hexadecimal digits, by their numbers.
  Result<std::map<uint64_t, std::string>> partsOf(const Upload &upload) const;
  Result<Upload> beginUpload(const std::string &key) const;
  /// The ETag of the part.
  Result<std::string> putPart(const Upload &upload, uint64_t number, const std::string &file,
                              uint64_t from, std::string_view bytes) const;
  Status endUpload(const Upload &upload, const std::map<uint64_t, std::string> &tags) const;
  Status abortUpload(const Upload &upload) const;

  const S3Settings settings;
  const std::string bucket, prefix;
};

} // namespace tenon::registry
