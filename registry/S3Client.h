// Requests to S3, or what speaks its protocol: signed, tried again where the server is overloaded
// or the connection is lost, with what the server said in each error. It relies on support/web.

#pragma once

#include "support/Result.h"
#include "support/web/WebClient.h"

#include <functional>
#include <string>
#include <vector>

namespace tenon::registry {

/// From the environment: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL (else Amazon's of the region),
/// AWS_REGION or AWS_DEFAULT_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN,
/// AWS_CA_BUNDLE.
struct S3Settings {
  std::string endpoint;
  WebSignature signature;
  std::string sessionToken;
  std::string certificates;

  /// TN0105 where there are no keys.
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

  /// Sends a file whose SHA-256 is known: the server refuses other bytes.
  Status put(const std::string &key, const std::string &file, const std::string &hash) const;
  /// Into a file, of which what is there already is kept: a transfer that broke goes on where it
  /// ended, and is tried again as long as bytes come. False where there is no such key. Between
  /// pieces `isCancelled`, where it is not empty, may end it.
  Result<bool> get(const std::string &key, const std::string &file,
                   const std::function<bool()> &isCancelled = {}) const;
  Result<std::vector<S3Object>> list() const;
  /// Also where there is none.
  Status remove(const std::string &key) const;
  /// s3://BUCKET/PREFIX/KEY, for messages.
  std::string nameOf(const std::string &key) const;

private:
  WebRequest request(const char *method, const std::string &key) const;
  std::string urlOf(const std::string &key) const;
  /// Any reply but those that another try may change.
  Result<WebReply> perform(const WebRequest &request, const std::string &name) const;

  const S3Settings settings;
  const std::string bucket, prefix;
};

} // namespace tenon::registry
