// One request over HTTP or HTTPS by libcurl, which is opened when the first request is made:
// programs that make none need no libcurl, and none is linked.

#pragma once

#include "support/Result.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tenon {

/// Signs a request as S3 wants it (AWS Signature Version 4).
struct WebSignature {
  std::string region;
  std::string service; ///< "s3"; empty: the request is not signed
  std::string keyId;
  std::string secret;
};

struct WebRequest {
  std::string method = "GET";
  std::string url;
  std::vector<std::string> headers; ///< "Name: value"
  std::string body;                 ///< to send, where uploadPath is empty
  std::string uploadPath;           ///< of a file to send
  uint64_t uploadFrom = 0;          ///< the first byte of it that is sent
  uint64_t uploadBytes = 0;         ///< how many; 0: to its end
  std::string downloadPath; ///< of a file that takes the body of a reply 200 or 206; others have it
                            ///< in WebReply
  /// What the download's file has already is kept, and only the rest is asked for. A server that
  /// knows no ranges, and so names none in its reply, sends all of it again.
  bool resumes = false;
  std::function<bool()> isCancelled; ///< asked about once a second; TN0150 where it says so
  WebSignature signature;
  std::string certificates; ///< PEM file of those who may have signed the server's certificate;
                            ///< empty: the system's
  std::chrono::milliseconds patience{30'000}; ///< without a byte in either direction
  uint64_t mostBytes = uint64_t(64) << 20;    ///< of a body that comes into WebReply
};

struct WebReply {
  int status = 0;
  std::map<std::string, std::string> headers; ///< names in lower case
  std::string body;
};

/// Any status is a reply: the caller judges it. TN0150 where none came, came whole or in time;
/// TN0721 without libcurl. May be called by any number of threads at once. Redirections are not
/// followed.
Result<WebReply> fetch(const WebRequest &request);

} // namespace tenon
